// SPDX-License-Identifier: Apache-2.0
// refuse_fields: refuses fields of a request's body that would change the answer and that this server does not support.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/core/nlohmann/json_fields.hpp"
#include "sluice/serve/openai_reply.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace sluice {

namespace detail {

[[nodiscard]] ApiError api_error(std::string param, std::string message);
/// Returns a field reader's error: "temperature is 3; expected …".
[[nodiscard]] ApiError api_error(std::string param, const Error& error);

/// A field of the API or of vLLM that this server does not support.
struct UnsupportedField {
  std::string_view name;
  std::string_view neutral; ///< the value without effect, as JSON; null always passes. Of an object, each field may
                            ///< have its value without effect, be null, or be absent
  std::string_view of{}; ///< a list that this field is about: where it is absent or empty, "auto" has no effect either
  std::string_view also{}; ///< another value without effect, as JSON
  std::string_view off{};  ///< a field that leaves this one without effect if it is "none"
  std::string_view as{};   ///< a field: if it is there, its value is the one without effect
};

inline constexpr UnsupportedField both_unsupported[]{{"response_format", R"({"type":"text"})"},
                                                     {"min_p", "0"},
                                                     {"best_of", "1", {}, {}, {}, "n"},
                                                     {"use_beam_search", "false"},
                                                     {"allowed_token_ids", "null"},
                                                     {"logits_processors", "[]"},
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
                                                     {"kv_transfer_params", "{}"},
                                                     {"vllm_xargs", "{}"}};

inline constexpr UnsupportedField chat_unsupported[]{{"tools", "[]", {}, {}, "tool_choice"},
                                                     {"tool_choice", R"("none")", "tools"},
                                                     {"functions", "[]", {}, {}, "function_call"},
                                                     {"function_call", R"("none")", "functions"},
                                                     {"modalities", R"(["text"])"},
                                                     {"audio", "null"},
                                                     {"prediction", "null"},
                                                     {"verbosity", R"("medium")"},
                                                     {"web_search_options", "null"},
                                                     {"echo", "false"},
                                                     {"add_special_tokens", "false"},
                                                     {"add_generation_prompt", "true"},
                                                     {"continue_final_message", "false"},
                                                     {"documents", "[]"},
                                                     {"chat_template", "null"},
                                                     {"chat_template_kwargs", "{}"},
                                                     {"mm_processor_kwargs", "{}"},
                                                     {"media_io_kwargs", "{}"}};

/// Refuses the field `name`, a reasoning effort, unless it has the one value that has no effect: `effort`, or no value
/// if that is empty. `param`: the field of the body that the error is about, which is `name` itself or contains it.
[[nodiscard]] std::optional<ApiError> refuse_effort(const nlohmann::json& object, const char* name,
                                                    std::string_view effort, const std::string& param);

/// Fields of stream_options. OpenAI's obfuscation adds bytes that no client shows.
inline constexpr std::string_view stream_known[]{"include_usage", "include_obfuscation", "continuous_usage_stats"};

/// Returns whether a list of names contains a name.
[[nodiscard]] bool lists(std::span<const std::string_view> names, std::string_view name);

/// Returns the error for the first field of `object` that no list contains. Null and empty values ask for nothing:
/// clients write them for fields of other servers' APIs. `param`: the prefix of the name in the error ("slo.").
[[nodiscard]] std::optional<ApiError> only_fields(const nlohmann::json& object, const std::string& param,
                                                  std::string_view where, std::span<const std::string_view> known);

/// Returns the error for a field of `list` whose value would change the answer.
[[nodiscard]] std::optional<ApiError> refuse_unsupported(const nlohmann::json& body,
                                                         std::span<const UnsupportedField> list,
                                                         std::string_view where = "by this server");

} // namespace detail

/// Refuses a field that would change the answer if it were used: a field of the API or of vLLM that this server does
/// not support, unless its value has no effect, and, depending on `unknown`, a field that neither of them defines.
/// Fields that do not change the answer pass.
[[nodiscard]] std::optional<ApiError> refuse_fields(const nlohmann::json& body, bool chat, UnknownFields unknown);

} // namespace sluice

// CompletionFields: reads a request's fields one by one; read_rules: penalties, biases, forbidden words, stop tokens.
namespace sluice::detail {

/// Reads fields one after another until one is invalid.
class CompletionFields {
 public:
  explicit CompletionFields(const nlohmann::json& body) : body_(&body), fields_(body, "the body") {}

  template <class T>
  void whole(const char* name, T& into, std::int64_t least, std::int64_t most) {
    if (error || !fields_.has(name)) return;
    const Expected<std::int64_t> value = fields_.whole(name, least, most);
    if (!value) return fail(name, value.error());
    into = static_cast<T>(*value);
  }
  void number(const char* name, double& into, double least, double most, const std::string& expected);
  void flag(const char* name, bool& into);
  void text(const char* name, std::string& into);
  void fail(std::string param, std::string message);
  void fail(const char* name, const Error& wrong) { error = api_error(name, wrong); }

  [[nodiscard]] bool has(const char* name) const { return fields_.has(name); }
  [[nodiscard]] const nlohmann::json& operator[](const char* name) const { return (*body_)[name]; }

  std::optional<ApiError> error;

 private:
  const nlohmann::json* body_;
  JsonFields fields_;
};

/// Reads the fields that end an answer or change its logits.
void read_rules(CompletionFields& fields, Completion& into);

} // namespace sluice::detail

#ifndef SLUICE_SERVER_COMPILED
#include "sluice/serve/nlohmann/openai_fields.inl.hpp"
#endif
