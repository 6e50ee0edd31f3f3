// SPDX-License-Identifier: Apache-2.0
// read_messages: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/text.hpp"
#include "sluice/serve/nlohmann/openai_messages.hpp"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

namespace sluice::detail {

/// No chat format here uses a participant's name. The other fields are part of a server's answer; clients send them
/// back with the next request.
inline constexpr std::string_view message_known[]{"role",         "content",           "name",       "tool_calls",
                                                  "tool_call_id", "refusal",           "audio",      "function_call",
                                                  "reasoning",    "reasoning_content", "annotations"};

inline constexpr UnsupportedField message_unsupported[]{{"refusal", "null"},           {"audio", "null"},
                                                        {"function_call", "null"},     {"reasoning", "null"},
                                                        {"reasoning_content", "null"}, {"annotations", "[]"}};

/// Returns a message's text: a string, or a list of parts of type "text".
[[nodiscard]] inline std::optional<std::string> message_text(const nlohmann::json& content) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) return std::nullopt;
  std::string text;
  for (const nlohmann::json& part : content) {
    if (!part.is_object()) return std::nullopt;
    const auto type = part.find("type");
    const auto piece = part.find("text");
    if (type == part.end() || *type != "text" || piece == part.end() || !piece->is_string()) return std::nullopt;
    text += piece->get<std::string>();
  }
  return text;
}

/// Returns whether `name` can be a function's name: it is written into the prompt's JSON.
[[nodiscard]] inline bool is_function_name(std::string_view name) {
  constexpr std::size_t longest = 128;
  return !name.empty() && name.size() <= longest && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  });
}

/// Reads the tool calls of an assistant's message. `param`: "messages[2].tool_calls".
[[nodiscard]] inline std::optional<ApiError> read_tool_calls(const nlohmann::json& calls, const std::string& param,
                                                             std::vector<ChatToolCall>& into) {
  if (!calls.is_array()) return api_error(param, param + " is no array; expected an array of calls");
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const std::string of = param + "[" + std::to_string(i) + "]";
    const nlohmann::json& call = calls[i];
    const auto function = call.is_object() ? call.find("function") : call.end();
    if (!call.is_object() || function == call.end() || !function->is_object() ||
        call.value("type", "function") != "function")
      return api_error(of, of + R"( is no call of a function; expected {"id", "type": "function", "function"})");
    const auto name = function->find("name");
    const auto arguments = function->find("arguments");
    if (name == function->end() || !name->is_string() || !is_function_name(name->get_ref<const std::string&>()))
      return api_error(of + ".function.name",
                       of + ".function.name is no name; expected 1 to 128 letters, digits, '_', '-' and '.'");
    if (arguments == function->end() || !arguments->is_string())
      return api_error(of + ".function.arguments", of + ".function.arguments is no string; expected JSON in a string");
    into.push_back({name->get<std::string>(), arguments->get<std::string>()});
  }
  return std::nullopt;
}

SLUICE_SERVER_INLINE std::optional<ApiError> read_message(const nlohmann::json& message, const std::string& param,
                                                          UnknownFields unknown, std::vector<ChatMessage>& into) {
  static constexpr const char* roles = "expected system, user, assistant or tool";
  if (!message.is_object()) return api_error(param, param + R"( is no object; expected {"role", "content"})");
  std::optional<ApiError> error = refuse_unsupported(message, message_unsupported);
  if (!error && unknown == UnknownFields::refused) error = only_fields(message, "", "a message", message_known);
  if (error) {
    error->param = param + "." + error->param;
    error->message = param + "." + error->message;
    return error;
  }
  const auto role = message.find("role");
  if (role == message.end() || !role->is_string())
    return api_error(param + ".role", param + ".role is missing; " + roles);
  std::string name = role->get<std::string>();
  if (name == "developer") name = "system"; // the newer name of this role
  if (name != "system" && name != "user" && name != "assistant" && name != "tool")
    return api_error(param + ".role", param + ".role is '" + without_controls(excerpt(name)) + "'; " + roles);
  ChatMessage read{name, {}};
  const auto calls = message.find("tool_calls");
  if (calls != message.end() && !calls->is_null() && !(calls->is_array() && calls->empty())) {
    if (name != "assistant")
      return api_error(param + ".tool_calls", param + ".tool_calls is the assistant's alone; expected none");
    if ((error = read_tool_calls(*calls, param + ".tool_calls", read.calls))) return error;
  }
  const auto content = message.find("content");
  const bool absent = content == message.end() || content->is_null();
  std::optional<std::string> text;
  if (!absent)
    text = message_text(*content);
  else if (name == "assistant") // the assistant called a tool or refused
    text.emplace();
  if (!text)
    return api_error(param + ".content", param + ".content is no text; expected a string, or parts of type text");
  read.content = *std::move(text);
  into.push_back(std::move(read));
  return std::nullopt;
}

} // namespace sluice::detail
