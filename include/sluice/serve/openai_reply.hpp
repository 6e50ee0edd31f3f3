// SPDX-License-Identifier: Apache-2.0
// Requests, errors and responses of the OpenAI API: whole completions, chunks and other events of a stream.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/model/decoder/sampler.hpp"
#include "sluice/model/tokenizer/chat.hpp"
#include "sluice/serve/http.hpp"
#include "sluice/workload/request.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

// Completion and ApiError: requests and errors of the OpenAI API.

/// The treatment of a field that neither the API nor this server defines.
enum class UnknownFields : std::uint8_t {
  refused, ///< the default: a misspelt field must not be ignored silently
  ignored  ///< --lenient: for clients that send additional fields
};

/// One prompt of `/v1/completions`: text or tokens.
struct CompletionPrompt {
  std::string text;
  std::vector<std::int32_t> tokens;
  bool is_tokens = false;
};

/// A body of `/v1/chat/completions` or `/v1/completions`, parsed and checked as far as possible without the model.
struct Completion {
  bool chat = false;
  bool response = false;                  ///< the request came by /v1/responses, whose answers have another form
  std::string model;                      ///< empty: the model that is served
  std::vector<ChatMessage> messages;      ///< of a chat
  std::vector<CompletionPrompt> prompts;  ///< of a completion: at least one
  std::optional<std::int64_t> max_tokens; ///< a limit; absent: the rest of the context (chat), or 16; 0: no answer
  int choices = 1;                        ///< "n": answers per prompt
  Sampling sampling{.temperature = 1};
  bool seeded = false; ///< the client set `seed`: the same request gets the same tokens
  std::vector<std::string> stop;
  std::vector<std::int32_t> stop_tokens; ///< "stop_token_ids", as in vLLM: end the answer like an end token
  bool include_stop = false;             ///< "include_stop_str_in_output": the text includes the stop string
  LogitRules rules;                      ///< excludes bad words, which need the tokenizer
  std::vector<std::string> bad_words;
  bool ignore_end = false; ///< "ignore_eos", as in vLLM: end tokens do not end the answer
  bool stream = false;
  bool include_usage = false;    ///< "stream_options": the stream ends with a chunk that has the usage
  bool continuous_usage = false; ///< and, with `include_usage`, every chunk has the usage so far, as in vLLM
  bool echo = false;             ///< the answer begins with the prompt
  /// The prompt's tokens have log-probabilities too, like the answer that repeats the prompt.
  [[nodiscard]] bool scores_prompt() const { return echo && logprobs >= 0; }
  int logprobs = -1;  ///< log-probabilities of each token and this many alternatives; below 0: none
  Slo slo;            ///< "slo": {"ttft_ms", "tbt_ms"}; infinite where absent
  int priority = 0;   ///< "priority": lower is served first, as in vLLM
  SessionHints hints; ///< "kv_hints": {"ttl", "keep", "release", "prefetch"}
};

/// An error in the OpenAI API's form: {"error": {"message", "type", "param", "code"}}.
struct ApiError {
  int status = 400;
  std::string message;
  std::string type = "invalid_request_error";
  std::string param; ///< empty: written as null
  std::string code;  ///< empty: written as null
};

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

[[nodiscard]] HttpResponse error_response(const ApiError& error);

/// Adds when to retry, in `seconds` above 0: `Retry-After` in whole seconds, and `retry-after-ms`, which OpenAI's own
/// clients prefer.
void add_retry_after(HttpHeaders& headers, double seconds);

namespace detail {

/// Returns the number of UTF-8 characters. A character whose bytes are in several tokens counts where it begins.
[[nodiscard]] std::int64_t characters(std::string_view text);

} // namespace detail

/// Returns the body of a response that is not streamed.
[[nodiscard]] std::string completion_json(const ReplyHead& head, std::span<const Choice> choices,
                                          const TokenUsage& usage);

/// Writes the events of one choice's stream. The parts that all chunks share are written once, so that a token costs
/// little more than escaping its text.
class ChunkWriter {
 public:
  /// Usage in the chunks of text.
  enum class Usage : std::uint8_t {
    absent,
    null,      ///< the stream ends with a chunk that has it
    continuous ///< each chunk has that of its choice so far
  };

  /// `prompt`: the tokens of the choice's prompt.
  ChunkWriter(const ReplyHead& head, std::int64_t index, Usage usage, std::int64_t prompt = 0);

  /// Sets the tokens that the choice has so far, for the usage of the next chunks.
  void generated(std::int64_t tokens) { so_far_.completion = tokens; }

  /// Writes the first chunk of a chat, which has the role and no text.
  void role(std::string& out) const { chunk(out, "\"delta\":{\"role\":\"assistant\",\"content\":\"\"}", {}, nullptr); }

  /// Writes a piece of text, with the log-probabilities of its tokens if requested.
  void text(std::string& out, std::string_view piece, const std::vector<TokenLogprob>* logprobs = nullptr);
  /// Writes the last chunk of the choice, with the log-probabilities of final tokens that have no text.
  void finish(std::string& out, FinishReason reason, const std::vector<TokenLogprob>* logprobs = nullptr) const;

 private:
  void chunk(std::string& out, std::string_view content, std::string_view reason,
             const std::vector<TokenLogprob>* logprobs) const;

  std::string begin_; ///< the beginning of each chunk, up to and including the choice's index
  bool chat_;
  Usage usage_;
  TokenUsage so_far_;
  std::int64_t offset_ = 0; ///< characters of text so far
};

/// Returns the event with a stream's usage, which has no choices.
[[nodiscard]] std::string usage_event(const ReplyHead& head, const TokenUsage& usage);
/// Returns the event of an error in the middle of a stream, whose HTTP status has been sent.
[[nodiscard]] std::string error_event(const ApiError& error);
inline constexpr std::string_view done_event = "data: [DONE]\n\n";

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/serve/openai_reply.inl.hpp"
#endif
