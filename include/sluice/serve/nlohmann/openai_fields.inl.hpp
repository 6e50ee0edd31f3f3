// SPDX-License-Identifier: Apache-2.0
// refuse_fields: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/nearest.hpp"
#include "sluice/core/text.hpp"
#include "sluice/serve/nlohmann/openai_fields.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace sluice::detail {

SLUICE_SERVER_INLINE ApiError api_error(std::string param, std::string message) {
  ApiError error;
  error.message = std::move(message);
  error.param = std::move(param);
  return error;
}

SLUICE_SERVER_INLINE ApiError api_error(std::string param, const Error& error) {
  return api_error(std::move(param),
                   without_controls(error.what + (error.expected.empty() ? "" : "; expected " + error.expected)));
}

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

inline constexpr std::string_view chat_read[]{"messages", "max_completion_tokens", "top_logprobs"};

inline constexpr UnsupportedField text_unsupported[]{
    {"suffix", R"("")"}, {"add_special_tokens", "true"}, {"prompt_embeds", "null"}};

inline constexpr std::string_view text_read[]{"prompt", "echo"};

SLUICE_SERVER_INLINE bool lists(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Returns the error for an unknown field. `where`: the object that contains it ("/v1/completions", "slo").
[[nodiscard]] inline ApiError unknown_field(const std::string& param, std::string_view where,
                                            std::span<const std::string_view> known) {
  const std::string name = without_controls(excerpt(param));
  return api_error(name, name + " is no field of " + std::string{where} + did_you_mean(name, known) +
                             "; expected none, or a server with --lenient, which ignores it");
}

SLUICE_SERVER_INLINE std::optional<ApiError> only_fields(const nlohmann::json& object, const std::string& param,
                                                         std::string_view where,
                                                         std::span<const std::string_view> known) {
  for (auto field = object.begin(); field != object.end(); ++field)
    if (!lists(known, field.key())) return unknown_field(param + field.key(), where, known);
  return std::nullopt;
}

SLUICE_SERVER_INLINE std::optional<ApiError>
refuse_unsupported(const nlohmann::json& body, std::span<const UnsupportedField> list, std::string_view where) {
  for (const UnsupportedField& one : list) {
    const auto field = body.find(one.name);
    if (field == body.end() || field->is_null() || *field == nlohmann::json::parse(one.neutral)) continue;
    const std::string name{one.name};
    return api_error(name, name + " is not supported " + std::string{where} + "; expected none" +
                               (one.neutral == "null" ? "" : ", or " + std::string{one.neutral}));
  }
  return std::nullopt;
}

} // namespace sluice::detail

namespace sluice {

SLUICE_SERVER_INLINE std::optional<ApiError> refuse_fields(const nlohmann::json& body, bool chat,
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
