// SPDX-License-Identifier: Apache-2.0
// read_response_request: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/text.hpp"
#include "sluice/serve/nlohmann/openai_request.hpp"

#include <nlohmann/json.hpp>

#include <charconv>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace sluice::detail {

/// Fields that a chat request has, with the same name and meaning.
inline constexpr std::string_view response_same[]{"model",
                                                  "temperature",
                                                  "top_p",
                                                  "stream",
                                                  "top_k",
                                                  "seed",
                                                  "slo",
                                                  "priority",
                                                  "kv_hints",
                                                  "user",
                                                  "metadata",
                                                  "ignore_eos",
                                                  "min_tokens",
                                                  "safety_identifier",
                                                  "prompt_cache_key",
                                                  "prompt_cache_options",
                                                  "prompt_cache_retention",
                                                  "service_tier",
                                                  "parallel_tool_calls",
                                                  "store",
                                                  "stop"};

inline constexpr std::string_view response_own[]{"input",          "instructions", "max_output_tokens",
                                                 "stream_options", "include",      "reasoning"};

/// Limits calls that are refused anyway.
inline constexpr std::string_view response_harmless[]{"max_tool_calls"};

/// Parts of an output that `include` may name, and that this server's output never has.
inline constexpr std::string_view response_parts[]{
    "code_interpreter_call.outputs", "computer_call_output.output.image_url", "file_search_call.results",
    "message.input_image.image_url", "reasoning.encrypted_content",           "web_search_call.action.sources",
    "web_search_call.results"};

inline constexpr UnsupportedField response_unsupported[]{{"tools", "[]", {}, {}, "tool_choice"},
                                                         {"tool_choice", R"("none")", "tools"},
                                                         {"text", R"({"format":{"type":"text"},"verbosity":"medium"})"},
                                                         {"previous_response_id", "null"},
                                                         {"conversation", "null"},
                                                         {"prompt", "null"},
                                                         {"background", "false"},
                                                         // An input that is too long is refused either way.
                                                         {"truncation", R"("disabled")", {}, R"("auto")"},
                                                         {"top_logprobs", "0"}};

/// Fields of the other paths that would change the answer.
inline constexpr UnsupportedField response_elsewhere[]{{"messages", "null"},
                                                       {"max_tokens", "null"},
                                                       {"max_completion_tokens", "null"},
                                                       {"n", "1"},
                                                       {"stop_token_ids", "[]"},
                                                       {"include_stop_str_in_output", "false"},
                                                       {"bad_words", "[]"},
                                                       {"logit_bias", "{}"},
                                                       {"presence_penalty", "0"},
                                                       {"frequency_penalty", "0"},
                                                       {"repetition_penalty", "1"},
                                                       {"logprobs", "false"}};

/// Converts an item of `input` to a chat's message; returns null if that is impossible.
[[nodiscard]] inline nlohmann::json message_of_item(const nlohmann::json& item) {
  if (!item.is_object() || !item.contains("role") || !item.contains("content")) return nullptr;
  if (item.contains("type") && item["type"] != "message") return nullptr;
  for (auto field = item.begin(); field != item.end(); ++field)
    if (!is_empty(*field) &&
        !lists(std::initializer_list<std::string_view>{"type", "role", "content", "id", "status", "phase"},
               field.key()))
      return nullptr;
  nlohmann::json content = item["content"];
  if (content.is_array()) {
    for (nlohmann::json& part : content) {
      if (!part.is_object() || !part.contains("type")) return nullptr;
      if (part["type"] != "input_text" && part["type"] != "output_text") return nullptr;
      if (!part.contains("text") || !part["text"].is_string()) return nullptr;
      part["type"] = "text";
    }
  }
  return {{"role", item["role"]}, {"content", std::move(content)}};
}

/// Refuses what the output would have to contain.
[[nodiscard]] inline std::optional<ApiError> check_include(const nlohmann::json& body) {
  const auto field = body.find("include");
  if (field == body.end() || field->is_null()) return std::nullopt;
  if (!field->is_array()) return api_error("include", "include is no array; expected names of parts of the output");
  for (const nlohmann::json& part : *field)
    if (!part.is_string() || !lists(response_parts, part.get_ref<const std::string&>()))
      return api_error("include", "include has " + without_controls(excerpt(part.dump())) +
                                      ", which this server's output cannot have; expected none");
  return std::nullopt;
}

/// Refuses stream_options that ask for anything.
[[nodiscard]] inline std::optional<ApiError> check_stream_options(const nlohmann::json& body, UnknownFields unknown) {
  const auto field = body.find("stream_options");
  if (field == body.end() || field->is_null()) return std::nullopt;
  constexpr std::string_view known[]{"include_obfuscation"};
  if (!field->is_object())
    return api_error("stream_options", "stream_options is no object; expected {\"include_obfuscation\"}");
  const auto stream = body.find("stream");
  if (stream == body.end() || *stream != true)
    return api_error("stream_options", "stream_options without stream; expected \"stream\": true");
  const auto obfuscation = field->find(known[0]);
  if (obfuscation != field->end() && !obfuscation->is_boolean() && !obfuscation->is_null())
    return api_error("stream_options.include_obfuscation", "stream_options.include_obfuscation is " +
                                                               without_controls(excerpt(obfuscation->dump())) +
                                                               "; expected true or false");
  if (unknown == UnknownFields::ignored) return std::nullopt;
  return only_fields(*field, "stream_options.", "stream_options", known);
}

/// Names the field of `/v1/responses` from which the field of a chat in `error` was read.
inline void name_source(ApiError& error, const nlohmann::json& body) {
  const auto rename = [&error](std::size_t old, const std::string& name) {
    if (error.message.starts_with(std::string_view{error.param}.substr(0, old))) error.message.replace(0, old, name);
    error.param.replace(0, old, name);
  };
  constexpr std::string_view most = "max_tokens", message = "messages[";
  if (error.param == most) return rename(most.size(), "max_output_tokens");
  if (!error.param.starts_with(message)) return;
  const std::size_t end = error.param.find(']') + 1;
  std::size_t at = 0;
  std::from_chars(error.param.data() + message.size(), error.param.data() + end, at);
  const auto first = body.find("instructions");
  const bool instructed = first != body.end() && !first->is_null(); // they are the first message
  if (instructed && at == 0)
    rename(end, "instructions");
  else if (body["input"].is_string())
    rename(end, "input");
  else
    rename(end, "input[" + std::to_string(at - (instructed ? 1 : 0)) + "]");
}

} // namespace sluice::detail

namespace sluice {

SLUICE_SERVER_INLINE std::optional<ApiError> read_response_request(std::string_view body, Completion& into,
                                                                   UnknownFields unknown, std::string_view effort) {
  using namespace detail;
  const Expected<nlohmann::json> parsed = parse_body(body);
  if (!parsed) return api_error("", parsed.error().line());
  if (std::optional<ApiError> error = refuse_unsupported(*parsed, response_unsupported)) return error;
  // A lenient server ignores what nobody knows, but nothing that changes the answer at another path.
  if (std::optional<ApiError> error = refuse_unsupported(*parsed, response_elsewhere, "at /v1/responses")) return error;
  if (std::optional<ApiError> error = refuse_unsupported(*parsed, both_unsupported)) return error;
  if (std::optional<ApiError> error = refuse_unsupported(*parsed, chat_unsupported)) return error;
  if (std::optional<ApiError> error = refuse_effort(*parsed, "reasoning_effort", effort, "reasoning_effort"))
    return error;
  if (const auto own = parsed->find("reasoning"); own != parsed->end() && own->is_object())
    if (std::optional<ApiError> error = refuse_effort(*own, "effort", effort, "reasoning")) return error;
  const std::string reasons = effort.empty() ? "{" : R"({"effort":")" + std::string{effort} + R"(",)";
  const std::string no_effect = reasons + R"("mode":"standard","context":"auto"})";
  const UnsupportedField reasoning{"reasoning", no_effect};
  if (std::optional<ApiError> error = refuse_unsupported(*parsed, {&reasoning, 1})) return error;
  if (unknown == UnknownFields::refused) {
    std::vector<std::string_view> known(std::begin(response_same), std::end(response_same));
    known.insert(known.end(), std::begin(response_own), std::end(response_own));
    known.insert(known.end(), std::begin(response_harmless), std::end(response_harmless));
    for (const UnsupportedField& one : response_unsupported) known.push_back(one.name);
    if (std::optional<ApiError> error = only_fields(*parsed, "", "/v1/responses", known)) return error;
  }
  if (std::optional<ApiError> error = check_include(*parsed)) return error;
  if (std::optional<ApiError> error = check_stream_options(*parsed, unknown)) return error;
  nlohmann::json chat = nlohmann::json::object();
  for (const std::string_view name : response_same)
    if (const auto field = parsed->find(name); field != parsed->end()) chat[std::string{name}] = *field;
  nlohmann::json& messages = chat["messages"] = nlohmann::json::array();
  if (const auto field = parsed->find("instructions"); field != parsed->end() && !field->is_null()) {
    if (!field->is_string()) return api_error("instructions", "instructions is no text; expected a string");
    messages.push_back({{"role", "system"}, {"content", *field}});
  }
  const auto input = parsed->find("input");
  if (input == parsed->end() || !(input->is_string() || (input->is_array() && !input->empty())))
    return api_error("input", "input cannot be read; expected a string, or an array of messages");
  if (input->is_string()) {
    messages.push_back({{"role", "user"}, {"content", *input}});
  } else {
    for (std::size_t i = 0; i < input->size(); ++i) {
      nlohmann::json message = message_of_item((*input)[i]);
      const std::string param = "input[" + std::to_string(i) + "]";
      if (message.is_null())
        return api_error(param, param + R"( is no message of text; expected {"role", "content"}, its parts of the )"
                                        "type input_text or output_text");
      messages.push_back(std::move(message));
    }
  }
  if (const auto most = parsed->find("max_output_tokens"); most != parsed->end()) chat["max_tokens"] = *most;
  std::optional<ApiError> error = read_completion(chat.dump(), true, into, unknown, effort);
  if (error) name_source(*error, *parsed);
  into.response = true;
  return error;
}

} // namespace sluice
