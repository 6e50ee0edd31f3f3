// SPDX-License-Identifier: Apache-2.0
// refuse_fields: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/text.hpp"
#include "sluice/serve/nlohmann/openai_fields.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <system_error>
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
                                              "priority",
                                              "kv_hints"};

/// OpenAI's fields for accounting, storage, routing and caching, and vLLM's settings of features that a request must
/// enable with another field, which is refused.
inline constexpr std::string_view both_harmless[]{"user",
                                                  "metadata",
                                                  "store",
                                                  "service_tier",
                                                  "safety_identifier",
                                                  "prompt_cache_key",
                                                  "prompt_cache_options",
                                                  "prompt_cache_retention",
                                                  "parallel_tool_calls",
                                                  "request_id",
                                                  "cache_salt",
                                                  "include_reasoning",
                                                  "length_penalty",
                                                  "guided_decoding_backend",
                                                  "guided_whitespace_pattern"};

inline constexpr std::string_view chat_read[]{"messages", "max_completion_tokens", "top_logprobs", "reasoning_effort"};

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

/// Returns whether a value is null, or an empty text, list or object.
[[nodiscard]] inline bool is_empty(const nlohmann::json& value) {
  return value.is_string() ? value.get_ref<const std::string&>().empty()
                           : (value.is_null() || value.is_structured()) && value.empty();
}

SLUICE_SERVER_INLINE std::optional<ApiError> only_fields(const nlohmann::json& object, const std::string& param,
                                                         std::string_view where,
                                                         std::span<const std::string_view> known) {
  for (auto field = object.begin(); field != object.end(); ++field)
    if (!is_empty(*field) && !lists(known, field.key())) return unknown_field(param + field.key(), where, known);
  return std::nullopt;
}

/// Returns whether a value is null, or the one without effect (UnsupportedField).
[[nodiscard]] inline bool has_no_effect(const nlohmann::json& value, const nlohmann::json& neutral) {
  if (value.is_null() || value == neutral) return true;
  if (!value.is_object() || !neutral.is_object()) return false;
  for (auto field = value.begin(); field != value.end(); ++field) {
    const auto own = neutral.find(field.key());
    if (!field->is_null() && (own == neutral.end() || !has_no_effect(*field, *own))) return false;
  }
  return true;
}

SLUICE_SERVER_INLINE std::optional<ApiError>
refuse_unsupported(const nlohmann::json& body, std::span<const UnsupportedField> list, std::string_view where) {
  for (const UnsupportedField& one : list) {
    const auto field = body.find(one.name);
    if (field == body.end()) continue;
    const auto other = [&body](std::string_view name) {
      const auto at = name.empty() ? body.end() : body.find(name);
      return at == body.end() ? nlohmann::json() : *at;
    };
    const nlohmann::json same = other(one.as);
    if (has_no_effect(*field, same.is_null() ? nlohmann::json::parse(one.neutral) : same)) continue;
    if (!one.of.empty() && *field == "auto" && is_empty(other(one.of))) continue;
    if (!one.also.empty() && *field == nlohmann::json::parse(one.also)) continue;
    if (other(one.off) == "none") continue;
    const std::string name{one.name};
    return api_error(name, name + " is not supported " + std::string{where} + "; expected none" +
                               (!same.is_null()         ? ", or " + without_controls(excerpt(same.dump()))
                                : one.neutral == "null" ? ""
                                                        : ", or " + std::string{one.neutral}));
  }
  return std::nullopt;
}

SLUICE_SERVER_INLINE std::optional<ApiError> refuse_effort(const nlohmann::json& object, const char* name,
                                                           std::string_view effort, const std::string& param) {
  const auto field = object.find(name);
  if (field == object.end() || field->is_null() || (!effort.empty() && *field == effort)) return std::nullopt;
  const std::string only = '"' + std::string{effort} + '"';
  return api_error(param,
                   (param == name ? param : param + "." + name) + " is " + without_controls(excerpt(field->dump())) +
                       "; this model's chat format " +
                       (effort.empty() ? "leaves the effort to the model; expected no such field"
                                       : "always asks for " + only + "; expected " + only + " or no such field"));
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

namespace sluice::detail {

SLUICE_SERVER_INLINE void CompletionFields::number(const char* name, double& into, double least, double most,
                                                   const std::string& expected) {
  if (error || !fields_.has(name)) return;
  const Expected<double> value = fields_.number(name, least, most, expected);
  if (!value) return fail(name, value.error());
  into = *value;
}

SLUICE_SERVER_INLINE void CompletionFields::flag(const char* name, bool& into) {
  if (error || !fields_.has(name)) return;
  const Expected<bool> value = fields_.flag(name);
  if (!value) return fail(name, value.error());
  into = *value;
}

SLUICE_SERVER_INLINE void CompletionFields::text(const char* name, std::string& into) {
  if (error || !fields_.has(name)) return;
  const Expected<std::string> value = fields_.text(name, "a string");
  if (!value) return fail(name, value.error());
  into = *value;
}

SLUICE_SERVER_INLINE void CompletionFields::fail(std::string param, std::string message) {
  if (!error) error = api_error(std::move(param), std::move(message));
}

inline void read_stop(CompletionFields& fields, std::vector<std::string>& into) {
  static constexpr std::size_t most = 16, longest = 512;
  if (fields.error || !fields.has("stop")) return;
  const nlohmann::json& stop = fields["stop"];
  const auto wrong = [&] {
    fields.fail("stop", "stop cannot be read; expected a string or at most 16 strings of 1 to 512 bytes");
  };
  const auto add = [&](const nlohmann::json& one) {
    if (!one.is_string()) return false;
    into.push_back(one.get<std::string>());
    return !into.back().empty() && into.back().size() <= longest;
  };
  if (!stop.is_array()) {
    if (!add(stop)) wrong();
    return;
  }
  if (stop.size() > most) return wrong();
  for (const nlohmann::json& one : stop)
    if (!add(one)) return wrong();
}

/// Reads "logit_bias": {"token": bias}.
inline void read_bias(CompletionFields& fields, std::vector<std::pair<std::int32_t, double>>& into) {
  static constexpr std::size_t most = 1024;
  if (fields.error || !fields.has("logit_bias")) return;
  const nlohmann::json& bias = fields["logit_bias"];
  bool good = bias.is_object() && bias.size() <= most;
  for (auto field = bias.begin(); good && field != bias.end(); ++field) {
    const std::string& name = field.key();
    std::int32_t token = -1;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), token);
    good = error == std::errc{} && end == name.data() + name.size() && token >= 0 && field.value().is_number() &&
           field.value().get<double>() >= -100 && field.value().get<double>() <= 100;
    if (good) into.emplace_back(token, field.value().get<double>());
  }
  if (!good)
    fields.fail("logit_bias", "logit_bias cannot be read; expected an object of at most 1024 tokens' numbers, "
                              "each with a bias from -100 to 100");
}

/// Fewer than any vocabulary has, so that some token can still be sampled.
inline constexpr std::size_t most_forbidden = 64;

inline void read_stop_tokens(CompletionFields& fields, std::vector<std::int32_t>& into) {
  if (fields.error || !fields.has("stop_token_ids")) return;
  const nlohmann::json& tokens = fields["stop_token_ids"];
  bool good = tokens.is_array() && tokens.size() <= most_forbidden;
  for (std::size_t i = 0; good && i < tokens.size(); ++i) {
    good = tokens[i].is_number_unsigned() && tokens[i].get<std::uint64_t>() <= INT32_MAX;
    if (good) into.push_back(tokens[i].get<std::int32_t>());
  }
  if (!good) fields.fail("stop_token_ids", "stop_token_ids is no list of at most 64 tokens; expected whole numbers");
}

inline void read_bad_words(CompletionFields& fields, std::vector<std::string>& into) {
  static constexpr std::size_t longest = 512;
  if (fields.error || !fields.has("bad_words")) return;
  const nlohmann::json& words = fields["bad_words"];
  bool good = words.is_array() && words.size() <= most_forbidden;
  for (std::size_t i = 0; good && i < words.size(); ++i) {
    good = words[i].is_string() && !words[i].get_ref<const std::string&>().empty() &&
           words[i].get_ref<const std::string&>().size() <= longest;
    if (good) into.push_back(words[i].get<std::string>());
  }
  if (!good) fields.fail("bad_words", "bad_words cannot be read; expected at most 64 strings of 1 to 512 bytes");
}

SLUICE_SERVER_INLINE void read_rules(CompletionFields& fields, Completion& into) {
  read_stop(fields, into.stop);
  read_stop_tokens(fields, into.stop_tokens);
  fields.flag("include_stop_str_in_output", into.include_stop);
  LogitRules& rules = into.rules;
  fields.number("presence_penalty", rules.presence, -2, 2, "a number from -2 to 2");
  fields.number("frequency_penalty", rules.frequency, -2, 2, "a number from -2 to 2");
  fields.number("repetition_penalty", rules.repetition, 0.01, 100, "a number from 0.01 to 100 (1: none)");
  read_bias(fields, rules.bias);
  read_bad_words(fields, into.bad_words);
  fields.whole("min_tokens", rules.min_tokens, 0, into.max_tokens.value_or(std::int64_t{1} << 30));
}

} // namespace sluice::detail
