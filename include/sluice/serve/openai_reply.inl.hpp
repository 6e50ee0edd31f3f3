// SPDX-License-Identifier: Apache-2.0
// Responses of the OpenAI API: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/utf8.hpp"
#include "sluice/report/observer/json_writer.hpp"
#include "sluice/serve/openai_reply.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

namespace sluice {

SLUICE_INLINE HttpResponse error_response(const ApiError& error) {
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

SLUICE_INLINE void add_retry_after(HttpHeaders& headers, double seconds) {
  // At least 1 ms: clients would take a 0 for "at once". The subtraction keeps 20.0000000001 s at 20 s.
  const auto milliseconds = static_cast<std::int64_t>(std::max(1.0, std::ceil(seconds * 1e3 - 1e-6)));
  headers.add("Retry-After", std::to_string((milliseconds + 999) / 1000));
  headers.add("retry-after-ms", std::to_string(milliseconds));
}

} // namespace sluice

namespace sluice::detail {

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

SLUICE_INLINE std::int64_t characters(std::string_view text) {
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

} // namespace sluice::detail

namespace sluice {

SLUICE_INLINE std::string completion_json(const ReplyHead& head, std::span<const Choice> choices,
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

SLUICE_INLINE ChunkWriter::ChunkWriter(const ReplyHead& head, std::int64_t index, Usage usage, std::int64_t prompt)
    : chat_(head.chat), usage_(usage), so_far_{.prompt = prompt} {
  JsonWriter json(begin_);
  begin_ = "data: ";
  json.begin_object();
  detail::write_head(json, head, true);
  json.key("choices").begin_array().begin_object().key("index").value(index);
}

SLUICE_INLINE void ChunkWriter::text(std::string& out, std::string_view piece,
                                     const std::vector<TokenLogprob>* logprobs) {
  std::string content = chat_ ? "\"delta\":{\"content\":" : "\"text\":";
  JsonWriter(content).value(piece);
  if (chat_) content += '}';
  chunk(out, content, {}, logprobs);
  offset_ += detail::characters(piece);
}

SLUICE_INLINE void ChunkWriter::finish(std::string& out, FinishReason reason,
                                       const std::vector<TokenLogprob>* logprobs) const {
  chunk(out, chat_ ? "\"delta\":{}" : "\"text\":\"\"", finish_name(reason), logprobs);
}

SLUICE_INLINE void ChunkWriter::chunk(std::string& out, std::string_view content, std::string_view reason,
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
  out += "}]";
  if (usage_ == Usage::null) out += ",\"usage\":null";
  if (usage_ == Usage::continuous) {
    std::string object;
    JsonWriter json(object);
    json.begin_object();
    detail::write_usage(json, so_far_);
    out += ',';
    out += std::string_view(object).substr(1); // without the opening brace
  }
  out += "}\n\n";
}

SLUICE_INLINE std::string usage_event(const ReplyHead& head, const TokenUsage& usage) {
  std::string text = "data: ";
  JsonWriter json(text);
  json.begin_object();
  detail::write_head(json, head, true);
  json.key("choices").begin_array().end_array();
  detail::write_usage(json, usage);
  json.end_object();
  return text + "\n\n";
}

SLUICE_INLINE std::string error_event(const ApiError& error) { return "data: " + error_response(error).body + "\n\n"; }

} // namespace sluice
