// SPDX-License-Identifier: Apache-2.0
// Chat formats: how model families spell a conversation with the special tokens of their vocabularies.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/text.hpp"
#include "sluice/core/utf8.hpp"
#include "sluice/model/tokenizer/tokenizer.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace sluice {

/// One turn of a conversation. Roles: "system" (the first turn only), "user", "assistant".
struct ChatMessage {
  std::string role;
  std::string content;
};

enum class ChatFormat : std::uint8_t {
  llama3, ///< <|start_header_id|>role<|end_header_id|> … <|eot_id|>
  chatml, ///< <|im_start|>role … <|im_end|>, Qwen's
  llama2  ///< [INST] … [/INST], with <<SYS>>; Mixtral's is the same up to its second turn
};

/// The chat format that the vocabulary's tokens suggest; none if they suggest none (GPT-2, OPT). Tokens cannot
/// distinguish a chat model from its base model, which has the same tokens, nor Llama-2 from Mixtral.
[[nodiscard]] inline std::optional<ChatFormat> find_chat_format(const Tokenizer& tokenizer) {
  const auto has = [&](std::string_view name) { return tokenizer.id_of(name).has_value(); };
  if (has("<|start_header_id|>") && has("<|end_header_id|>") && has("<|eot_id|>")) return ChatFormat::llama3;
  if (has("<|im_start|>") && has("<|im_end|>")) return ChatFormat::chatml;
  // The brackets are no tokens; SentencePiece vocabularies with these two are Llama-2's and Mixtral's.
  if (has("<s>") && has("</s>") && has("\xE2\x96\x81") && has("<0x0A>")) return ChatFormat::llama2;
  return std::nullopt;
}

namespace detail {

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

} // namespace detail

/// The text of a conversation up to the beginning of the assistant's answer, begin token included: encode it with
/// AddSpecial::no. A special token that a message spells out is recognised, as with Hugging Face's templates. Errors:
/// no messages, an unknown role, a system turn that is not the first, user and assistant not alternating, a last turn
/// that is not the user's.
[[nodiscard]] inline Expected<std::string> chat_text(ChatFormat format, std::span<const ChatMessage> messages) {
  const auto wrong = [](std::size_t at, std::string what, std::string expected) {
    return Error{ErrorCode::bad_input, "message " + std::to_string(at + 1), std::move(what), std::move(expected)};
  };
  if (messages.empty()) return Error{ErrorCode::bad_input, "messages", "there are none", "at least one of a user"};
  std::string_view turn = "user";
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const std::string_view role = messages[i].role;
    if (role == "system" && i == 0) continue;
    if (role != turn) {
      return wrong(i, "its role is '" + excerpt(role) + "'",
                   std::string{turn} + ": user and assistant take turns, after at most one system message");
    }
    turn = role == "user" ? "assistant" : "user";
  }
  if (turn != "assistant") return wrong(messages.size() - 1, "the last one is not the user's", "a user's");

  std::string text;
  if (format == ChatFormat::chatml) {
    for (const ChatMessage& message : messages)
      text += "<|im_start|>" + message.role + "\n" + message.content + "<|im_end|>\n";
    return text + "<|im_start|>assistant\n";
  }
  if (format == ChatFormat::llama3) {
    text = "<|begin_of_text|>";
    for (const ChatMessage& message : messages) {
      text += "<|start_header_id|>" + message.role + "<|end_header_id|>\n\n";
      text += std::string{detail::trim(message.content)} + "<|eot_id|>";
    }
    return text + "<|start_header_id|>assistant<|end_header_id|>\n\n";
  }
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
