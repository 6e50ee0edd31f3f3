// SPDX-License-Identifier: Apache-2.0
// read_response_request: parses the bodies of /v1/responses, which express a chat with other fields.
#pragma once

#include "sluice/serve/completion.hpp"
#include "sluice/serve/nlohmann/openai_fields.hpp"
#include "sluice/serve/nlohmann/openai_request.hpp"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

namespace detail {

/// Fields that a chat request has, with the same name and meaning.
inline constexpr std::string_view response_same[]{"model",
                                                  "temperature",
                                                  "top_p",
                                                  "stream",
                                                  "top_k",
                                                  "seed",
                                                  "slo",
                                                  "priority",
                                                  "user",
                                                  "metadata",
                                                  "ignore_eos",
                                                  "min_tokens",
                                                  "safety_identifier",
                                                  "prompt_cache_key",
                                                  "prompt_cache_retention",
                                                  "service_tier",
                                                  "parallel_tool_calls",
                                                  "store",
                                                  "stop"};
inline constexpr std::string_view response_own[]{"input", "instructions", "max_output_tokens", "stream_options"};
/// `max_tool_calls` limits calls that are refused anyway; `include` names optional parts that this output never has.
inline constexpr std::string_view response_harmless[]{"max_tool_calls", "include"};
inline constexpr UnsupportedField response_unsupported[]{
    {"tools", "[]"},       {"tool_choice", R"("none")"},     {"text", R"({"format":{"type":"text"}})"},
    {"reasoning", "null"}, {"previous_response_id", "null"}, {"conversation", "null"},
    {"prompt", "null"},    {"background", "false"},          {"truncation", R"("disabled")"},
    {"top_logprobs", "0"}};

/// Converts an item of `input` to a chat's message; returns null if that is impossible.
[[nodiscard]] inline nlohmann::json message_of_item(const nlohmann::json& item) {
  if (!item.is_object() || !item.contains("role") || !item.contains("content")) return nullptr;
  if (item.contains("type") && item["type"] != "message") return nullptr;
  for (auto field = item.begin(); field != item.end(); ++field)
    if (!lists(std::initializer_list<std::string_view>{"type", "role", "content", "id", "status"}, field.key()))
      return nullptr;
  nlohmann::json content = item["content"];
  if (content.is_array()) {
    for (nlohmann::json& part : content) {
      if (!part.is_object() || !part.contains("type")) return nullptr;
      if (part["type"] != "input_text" && part["type"] != "output_text") return nullptr;
      part["type"] = "text";
    }
  }
  return {{"role", item["role"]}, {"content", std::move(content)}};
}

} // namespace detail

/// Reads a body of `/v1/responses` into `into`, like read_completion for a chat.
[[nodiscard]] inline std::optional<ApiError> read_response_request(std::string_view body, Completion& into,
                                                                   UnknownFields unknown) {
  using namespace detail;
  const Expected<nlohmann::json> parsed = parse_body(body);
  if (!parsed) return api_error("", parsed.error().line());
  if (std::optional<ApiError> error = refuse_unsupported(*parsed, response_unsupported)) return error;
  if (unknown == UnknownFields::refused) {
    std::vector<std::string_view> known(std::begin(response_same), std::end(response_same));
    known.insert(known.end(), std::begin(response_own), std::end(response_own));
    known.insert(known.end(), std::begin(response_harmless), std::end(response_harmless));
    for (const UnsupportedField& one : response_unsupported) known.push_back(one.name);
    if (std::optional<ApiError> error = only_fields(*parsed, "", "/v1/responses", known)) return error;
  }
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
    return api_error("input", "input is none that can be read; expected a string, or an array of messages");
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
  std::optional<ApiError> error = read_completion(chat.dump(), true, into, unknown);
  if (error && error->param == "max_tokens") {
    error->param = "max_output_tokens";
    error->message.replace(0, std::string_view{"max_tokens"}.size(), error->param);
  }
  into.response = true;
  return error;
}

} // namespace sluice
