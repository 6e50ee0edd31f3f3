// SPDX-License-Identifier: Apache-2.0
// Completion and ApiError: requests and errors of the OpenAI API.
#pragma once

#include "sluice/model/decoder/logit_rules.hpp"
#include "sluice/model/decoder/sampler.hpp"
#include "sluice/model/tokenizer/chat.hpp"
#include "sluice/workload/request.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

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
  bool include_usage = false; ///< "stream_options": the stream ends with a chunk that has the usage
  bool echo = false;          ///< the answer begins with the prompt
  /// The prompt's tokens have log-probabilities too, like the answer that repeats the prompt.
  [[nodiscard]] bool scores_prompt() const { return echo && logprobs >= 0; }
  int logprobs = -1; ///< log-probabilities of each token and this many alternatives; below 0: none
  Slo slo;           ///< "slo": {"ttft_ms", "tbt_ms"}; infinite where absent
  int priority = 0;  ///< "priority": lower is served first, as in vLLM
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

} // namespace sluice
