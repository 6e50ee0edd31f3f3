// SPDX-License-Identifier: Apache-2.0
// refuse_fields: refuses fields of a request's body that would change the answer and that this server does not support.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/nearest.hpp"
#include "sluice/core/text.hpp"
#include "sluice/serve/completion.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

/// The treatment of a field that neither the API nor this server defines.
enum class UnknownFields : std::uint8_t {
  refused, ///< the default: a misspelt field must not be ignored silently
  ignored  ///< --lenient: for clients that send additional fields
};

namespace detail {

[[nodiscard]] inline ApiError api_error(std::string param, std::string message) {
  ApiError error;
  error.message = std::move(message);
  error.param = std::move(param);
  return error;
}
/// Returns a field reader's error: "temperature is 3; expected …".
[[nodiscard]] inline ApiError api_error(std::string param, const Error& error) {
  return api_error(std::move(param),
                   without_controls(error.what + (error.expected.empty() ? "" : "; expected " + error.expected)));
}

/// A field of the API or of vLLM that this server does not support.
struct UnsupportedField {
  std::string_view name;
  std::string_view neutral; ///< the value without effect, as JSON; null always passes
};

inline constexpr std::string_view both_read[]{"model",
                                              "max_tokens",
                                              "n",
                                              "temperature",
                                              "top_p",
                                              "top_k",
                                              "seed",
                                              "stop",
                                              "stop_token_ids",
                                              "include_stop_str_in_output",
                                              "bad_words",
                                              "min_tokens",
                                              "logit_bias",
                                              "presence_penalty",
                                              "frequency_penalty",
                                              "repetition_penalty",
                                              "ignore_eos",
                                              "stream",
                                              "logprobs",
                                              "stream_options",
                                              "slo",
                                              "priority"};

/// OpenAI's fields for accounting, storage, routing and caching, and vLLM's settings of features that a request must
/// enable with another field, which is refused.
inline constexpr std::string_view both_harmless[]{"user",
                                                  "metadata",
                                                  "store",
                                                  "service_tier",
                                                  "safety_identifier",
                                                  "prompt_cache_key",
                                                  "prompt_cache_retention",
                                                  "parallel_tool_calls",
                                                  "request_id",
                                                  "cache_salt",
                                                  "include_reasoning",
                                                  "length_penalty",
                                                  "guided_decoding_backend",
                                                  "guided_whitespace_pattern"};

inline constexpr UnsupportedField both_unsupported[]{{"response_format", R"({"type":"text"})"},
                                                     {"min_p", "0"},
                                                     {"best_of", "1"},
                                                     {"use_beam_search", "false"},
                                                     {"allowed_token_ids", "null"},
                                                     {"logits_processors", "null"},
                                                     {"skip_special_tokens", "true"},
                                                     {"spaces_between_special_tokens", "true"},
                                                     {"truncate_prompt_tokens", "null"},
                                                     {"prompt_logprobs", "null"},
                                                     {"return_tokens_as_token_ids", "false"},
                                                     {"return_token_ids", "false"},
                                                     {"structured_outputs", "null"},
                                                     {"guided_json", "null"},
                                                     {"guided_regex", "null"},
                                                     {"guided_choice", "null"},
                                                     {"guided_grammar", "null"},
                                                     {"structural_tag", "null"},
                                                     {"kv_transfer_params", "null"},
                                                     {"vllm_xargs", "null"}};

inline constexpr UnsupportedField chat_unsupported[]{{"tools", "[]"},
                                                     {"tool_choice", R"("none")"},
                                                     {"functions", "[]"},
                                                     {"function_call", R"("none")"},
                                                     {"modalities", R"(["text"])"},
                                                     {"audio", "null"},
                                                     {"prediction", "null"},
                                                     {"reasoning_effort", "null"},
                                                     {"verbosity", R"("medium")"},
                                                     {"web_search_options", "null"},
                                                     {"echo", "false"},
                                                     {"add_special_tokens", "false"},
                                                     {"add_generation_prompt", "true"},
                                                     {"continue_final_message", "false"},
                                                     {"documents", "null"},
                                                     {"chat_template", "null"},
                                                     {"chat_template_kwargs", "null"},
                                                     {"mm_processor_kwargs", "null"},
                                                     {"media_io_kwargs", "null"}};
inline constexpr std::string_view chat_read[]{"messages", "max_completion_tokens", "top_logprobs"};

inline constexpr UnsupportedField text_unsupported[]{
    {"suffix", R"("")"}, {"add_special_tokens", "true"}, {"prompt_embeds", "null"}};
inline constexpr std::string_view text_read[]{"prompt", "echo"};

/// Fields of stream_options. OpenAI's obfuscation adds bytes that no client shows.
inline constexpr std::string_view stream_known[]{"include_usage", "include_obfuscation", "continuous_usage_stats"};
inline constexpr UnsupportedField stream_unsupported[]{{"continuous_usage_stats", "false"}};

/// Returns whether a list of names contains a name.
[[nodiscard]] inline bool lists(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Returns the error for an unknown field. `where`: the object that contains it ("/v1/completions", "slo").
[[nodiscard]] inline ApiError unknown_field(const std::string& param, std::string_view where,
                                            std::span<const std::string_view> known) {
  const std::string name = without_controls(excerpt(param));
  return api_error(name, name + " is no field of " + std::string{where} + did_you_mean(name, known) +
                             "; expected none, or a server with --lenient, which ignores it");
}

/// Returns the error for the first field of `object` that no list contains. `param`: the prefix of the name in the
/// error ("slo.").
[[nodiscard]] inline std::optional<ApiError> only_fields(const nlohmann::json& object, const std::string& param,
                                                         std::string_view where,
                                                         std::span<const std::string_view> known) {
  for (auto field = object.begin(); field != object.end(); ++field)
    if (!lists(known, field.key())) return unknown_field(param + field.key(), where, known);
  return std::nullopt;
}

/// Returns the error for a field of `list` whose value would change the answer.
[[nodiscard]] inline std::optional<ApiError> refuse_unsupported(const nlohmann::json& body,
                                                                std::span<const UnsupportedField> list,
                                                                std::string_view where = "by this server") {
  for (const UnsupportedField& one : list) {
    const auto field = body.find(one.name);
    if (field == body.end() || field->is_null() || *field == nlohmann::json::parse(one.neutral)) continue;
    const std::string name{one.name};
    return api_error(name, name + " is not supported " + std::string{where} + "; expected none" +
                               (one.neutral == "null" ? "" : ", or " + std::string{one.neutral}));
  }
  return std::nullopt;
}

} // namespace detail

/// Refuses a field that would change the answer if it were used: a field of the API or of vLLM that this server does
/// not support, unless its value has no effect, and, depending on `unknown`, a field that neither of them defines.
/// Fields that do not change the answer pass.
[[nodiscard]] inline std::optional<ApiError> refuse_fields(const nlohmann::json& body, bool chat,
                                                           UnknownFields unknown) {
  using namespace detail;
  if (std::optional<ApiError> error = refuse_unsupported(body, both_unsupported)) return error;
  const std::span<const UnsupportedField> own =
      chat ? std::span<const UnsupportedField>{chat_unsupported} : std::span<const UnsupportedField>{text_unsupported};
  if (std::optional<ApiError> error = refuse_unsupported(body, own)) return error;
  if (unknown == UnknownFields::ignored) return std::nullopt;
  std::vector<std::string_view> known;
  const auto add = [&known](std::span<const std::string_view> names) {
    known.insert(known.end(), names.begin(), names.end());
  };
  add(both_read);
  add(both_harmless);
  add(chat ? std::span<const std::string_view>{chat_read} : std::span<const std::string_view>{text_read});
  for (const UnsupportedField& one : both_unsupported) known.push_back(one.name);
  for (const UnsupportedField& one : own) known.push_back(one.name);
  return only_fields(body, "", chat ? "/v1/chat/completions" : "/v1/completions", known);
}

} // namespace sluice
