// SPDX-License-Identifier: Apache-2.0
// Chat formats: how model families spell a conversation with the special tokens of their vocabularies.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/model/tokenizer/tokenizer.hpp"

#include <cstdint>
#include <ctime>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// A call of a function by the assistant. `arguments`: JSON, as the model wrote it.
struct ChatToolCall {
  std::string name;
  std::string arguments;
};

/// One turn of a conversation. Roles: "system", "user", "assistant", "tool" (a call's result).
struct ChatMessage {
  std::string role;
  std::string content;
  std::vector<ChatToolCall> calls{};      ///< of the assistant
  std::optional<std::string> reasoning{}; ///< of the assistant, apart from the content
};

/// The formats, each named for the template that Hugging Face's folders of the family have. Templates that differ in
/// their text only, not in what they write, are one format.
enum class ChatFormat : std::uint8_t {
  chatml,        ///< <|im_start|>role ... <|im_end|>, without a system message of its own
  qwen2_5,       ///< the same, with Qwen 2.5's own system message
  qwen3,         ///< the same without it; the reasoning of earlier answers is left out
  llama2,        ///< [INST] ... [/INST], with <<SYS>>
  llama3,        ///< <|start_header_id|>role<|end_header_id|> ... <|eot_id|>
  llama3_1,      ///< the same, with a system message that says the date of its template
  llama3_2,      ///< the same, with the date of the day
  mistral,       ///< [INST] ... [/INST] of Mistral 7B
  mixtral,       ///< the same, with a system message in the first turn
  mistral_small, ///< the same, with [SYSTEM_PROMPT]
  gemma2,        ///< <start_of_turn>role ... <end_of_turn>
  gemma3,        ///< the same, with a system message in the first turn
  deepseek_v3,   ///< <｜User｜> ... <｜Assistant｜> ...
  gpt_oss        ///< <|start|>role<|message|> ... <|end|>, with a system message that says the date of the day
};

/// Returns a format's name, as `--chat-format` takes it: "qwen2.5".
[[nodiscard]] std::string_view name(ChatFormat format);

/// Returns the reasoning effort that every prompt of a format asks for, as the API's `reasoning_effort` names it:
/// "medium" of gpt-oss, and "none" of formats without reasoning. Empty if the model decides.
[[nodiscard]] constexpr std::string_view fixed_effort(ChatFormat format) {
  return format == ChatFormat::gpt_oss ? "medium" : format == ChatFormat::qwen3 ? "" : "none";
}

/// "chatml, qwen2.5, ...", for help texts and errors.
[[nodiscard]] std::string chat_format_names();

/// Finds a format by name. `where`: the flag, for the error, which lists the names.
[[nodiscard]] Expected<ChatFormat> find_chat_format(std::string_view name, const std::string& where);

/// Returns the format that writes what a known template does; none for an unknown template. A template is known by its
/// digest (line ends and white space at its end do not count), because running Jinja would need an interpreter, and
/// guessing by words would take one template for another.
[[nodiscard]] std::optional<ChatFormat> known_chat_template(std::string_view text);

/// The chat format that the vocabulary's special tokens suggest, for a model without a template; none if they suggest
/// none (GPT-2, OPT). Tokens cannot distinguish a chat model from its base model, which has the same tokens, nor the
/// templates of a family.
[[nodiscard]] std::optional<ChatFormat> find_chat_format(const Tokenizer& tokenizer);

/// The format of a model: that of its folder's template, or, without a template, the one that its tokens suggest.
/// Error: the template is not a known one, or the tokens suggest none.
[[nodiscard]] Expected<ChatFormat> chat_format_of(const Tokenizer& tokenizer);

/// The text of a conversation up to the beginning of the assistant's answer, begin token included: encode it with
/// AddSpecial::no. It is what the family's template writes (with `add_generation_prompt`), so turns may come in any
/// order that the template accepts. A special token that a message spells out is recognised, as with Hugging Face's
/// templates. `now`: the date that some formats write. Errors: no messages, an unknown role, an order for which the
/// template raises an error, tools in a format that has none here.
[[nodiscard]] Expected<std::string> chat_text(ChatFormat format, std::span<const ChatMessage> messages,
                                              std::time_t now = std::time(nullptr));

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/model/tokenizer/chat.inl.hpp"
#endif
