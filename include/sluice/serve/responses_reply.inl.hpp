// SPDX-License-Identifier: Apache-2.0
// responses_json: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/serve/completion_job.hpp"

namespace sluice::detail {

inline void write_output_text(JsonWriter& json, std::string_view text) {
  json.begin_object().key("type").value("output_text").key("text").value(text);
  json.key("annotations").begin_array().end_array().key("logprobs").begin_array().end_array().end_object();
}

/// Writes the message, which is the only output.
inline void write_message(JsonWriter& json, const ReplyHead& head, const std::string* text, bool whole) {
  json.begin_object().key("id").value("msg_" + head.id).key("type").value("message").key("role").value("assistant");
  json.key("status").value(text == nullptr ? "in_progress" : whole ? "completed" : "incomplete");
  json.key("content").begin_array();
  if (text != nullptr) write_output_text(json, *text);
  json.end_array().end_object();
}

/// Writes the response object. `text`: null while the response is in progress.
inline void write_response(JsonWriter& json, const ReplyHead& head, const std::string* text, FinishReason reason,
                           const TokenUsage& usage) {
  const bool whole = reason == FinishReason::stop;
  json.begin_object().key("id").value(head.id).key("object").value("response").key("created_at").value(head.created);
  json.key("status").value(text == nullptr ? "in_progress" : whole ? "completed" : "incomplete");
  json.key("error").null().key("incomplete_details");
  if (text == nullptr || whole)
    json.null();
  else
    json.begin_object().key("reason").value("max_output_tokens").end_object();
  json.key("model").value(head.model);
  if (!head.fingerprint.empty()) json.key("system_fingerprint").value(head.fingerprint);
  json.key("output").begin_array();
  if (text != nullptr) write_message(json, head, text, whole);
  json.end_array().key("parallel_tool_calls").value(false).key("tool_choice").value("none");
  json.key("tools").begin_array().end_array().key("store").value(false).key("previous_response_id").null();
  json.key("text").begin_object().key("format").begin_object().key("type").value("text").end_object().end_object();
  json.key("usage");
  if (text == nullptr) {
    json.null().end_object();
    return;
  }
  json.begin_object().key("input_tokens").value(usage.prompt);
  json.key("input_tokens_details").begin_object().key("cached_tokens").value(usage.cached.value_or(0)).end_object();
  json.key("output_tokens").value(usage.completion);
  json.key("output_tokens_details").begin_object().key("reasoning_tokens").value(0).end_object();
  json.key("total_tokens").value(usage.prompt + usage.completion).end_object().end_object();
}

} // namespace sluice::detail

namespace sluice {

SLUICE_SERVER_INLINE std::string responses_json(const ReplyHead& head, const std::string& text, FinishReason reason,
                                                const TokenUsage& usage) {
  std::string body;
  JsonWriter json(body);
  detail::write_response(json, head, &text, reason, usage);
  return body;
}

SLUICE_SERVER_INLINE void ResponseEvents::begin(std::string& out) {
  for (const char* const type : {"response.created", "response.in_progress"})
    event(out, type, [this](JsonWriter& json) {
      json.key("response");
      detail::write_response(json, head_, nullptr, FinishReason::stop, {});
    });
  event(out, "response.output_item.added", [this](JsonWriter& json) {
    json.key("output_index").value(0).key("item");
    detail::write_message(json, head_, nullptr, false);
  });
  event(out, "response.content_part.added", [this](JsonWriter& json) {
    place(json);
    json.key("part");
    detail::write_output_text(json, "");
  });
}

SLUICE_SERVER_INLINE void ResponseEvents::text(std::string& out, std::string_view piece) {
  text_ += piece;
  event(out, "response.output_text.delta", [&](JsonWriter& json) {
    place(json);
    json.key("delta").value(piece).key("logprobs").begin_array().end_array();
  });
}

SLUICE_SERVER_INLINE void ResponseEvents::finish(std::string& out, FinishReason reason, const TokenUsage& usage) {
  const bool whole = reason == FinishReason::stop;
  event(out, "response.output_text.done", [this](JsonWriter& json) {
    place(json);
    json.key("text").value(text_).key("logprobs").begin_array().end_array();
  });
  event(out, "response.content_part.done", [this](JsonWriter& json) {
    place(json);
    json.key("part");
    detail::write_output_text(json, text_);
  });
  event(out, "response.output_item.done", [&](JsonWriter& json) {
    json.key("output_index").value(0).key("item");
    detail::write_message(json, head_, &text_, whole);
  });
  event(out, whole ? "response.completed" : "response.incomplete", [&](JsonWriter& json) {
    json.key("response");
    detail::write_response(json, head_, &text_, reason, usage);
  });
}

SLUICE_SERVER_INLINE void ResponseEvents::fail(std::string& out, const ApiError& error) {
  event(out, "error", [&error](JsonWriter& json) {
    json.key("code").value(error.code.empty() ? error.type : error.code).key("message").value(error.message);
    json.key("param").null();
  });
}

SLUICE_SERVER_INLINE void ResponseEvents::place(JsonWriter& json) const {
  json.key("item_id").value("msg_" + head_.id).key("output_index").value(0).key("content_index").value(0);
}

} // namespace sluice
