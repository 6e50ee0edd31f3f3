// SPDX-License-Identifier: Apache-2.0
// read_completion: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/nlohmann/json_fields.hpp"
#include "sluice/core/text.hpp"
#include "sluice/serve/nlohmann/openai_request.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace sluice::detail {

SLUICE_SERVER_INLINE void read_messages(CompletionFields& fields, UnknownFields unknown,
                                        std::vector<ChatMessage>& into) {
  if (fields.error) return;
  if (!fields.has("messages")) return fields.fail("messages", "messages is missing; expected an array of messages");
  const nlohmann::json& messages = fields["messages"];
  if (!messages.is_array() || messages.empty())
    return fields.fail("messages", "messages is not an array of at least one message");
  for (std::size_t i = 0; i < messages.size() && !fields.error; ++i)
    fields.error = read_message(messages[i], "messages[" + std::to_string(i) + "]", unknown, into);
}

/// Most answers of one request (prompts times `n`): a body of a megabyte could otherwise request thirty million.
inline constexpr std::size_t most_answers = 1024;

SLUICE_SERVER_INLINE void read_prompts(CompletionFields& fields, std::vector<CompletionPrompt>& into) {
  if (fields.error) return;
  static constexpr const char* expected =
      "; expected a string, an array of strings, an array of tokens, or an array of such arrays";
  if (!fields.has("prompt")) return fields.fail("prompt", std::string{"prompt is missing"} + expected);
  const nlohmann::json& prompt = fields["prompt"];
  const auto tokens_of = [](const nlohmann::json& array, CompletionPrompt& one) {
    one.is_tokens = true;
    for (const nlohmann::json& token : array) {
      if (!token.is_number_unsigned() || token.get<std::uint64_t>() > INT32_MAX) return false;
      one.tokens.push_back(token.get<std::int32_t>());
    }
    return !one.tokens.empty();
  };
  const auto wrong = [&] { fields.fail("prompt", std::string{"prompt cannot be read"} + expected); };
  if (prompt.is_string()) {
    into.emplace_back();
    into.back().text = prompt.get<std::string>();
  } else if (prompt.is_array() && !prompt.empty() && prompt[0].is_number()) {
    into.emplace_back();
    if (!tokens_of(prompt, into.back())) wrong();
  } else if (prompt.is_array() && !prompt.empty()) {
    if (prompt.size() > most_answers)
      return fields.fail("prompt", "prompt has " + std::to_string(prompt.size()) + " prompts; expected at most " +
                                       std::to_string(most_answers));
    for (const nlohmann::json& one : prompt) {
      into.emplace_back();
      if (one.is_string())
        into.back().text = one.get<std::string>();
      else if (!one.is_array() || !tokens_of(one, into.back()))
        return wrong();
    }
  } else {
    wrong();
  }
}

SLUICE_SERVER_INLINE void read_slo(CompletionFields& fields, Slo& into) {
  if (fields.error || !fields.has("slo")) return;
  const nlohmann::json& slo = fields["slo"];
  if (!slo.is_object()) return fields.fail("slo", "slo is no object; expected {\"ttft_ms\", \"tbt_ms\"}");
  // Unknown fields are always refused here: a client would rely on an SLO that the server ignores.
  static constexpr std::string_view known[]{"ttft_ms", "tbt_ms"};
  for (auto field = slo.begin(); field != slo.end(); ++field) {
    if (lists(known, field.key())) continue;
    const std::string name = "slo." + without_controls(excerpt(field.key()));
    return fields.fail(name, name + " is no field of slo; expected ttft_ms and tbt_ms");
  }
  CompletionFields inner(slo);
  double ttft_ms = into.ttft.count() * 1e3, tbt_ms = into.tbt.count() * 1e3;
  const std::string expected = "milliseconds, above 0 and at most 1e9";
  inner.number("ttft_ms", ttft_ms, 1e-3, 1e9, expected);
  inner.number("tbt_ms", tbt_ms, 1e-3, 1e9, expected);
  if (inner.error) return fields.fail("slo." + inner.error->param, "slo." + inner.error->message);
  into = {Seconds{ttft_ms / 1e3}, Seconds{tbt_ms / 1e3}};
}

SLUICE_SERVER_INLINE void read_kv_hints(CompletionFields& fields, SessionHints& into) {
  if (fields.error || !fields.has("kv_hints")) return;
  const nlohmann::json& hints = fields["kv_hints"];
  static constexpr const char* expected = "ttl, keep, release and prefetch";
  if (!hints.is_object())
    return fields.fail("kv_hints", std::string{"kv_hints is no object; expected one with "} + expected);
  // As for an SLO: what the server ignores is refused.
  static constexpr std::string_view known[]{"ttl", "keep", "release", "prefetch"};
  for (auto field = hints.begin(); field != hints.end(); ++field) {
    if (lists(known, field.key())) continue;
    const std::string name = "kv_hints." + without_controls(excerpt(field.key()));
    return fields.fail(name, name + " is no field of kv_hints; expected " + expected);
  }
  CompletionFields inner(hints);
  double ttl = 0, prefetch = 0;
  const std::string seconds = "seconds, from 0.001 to 3600";
  inner.number("ttl", ttl, 1e-3, longest_hint.count(), seconds);
  inner.number("prefetch", prefetch, 1e-3, longest_hint.count(), seconds);
  inner.whole("keep", into.keep, 1, INT32_MAX);
  inner.flag("release", into.release);
  if (inner.error) return fields.fail("kv_hints." + inner.error->param, "kv_hints." + inner.error->message);
  if (into.release && (ttl > 0 || prefetch > 0))
    return fields.fail("kv_hints.release", "kv_hints.release with a time at which the session comes back; expected "
                                           "release, or ttl and prefetch");
  into.ttl = Seconds{ttl};
  into.prefetch = Seconds{prefetch};
}

/// Returns whether arrays and objects in the text are nested more than `deepest` levels deep. The text need not be
/// valid JSON.
[[nodiscard]] inline bool is_deeper(std::string_view text, std::size_t deepest) {
  std::size_t depth = 0;
  bool quoted = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char character = text[at];
    if (quoted) {
      if (character == '\\')
        ++at; // an escaped quote does not end the string
      else if (character == '"')
        quoted = false;
    } else if (character == '"') {
      quoted = true;
    } else if (character == '[' || character == '{') {
      if (++depth > deepest) return true;
    } else if ((character == ']' || character == '}') && depth > 0) {
      --depth;
    }
  }
  return false;
}

} // namespace sluice::detail

namespace sluice {

SLUICE_SERVER_INLINE Expected<nlohmann::json> parse_body(std::string_view body) {
  static constexpr std::size_t deepest = 64; // the API's own nesting is at most five
  if (detail::is_deeper(body, deepest))
    return Error{ErrorCode::bad_input, "the body", "its arrays and objects are nested more than 64 deep", "at most 64"};
  return parse_json_object(body, "the body");
}

SLUICE_SERVER_INLINE std::optional<ApiError> read_completion(std::string_view body, bool chat, Completion& into,
                                                             UnknownFields unknown, std::string_view effort) {
  const Expected<nlohmann::json> parsed = parse_body(body);
  if (!parsed) return detail::api_error("", parsed.error().line());
  detail::CompletionFields fields(*parsed);
  into.chat = chat;
  fields.error = refuse_fields(*parsed, chat, unknown);
  if (chat && !fields.error)
    fields.error = detail::refuse_effort(*parsed, "reasoning_effort", effort, "reasoning_effort");
  fields.text("model", into.model);
  if (chat)
    detail::read_messages(fields, unknown, into.messages);
  else
    detail::read_prompts(fields, into.prompts);

  static constexpr std::int64_t longest_answer = std::int64_t{1} << 30;
  std::int64_t max_tokens = chat ? -1 : 16;                             // the API's default for completions
  fields.whole("max_tokens", max_tokens, chat ? 1 : 0, longest_answer); // 0: the request only evaluates the prompt
  if (chat) fields.whole("max_completion_tokens", max_tokens, 1, longest_answer);
  if (max_tokens >= 0) into.max_tokens = max_tokens;
  detail::read_rules(fields, into);
  fields.whole("n", into.choices, 1, 128);
  const std::size_t answers = into.prompts.size() * static_cast<std::size_t>(into.choices);
  if (answers > detail::most_answers)
    fields.fail("n", "n is " + std::to_string(into.choices) + " for each of " + std::to_string(into.prompts.size()) +
                         " prompts; expected at most " + std::to_string(detail::most_answers) + " answers");
  fields.number("temperature", into.sampling.temperature, 0, 2, "a number from 0 to 2");
  fields.number("top_p", into.sampling.top_p, 1e-9, 1, "a number above 0 and at most 1");
  std::int64_t top_k = 0;
  fields.whole("top_k", top_k, -1, longest_answer); // in vLLM, -1 and 0 mean all tokens
  into.sampling.top_k = static_cast<int>(top_k < 0 ? 0 : top_k);
  std::int64_t seed = 0;
  fields.whole("seed", seed, INT64_MIN, INT64_MAX);
  into.seeded = fields.has("seed");
  into.sampling.seed = static_cast<std::uint64_t>(seed);
  fields.flag("ignore_eos", into.ignore_end);
  fields.flag("stream", into.stream);
  if (fields.has("stream_options")) {
    const nlohmann::json& options = fields["stream_options"];
    if (!options.is_object()) {
      fields.fail("stream_options", "stream_options is no object; expected {\"include_usage\"}");
    } else if (!into.stream) {
      fields.fail("stream_options", "stream_options without stream; expected \"stream\": true");
    } else {
      detail::CompletionFields inner(options);
      if (unknown == UnknownFields::refused)
        inner.error = detail::only_fields(options, "", "stream_options", detail::stream_known);
      inner.flag("include_usage", into.include_usage);
      inner.flag("continuous_usage_stats", into.continuous_usage);
      if (inner.error) fields.fail("stream_options." + inner.error->param, "stream_options." + inner.error->message);
    }
  }
  if (chat) {
    bool wanted = false;
    fields.flag("logprobs", wanted);
    int likeliest = 0;
    fields.whole("top_logprobs", likeliest, 0, 20);
    if (!wanted && fields.has("top_logprobs") && likeliest > 0)
      fields.fail("top_logprobs", "top_logprobs without logprobs; expected \"logprobs\": true");
    if (wanted) into.logprobs = likeliest;
  } else {
    fields.whole("logprobs", into.logprobs, 0, 20);
    fields.flag("echo", into.echo);
  }
  detail::read_slo(fields, into.slo);
  fields.whole("priority", into.priority, INT32_MIN, INT32_MAX);
  detail::read_kv_hints(fields, into.hints);
  return fields.error;
}

SLUICE_SERVER_INLINE bool says_json(const HttpHeaders& headers) {
  std::string_view type = headers.find("Content-Type");
  if (type.empty()) return headers.find("Origin").empty();
  type = type.substr(0, type.find(';'));
  while (type.ends_with(' ') || type.ends_with('\t')) type.remove_suffix(1);
  return HttpHeaders::same_name(type, "application/json");
}

SLUICE_SERVER_INLINE std::optional<ApiError> read_slo_headers(const HttpHeaders& headers, Slo& slo) {
  for (const auto& [name, place] : {std::pair{"x-slo-ttft-ms", &slo.ttft}, std::pair{"x-slo-tbt-ms", &slo.tbt}}) {
    const std::string_view text = headers.find(name);
    if (text.empty()) continue;
    double milliseconds = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), milliseconds);
    if (error != std::errc{} || end != text.data() + text.size() || !(milliseconds > 0 && milliseconds <= 1e9))
      return detail::api_error(name, std::string{name} + " is '" + without_controls(excerpt(text)) +
                                         "'; expected milliseconds, above 0 and at most 1e9");
    *place = Seconds{milliseconds / 1e3};
  }
  return std::nullopt;
}

} // namespace sluice

namespace sluice::detail {

/// No chat format here uses a participant's name, and a cache's marks change no answer. The other fields are part of a
/// server's answer; clients send them back with the next request. vLLM names the reasoning `reasoning_content`, and
/// newer versions `reasoning`.
inline constexpr std::string_view message_known[]{"role",         "content",           "name",        "tool_calls",
                                                  "tool_call_id", "refusal",           "audio",       "function_call",
                                                  "reasoning",    "reasoning_content", "annotations", "cache_control"};

inline constexpr UnsupportedField message_unsupported[]{
    {"refusal", R"("")"}, {"audio", "null"}, {"function_call", "null"}, {"annotations", "[]"}};

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
      return api_error(param + ".tool_calls", param + ".tool_calls belongs to assistant messages only; expected none");
    if ((error = read_tool_calls(*calls, param + ".tool_calls", read.calls))) return error;
  }
  for (const char* const field : {"reasoning_content", "reasoning"}) {
    const auto reasoning = message.find(field);
    if (reasoning == message.end() || reasoning->is_null()) continue;
    const std::string of = param + "." + field;
    if (name != "assistant") return api_error(of, of + " belongs to assistant messages only; expected none");
    if (!reasoning->is_string()) return api_error(of, of + " is no text; expected a string");
    read.reasoning = reasoning->get<std::string>();
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
