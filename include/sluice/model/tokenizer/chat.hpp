// SPDX-License-Identifier: Apache-2.0
// Chat formats: how model families spell a conversation with the special tokens of their vocabularies.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/model/tokenizer/tokenizer.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluice {

/// A call of a function by the assistant. `arguments`: JSON, as the model wrote it.
struct ChatToolCall {
  std::string name;
  std::string arguments;
};

/// One turn of a conversation. Roles: "system" (the first turn only), "user", "assistant", "tool" (a call's result).
struct ChatMessage {
  std::string role;
  std::string content;
  std::vector<ChatToolCall> calls{}; ///< of the assistant
};

enum class ChatFormat : std::uint8_t {
  llama3, ///< <|start_header_id|>role<|end_header_id|> … <|eot_id|>
  chatml, ///< <|im_start|>role … <|im_end|>, Qwen's
  llama2  ///< [INST] … [/INST], with <<SYS>>; Mixtral's is the same up to its second turn
};

/// The chat format that the vocabulary's tokens suggest; none if they suggest none (GPT-2, OPT). Tokens cannot
/// distinguish a chat model from its base model, which has the same tokens, nor Llama-2 from Mixtral.
[[nodiscard]] std::optional<ChatFormat> find_chat_format(const Tokenizer& tokenizer);

namespace detail {

/// Whether turns follow each other as these formats require.
[[nodiscard]] Status check_turns(ChatFormat format, std::span<const ChatMessage> messages);

} // namespace detail

/// The text of a conversation up to the beginning of the assistant's answer, begin token included: encode it with
/// AddSpecial::no. A special token that a message spells out is recognised, as with Hugging Face's templates. Errors:
/// no messages, an unknown role, a system turn that is not the first, user and assistant not alternating, results
/// without a call, tools in a format that has none, a last turn that is neither the user's nor a result.
[[nodiscard]] Expected<std::string> chat_text(ChatFormat format, std::span<const ChatMessage> messages);

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/model/tokenizer/chat.inl.hpp"
#endif
