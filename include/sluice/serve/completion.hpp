// SPDX-License-Identifier: Apache-2.0
// Completion: what a client of the OpenAI API asks for, and the errors that it is answered with.
#pragma once

#include "sluice/decoder/sampler.hpp"
#include "sluice/tokenizer/chat.hpp"
#include "sluice/workload/request.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

/// One prompt of `/v1/completions`: a text, or tokens.
struct CompletionPrompt {
  std::string text;
  std::vector<std::int32_t> tokens;
  bool is_tokens = false;
};

/// A body of `/v1/chat/completions` or `/v1/completions`, read and checked as far as it can be without the model.
struct Completion {
  bool chat = false;
  std::string model;                      ///< empty: whatever is served
  std::vector<ChatMessage> messages;      ///< of a chat
  std::vector<CompletionPrompt> prompts;  ///< of a completion: at least one
  std::optional<std::int64_t> max_tokens; ///< a bound; absent: what fits the context (a chat), or 16
  int choices = 1;                        ///< "n": answers to each prompt
  Sampling sampling{.temperature = 1};
  bool seeded = false; ///< the client has given `seed`: the same request gets the same tokens
  std::vector<std::string> stop;
  bool ignore_end = false; ///< "ignore_eos", as vLLM has it: the end token ends nothing
  bool stream = false;
  bool include_usage = false; ///< "stream_options": a last chunk with the usage
  bool echo = false;          ///< the prompt first
  int logprobs = -1;          ///< of each token and of so many likeliest; below 0: none
  Slo slo;                    ///< "slo": {"ttft_ms", "tbt_ms"}; infinite where not given
  int priority = 0;           ///< "priority": lower is served first, as vLLM has it
};

/// An error as the OpenAI API spells it: {"error": {"message", "type", "param", "code"}}.
struct ApiError {
  int status = 400;
  std::string message;
  std::string type = "invalid_request_error";
  std::string param; ///< empty: null
  std::string code;  ///< empty: null
};

} // namespace sluice
