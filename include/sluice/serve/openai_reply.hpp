// SPDX-License-Identifier: Apache-2.0
// Responses of the OpenAI API: whole completions, chunks and other events of a stream, errors.
#pragma once

#include "sluice/core/utf8.hpp"
#include "sluice/report/observer/json_writer.hpp"
#include "sluice/serve/completion.hpp"
#include "sluice/serve/http.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

/// Why an answer ended, in the API's terms.
enum class FinishReason : std::uint8_t {
  stop,  ///< an end token or a stop string
  length ///< `max_tokens`, or the context
};
[[nodiscard]] constexpr std::string_view finish_name(FinishReason reason) {
  return reason == FinishReason::stop ? "stop" : "length";
}

struct TokenUsage {
  std::int64_t prompt = 0;
  std::int64_t completion = 0;
  std::optional<std::int64_t> cached{}; ///< part of `prompt`: found in a tier; none: the server has no tier
};

/// A token's log-probability, and those of the likeliest alternatives.
struct TokenLogprob {
  struct Likely {
    std::string text; ///< the token's bytes, which may be part of a character
    double logprob = 0;
  };
  Likely chosen;
  std::vector<Likely> likeliest; ///< highest first
  bool known = true;             ///< false: the first token of a prompt, which has no predecessor; its logprob is null
  bool shown = true;             ///< false: a special token, which the text omits
};

/// The fields that all answers to one request share.
struct ReplyHead {
  std::string id; ///< "chatcmpl-…", "cmpl-…"
  bool chat = false;
  std::int64_t created = 0; ///< seconds since 1970
  std::string model;
  std::string fingerprint{}; ///< system_fingerprint: identifies the program and weights that compute the answer; empty:
                             ///< the field is omitted
};

/// One whole choice.
struct Choice {
  std::string text;
  FinishReason reason = FinishReason::stop;
  std::vector<TokenLogprob> logprobs; ///< empty: not requested
  bool with_logprobs = false;
  std::int64_t echoed = 0; ///< characters of the prompt at the beginning of the text
};

[[nodiscard]] inline HttpResponse error_response(const ApiError& error) {
  HttpResponse response;
  response.status = error.status;
  response.why = error.message;
  JsonWriter json(response.body);
  const auto or_null = [&](std::string_view key, const std::string& value) {
    json.key(key);
    if (value.empty())
      json.null();
    else
      json.value(value);
  };
  json.begin_object().key("error").begin_object();
  json.key("message").value(error.message).key("type").value(error.type);
  or_null("param", error.param);
  or_null("code", error.code);
  json.end_object().end_object();
  return response;
}

namespace detail {

inline void write_usage(JsonWriter& json, const TokenUsage& usage) {
  json.key("usage").begin_object();
  json.key("prompt_tokens").value(usage.prompt).key("completion_tokens").value(usage.completion);
  json.key("total_tokens").value(usage.prompt + usage.completion);
  if (usage.cached)
    json.key("prompt_tokens_details").begin_object().key("cached_tokens").value(*usage.cached).end_object();
  json.end_object();
}

inline void write_bytes(JsonWriter& json, const std::string& text) {
  json.key("bytes").begin_array();
  for (const char byte : text) json.value(static_cast<int>(static_cast<unsigned char>(byte)));
  json.end_array();
}

/// Returns the number of UTF-8 characters. A character whose bytes are in several tokens counts where it begins.
[[nodiscard]] inline std::int64_t characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char byte) { return (byte & 0xC0) != 0x80; });
}

/// `logprobs`: for chat a list of tokens; for completions parallel lists, with each token's offset in the text.
inline void write_logprobs(JsonWriter& json, bool chat, std::span<const TokenLogprob> tokens, std::int64_t offset) {
  json.key("logprobs").begin_object();
  if (chat) {
    json.key("content").begin_array();
    for (const TokenLogprob& token : tokens) {
      json.begin_object().key("token").value(token.chosen.text).key("logprob").value(token.chosen.logprob);
      write_bytes(json, token.chosen.text);
      json.key("top_logprobs").begin_array();
      for (const TokenLogprob::Likely& likely : token.likeliest) {
        json.begin_object().key("token").value(likely.text).key("logprob").value(likely.logprob);
        write_bytes(json, likely.text);
        json.end_object();
      }
      json.end_array().end_object();
    }
    json.end_array().end_object();
    return;
  }
  json.key("tokens").begin_array();
  for (const TokenLogprob& token : tokens) json.value(token.chosen.text);
  json.end_array().key("token_logprobs").begin_array();
  for (const TokenLogprob& token : tokens) {
    if (token.known)
      json.value(token.chosen.logprob);
    else
      json.null();
  }
  json.end_array().key("top_logprobs").begin_array();
  for (const TokenLogprob& token : tokens) {
    if (!token.known) {
      json.null();
      continue;
    }
    json.begin_object();
    std::vector<std::string> written; // parts of characters are all written as U+FFFD; the likeliest token gets that
                                      // name
    for (const TokenLogprob::Likely& likely : token.likeliest) {
      std::string text = replace_broken_utf8(likely.text);
      if (std::find(written.begin(), written.end(), text) != written.end()) continue;
      json.key(text).value(likely.logprob);
      written.push_back(std::move(text));
    }
    // OpenAI and vLLM list the chosen token, too, even if it is not among the likeliest: clients look it up.
    const std::string chosen = replace_broken_utf8(token.chosen.text);
    if (!token.likeliest.empty() && std::find(written.begin(), written.end(), chosen) == written.end())
      json.key(chosen).value(token.chosen.logprob);
    json.end_object();
  }
  json.end_array().key("text_offset").begin_array();
  for (const TokenLogprob& token : tokens) {
    json.value(offset);
    if (token.shown) offset += characters(token.chosen.text);
  }
  json.end_array().end_object();
}

inline void write_head(JsonWriter& json, const ReplyHead& head, bool chunk) {
  json.key("id").value(head.id);
  json.key("object").value(head.chat ? (chunk ? "chat.completion.chunk" : "chat.completion") : "text_completion");
  json.key("created").value(head.created).key("model").value(head.model);
  if (!head.fingerprint.empty()) json.key("system_fingerprint").value(head.fingerprint);
}

} // namespace detail

/// Returns the body of a response that is not streamed.
[[nodiscard]] inline std::string completion_json(const ReplyHead& head, std::span<const Choice> choices,
                                                 const TokenUsage& usage) {
  std::string text;
  JsonWriter json(text);
  json.begin_object();
  detail::write_head(json, head, false);
  json.key("choices").begin_array();
  std::int64_t index = 0;
  for (const Choice& choice : choices) {
    json.begin_object().key("index").value(index++);
    if (head.chat) {
      json.key("message").begin_object().key("role").value("assistant").key("content").value(choice.text);
      json.key("refusal").null().end_object();
    } else {
      json.key("text").value(choice.text);
    }
    if (choice.with_logprobs)
      detail::write_logprobs(json, head.chat, choice.logprobs, choice.echoed);
    else
      json.key("logprobs").null();
    json.key("finish_reason").value(finish_name(choice.reason)).end_object();
  }
  json.end_array();
  detail::write_usage(json, usage);
  json.end_object();
  return text;
}

/// Writes the events of one choice's stream. The parts that all chunks share are written once, so that a token costs
/// little more than escaping its text.
class ChunkWriter {
 public:
  ChunkWriter(const ReplyHead& head, std::int64_t index, bool include_usage)
      : chat_(head.chat), null_usage_(include_usage) {
    JsonWriter json(begin_);
    begin_ = "data: ";
    json.begin_object();
    detail::write_head(json, head, true);
    json.key("choices").begin_array().begin_object().key("index").value(index);
  }

  /// Writes the first chunk of a chat, which has the role and no text.
  void role(std::string& out) const { chunk(out, "\"delta\":{\"role\":\"assistant\",\"content\":\"\"}", {}, nullptr); }

  /// Writes a piece of text, with the log-probabilities of its tokens if requested.
  void text(std::string& out, std::string_view piece, const std::vector<TokenLogprob>* logprobs = nullptr) {
    std::string content = chat_ ? "\"delta\":{\"content\":" : "\"text\":";
    JsonWriter(content).value(piece);
    if (chat_) content += '}';
    chunk(out, content, {}, logprobs);
    offset_ += detail::characters(piece);
  }
  /// Writes the last chunk of the choice, with the log-probabilities of final tokens that have no text.
  void finish(std::string& out, FinishReason reason, const std::vector<TokenLogprob>* logprobs = nullptr) const {
    chunk(out, chat_ ? "\"delta\":{}" : "\"text\":\"\"", finish_name(reason), logprobs);
  }

 private:
  void chunk(std::string& out, std::string_view content, std::string_view reason,
             const std::vector<TokenLogprob>* logprobs) const {
    out += begin_;
    out += ',';
    out += content;
    if (logprobs != nullptr) {
      std::string object;
      JsonWriter json(object);
      json.begin_object();
      detail::write_logprobs(json, chat_, *logprobs, offset_);
      out += ',';
      out += std::string_view(object).substr(1); // without the opening brace
    } else {
      out += ",\"logprobs\":null";
    }
    out += ",\"finish_reason\":";
    if (reason.empty()) {
      out += "null";
    } else {
      out += '"';
      out += reason;
      out += '"';
    }
    out += null_usage_ ? "}],\"usage\":null}\n\n" : "}]}\n\n";
  }

  std::string begin_; ///< the beginning of each chunk, up to and including the choice's index
  bool chat_;
  bool null_usage_;
  std::int64_t offset_ = 0; ///< characters of text so far
};

/// Returns the event with a stream's usage, which has no choices.
[[nodiscard]] inline std::string usage_event(const ReplyHead& head, const TokenUsage& usage) {
  std::string text = "data: ";
  JsonWriter json(text);
  json.begin_object();
  detail::write_head(json, head, true);
  json.key("choices").begin_array().end_array();
  detail::write_usage(json, usage);
  json.end_object();
  return text + "\n\n";
}
/// Returns the event of an error in the middle of a stream, whose HTTP status has been sent.
[[nodiscard]] inline std::string error_event(const ApiError& error) {
  return "data: " + error_response(error).body + "\n\n";
}
inline constexpr std::string_view done_event = "data: [DONE]\n\n";

} // namespace sluice
