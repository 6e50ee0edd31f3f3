// SPDX-License-Identifier: Apache-2.0
// chat: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/text.hpp"
#include "sluice/core/utf8.hpp"
#include "sluice/model/tokenizer/chat.hpp"

#include <cstddef>
#include <string_view>

namespace sluice {

SLUICE_INLINE std::optional<ChatFormat> find_chat_format(const Tokenizer& tokenizer) {
  const auto has = [&](std::string_view name) { return tokenizer.id_of(name).has_value(); };
  if (has("<|start_header_id|>") && has("<|end_header_id|>") && has("<|eot_id|>")) return ChatFormat::llama3;
  if (has("<|im_start|>") && has("<|im_end|>")) return ChatFormat::chatml;
  // The brackets are no tokens; SentencePiece vocabularies with these two are Llama-2's and Mixtral's.
  if (has("<s>") && has("</s>") && has("\xE2\x96\x81") && has("<0x0A>")) return ChatFormat::llama2;
  return std::nullopt;
}

} // namespace sluice

namespace sluice::detail {

/// `text` without leading and trailing white space, as all these formats require.
[[nodiscard]] inline std::string_view trim(std::string_view text) {
  std::size_t begin = text.size(), end = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Step step = next_utf8(text.substr(at));
    const std::size_t next = at + static_cast<std::size_t>(step.bytes);
    if (step.kind != Utf8Kind::whole || !is_white_space(step.code)) {
      if (begin > at) begin = at;
      end = next;
    }
    at = next;
  }
  return begin < end ? text.substr(begin, end - begin) : std::string_view{};
}

SLUICE_INLINE Status check_turns(ChatFormat format, std::span<const ChatMessage> messages) {
  const auto wrong = [](std::size_t at, std::string what, std::string expected) {
    return Error{ErrorCode::bad_input, "message " + std::to_string(at + 1), std::move(what), std::move(expected)};
  };
  if (messages.empty()) return Error{ErrorCode::bad_input, "messages", "there are none", "at least one of a user"};
  std::string_view turn = "user", other; // the roles that may be next
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const std::string_view role = messages[i].role;
    const std::vector<ChatToolCall>& calls = messages[i].calls;
    if (role == "system" && i == 0) continue;
    if (role != turn && (other.empty() || role != other)) {
      return wrong(i, "its role is '" + excerpt(role) + "'",
                   std::string{turn} + (turn == "tool" ? ": the results of a call come next"
                                                       : ": user and assistant take turns, after at most one system "
                                                         "message"));
    }
    if (format == ChatFormat::llama2 && (role == "tool" || !calls.empty()))
      return wrong(i, "this model's chat format has no tools", "neither tool_calls nor the role tool");
    if (format == ChatFormat::llama3 && calls.size() > 1)
      return wrong(i, "this model's chat format has one tool call per turn", "one");
    turn = role == "user" || role == "tool" ? "assistant" : calls.empty() ? "user" : "tool";
    other = role == "tool" ? "tool" : std::string_view{};
  }
  if (turn != "assistant") return wrong(messages.size() - 1, "the last one is not the user's", "a user's");
  return {};
}

/// The turns as Qwen 2.5's template spells them.
[[nodiscard]] inline std::string chatml_text(std::span<const ChatMessage> messages) {
  std::string text;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const ChatMessage& message = messages[i];
    if (message.role == "tool") { // results of one turn are one message of the user's
      if (i == 0 || messages[i - 1].role != "tool") text += "<|im_start|>user";
      text += "\n<tool_response>\n" + message.content + "\n</tool_response>";
      if (i + 1 == messages.size() || messages[i + 1].role != "tool") text += "<|im_end|>\n";
      continue;
    }
    text += "<|im_start|>" + message.role;
    if (message.calls.empty() || !message.content.empty()) text += "\n" + message.content;
    for (const ChatToolCall& call : message.calls)
      text += "\n<tool_call>\n{\"name\": \"" + call.name + "\", \"arguments\": " + call.arguments + "}\n</tool_call>";
    text += "<|im_end|>\n";
  }
  return text + "<|im_start|>assistant\n";
}

/// The turns as Llama 3.1's template spells them; a call's result has the role ipython there.
[[nodiscard]] inline std::string llama3_text(std::span<const ChatMessage> messages) {
  std::string text = "<|begin_of_text|>";
  for (const ChatMessage& message : messages) {
    text += "<|start_header_id|>" + (message.role == "tool" ? "ipython" : message.role) + "<|end_header_id|>\n\n";
    text += trim(message.content);
    for (const ChatToolCall& call : message.calls)
      text += "{\"name\": \"" + call.name + "\", \"parameters\": " + call.arguments + "}";
    text += "<|eot_id|>";
  }
  return text + "<|start_header_id|>assistant<|end_header_id|>\n\n";
}

} // namespace sluice::detail

namespace sluice {

SLUICE_INLINE Expected<std::string> chat_text(ChatFormat format, std::span<const ChatMessage> messages) {
  if (Status status = detail::check_turns(format, messages); !status) return status.error();
  if (format == ChatFormat::chatml) return detail::chatml_text(messages);
  if (format == ChatFormat::llama3) return detail::llama3_text(messages);
  std::string text;
  std::string system; // goes into the first user's turn
  for (const ChatMessage& message : messages) {
    const std::string content{detail::trim(message.content)};
    if (message.role == "system") {
      system = "<<SYS>>\n" + content + "\n<</SYS>>\n\n";
    } else if (message.role == "user") {
      text += "<s>[INST] " + system + content + " [/INST]";
      system.clear();
    } else {
      text += " " + content + " </s>";
    }
  }
  return text;
}

} // namespace sluice
