// SPDX-License-Identifier: Apache-2.0
// chat: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/fnv.hpp"
#include "sluice/core/text.hpp"
#include "sluice/core/utf8.hpp"
#include "sluice/model/tokenizer/chat.hpp"

#include <array>
#include <cstddef>
#include <utility>

namespace sluice::detail {

struct ChatFormatRow {
  ChatFormat format;
  std::string_view name;
  bool tools; ///< calls and their results can be written
};

inline constexpr std::array chat_formats{ChatFormatRow{ChatFormat::chatml, "chatml", true},
                                         ChatFormatRow{ChatFormat::qwen2_5, "qwen2.5", true},
                                         ChatFormatRow{ChatFormat::qwen3, "qwen3", true},
                                         ChatFormatRow{ChatFormat::llama2, "llama2", false},
                                         ChatFormatRow{ChatFormat::llama3, "llama3", false},
                                         ChatFormatRow{ChatFormat::llama3_1, "llama3.1", true},
                                         ChatFormatRow{ChatFormat::llama3_2, "llama3.2", true},
                                         ChatFormatRow{ChatFormat::mistral, "mistral", false},
                                         ChatFormatRow{ChatFormat::mixtral, "mixtral", false},
                                         ChatFormatRow{ChatFormat::mistral_small, "mistral-small", false},
                                         ChatFormatRow{ChatFormat::gemma2, "gemma2", false},
                                         ChatFormatRow{ChatFormat::gemma3, "gemma3", false},
                                         ChatFormatRow{ChatFormat::deepseek_v3, "deepseek-v3", false},
                                         ChatFormatRow{ChatFormat::gpt_oss, "gpt-oss", false}};

/// Digests of templates as their publishers ship them. Those of one format differ only in what they do with tools or
/// with content that is no text.
inline constexpr std::array<std::pair<std::string_view, ChatFormat>, 17> chat_templates{
    {{"2bdb6446f8d36516", ChatFormat::chatml}, // ChatML without a word more, as examples/models/demo has it
     {"e642ce246d7f2e3d", ChatFormat::qwen2_5},
     {"adaa2a0bbac0305f", ChatFormat::qwen2_5},
     {"2bfdb7aa9754484e", ChatFormat::qwen3},
     {"959a4551391a6549", ChatFormat::qwen3},
     {"f344eecf1bd3a427", ChatFormat::llama2},
     {"0e60067a5537498e", ChatFormat::llama3},
     {"cc0368e1ffb6b958", ChatFormat::llama3_1},
     {"368f4c34b8554414", ChatFormat::llama3_2},
     {"c730acc029ce6ee0", ChatFormat::mistral},
     {"46eac0bf5c765c47", ChatFormat::mixtral},
     {"71e04a49fb8f1f9d", ChatFormat::mistral_small},
     {"5c10ee65212d93b3", ChatFormat::gemma2},
     {"5e86a815daeaa1a5", ChatFormat::gemma3},
     {"d19b6ff3a49deea5", ChatFormat::gemma3},
     {"f5a778a93fcd17e7", ChatFormat::gemma3},
     {"ebe3604156dc466a", ChatFormat::deepseek_v3}}};

/// Returns the digest of a template: line ends are LF, and white space at the end does not count.
[[nodiscard]] inline std::string template_digest(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.remove_suffix(1);
  Fnv digest;
  for (const char character : text) {
    if (character == '\r') continue;
    const auto byte = static_cast<std::byte>(character);
    digest.add(&byte, 1);
  }
  return digest.text();
}

} // namespace sluice::detail

namespace sluice {

SLUICE_INLINE std::string_view name(ChatFormat format) {
  return detail::chat_formats.at(static_cast<std::size_t>(format)).name;
}

SLUICE_INLINE std::string chat_format_names() {
  std::string text;
  for (const detail::ChatFormatRow& row : detail::chat_formats)
    text += (text.empty() ? "" : ", ") + std::string{row.name};
  return text;
}

SLUICE_INLINE Expected<ChatFormat> find_chat_format(std::string_view name, const std::string& where) {
  std::vector<std::string_view> names;
  for (const detail::ChatFormatRow& row : detail::chat_formats) {
    if (row.name == name) return row.format;
    names.push_back(row.name);
  }
  return Error{ErrorCode::not_found, where,
               "there is no chat format '" + excerpt(name) + "'" + did_you_mean(name, names), chat_format_names()};
}

SLUICE_INLINE std::optional<ChatFormat> known_chat_template(std::string_view text) {
  const std::string digest = detail::template_digest(text);
  for (const auto& [known, format] : detail::chat_templates)
    if (known == digest) return format;
  return std::nullopt;
}

SLUICE_INLINE std::optional<ChatFormat> find_chat_format(const Tokenizer& tokenizer) {
  const auto has = [&](std::string_view name) { return tokenizer.id_of(name).has_value(); };
  // Gemma's vocabulary has <s> and </s>, too, as tags of HTML and not as special tokens.
  const auto special = [&](std::string_view name) {
    const std::optional<std::int32_t> id = tokenizer.id_of(name);
    return id && tokenizer.vocabulary().is_special(*id);
  };
  if (has("<|start_header_id|>") && has("<|end_header_id|>") && has("<|eot_id|>")) return ChatFormat::llama3;
  if (has("<|im_start|>") && has("<|im_end|>")) return has("<think>") ? ChatFormat::qwen3 : ChatFormat::chatml;
  if (has("<start_of_turn>") && has("<end_of_turn>"))
    return has("<start_of_image>") ? ChatFormat::gemma3 : ChatFormat::gemma2;
  if (has("<|start|>") && has("<|message|>") && has("<|channel|>")) return ChatFormat::gpt_oss;
  // The brackets are no tokens; SentencePiece vocabularies with these two are Llama-2's and Mixtral's.
  if (special("<s>") && special("</s>") && has("\xE2\x96\x81") && has("<0x0A>")) return ChatFormat::llama2;
  return std::nullopt;
}

SLUICE_INLINE Expected<ChatFormat> chat_format_of(const Tokenizer& tokenizer) {
  const std::string& chat_template = tokenizer.chat_template();
  if (!chat_template.empty()) {
    if (const std::optional<ChatFormat> known = known_chat_template(chat_template)) return *known;
    return Error{ErrorCode::unsupported, "the chat template",
                 "the model's chat_template (digest " + detail::template_digest(chat_template) + ") is not a known one",
                 "--chat-format with the one that writes the same: " + chat_format_names()};
  }
  if (const std::optional<ChatFormat> suggested = find_chat_format(tokenizer)) return *suggested;
  return Error{ErrorCode::unsupported, "the chat template",
               "the model has no chat_template, and its special tokens are those of no known chat format",
               "a model trained to answer, or --chat-format " + chat_format_names()};
}

} // namespace sluice

namespace sluice::detail {

/// `text` without leading and trailing white space, as Jinja's `trim`.
[[nodiscard]] inline std::string trim(std::string_view text) {
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
  return std::string{begin < end ? text.substr(begin, end - begin) : std::string_view{}};
}

[[nodiscard]] inline std::string_view without_leading_lines(std::string_view text) {
  while (text.starts_with('\n')) text.remove_prefix(1);
  return text;
}
[[nodiscard]] inline std::string_view without_trailing_lines(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  return text;
}

/// A JSON string, as Python's json.dumps writes it with ensure_ascii=False.
[[nodiscard]] inline std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char character : text) {
    const auto code = static_cast<unsigned char>(character);
    constexpr std::string_view plain = "\"\\\b\f\n\r\t", escaped = "\"\\bfnrt";
    if (const std::size_t at = plain.find(character); at != std::string_view::npos)
      (out += '\\') += escaped[at];
    else if (code < 0x20)
      (out += "\\u00") += {"0123456789abcdef"[code >> 4U], "0123456789abcdef"[code & 15U]};
    else
      out += character;
  }
  return out + '"';
}

[[nodiscard]] inline std::string date_text(std::time_t now, const char* format) {
  std::tm local{};
  localtime_r(&now, &local);
  char text[32];
  return {text, std::strftime(text, sizeof text, format, &local)};
}

using ChatTurns = std::span<const ChatMessage>;

/// The first message, if it is the system's, and the others.
[[nodiscard]] inline std::pair<const ChatMessage*, ChatTurns> split_system(ChatTurns messages) {
  if (messages.front().role != "system") return {nullptr, messages};
  return {&messages.front(), messages.subspan(1)};
}

[[nodiscard]] inline Error wrong_turn(std::size_t at, std::string what, std::string expected) {
  return Error{ErrorCode::bad_input, "message " + std::to_string(at + 1), std::move(what), std::move(expected)};
}

/// What the formats have in common, whatever the template: known roles, and tools only where they can be written.
[[nodiscard]] inline Status check_turns(const ChatFormatRow& format, ChatTurns messages) {
  if (messages.empty()) return Error{ErrorCode::bad_input, "messages", "there are none", "at least one of a user"};
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const ChatMessage& message = messages[i];
    const std::string_view role = message.role;
    if (role != "system" && role != "user" && role != "assistant" && role != "tool")
      return wrong_turn(i, "its role is '" + excerpt(role) + "'", "system, user, assistant or tool");
    if (!format.tools && (role == "tool" || !message.calls.empty()))
      return wrong_turn(i, "the chat format " + std::string{format.name} + " has no tools here",
                        "neither tool_calls nor the role tool");
  }
  return {};
}

/// Checks that user and assistant take turns, from the user, as several templates demand. `first`: the place of the
/// first one among all messages. Other roles count as the assistant's if `others`.
[[nodiscard]] inline Status check_alternation(ChatTurns turns, std::size_t first, bool others) {
  for (std::size_t i = 0; i < turns.size(); ++i) {
    const bool user = turns[i].role == "user";
    if (user == (i % 2 == 0) && (user || others || turns[i].role == "assistant")) continue;
    return wrong_turn(first + i, "its role is '" + excerpt(turns[i].role) + "'",
                      i % 2 == 0 ? "user: user and assistant take turns" : "assistant: user and assistant take turns");
  }
  return {};
}

/// The results of one turn's calls are one message of the user's.
inline void add_result(std::string& text, ChatTurns messages, std::size_t i) {
  if (i == 0 || messages[i - 1].role != "tool") text += "<|im_start|>user";
  text += "\n<tool_response>\n" + messages[i].content + "\n</tool_response>";
  if (i + 1 == messages.size() || messages[i + 1].role != "tool") text += "<|im_end|>\n";
}
inline void add_call(std::string& text, const ChatToolCall& call) {
  text += "<tool_call>\n{\"name\": \"" + call.name + "\", \"arguments\": " + call.arguments + "}\n</tool_call>";
}

/// The turns as Qwen 2.5's template spells them. `system`: the system message of a conversation that begins with none.
[[nodiscard]] inline std::string chatml_text(ChatTurns messages, std::string_view system) {
  std::string text;
  if (!system.empty() && messages.front().role != "system")
    text = "<|im_start|>system\n" + std::string{system} + "<|im_end|>\n";
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const ChatMessage& message = messages[i];
    if (message.role == "tool") {
      add_result(text, messages, i);
      continue;
    }
    text += "<|im_start|>" + message.role;
    if (message.calls.empty() || !message.content.empty()) text += "\n" + message.content;
    for (const ChatToolCall& call : message.calls) add_call(text += '\n', call);
    text += "<|im_end|>\n";
  }
  return text + "<|im_start|>assistant\n";
}

/// The turns as Qwen 3's template spells them: reasoning is written only for answers after the last question.
[[nodiscard]] inline std::string qwen3_text(ChatTurns messages) {
  std::size_t question = messages.size() - 1; // the last one that is not a tool's result
  for (std::size_t i = messages.size(); i-- > 0;) {
    const std::string_view content = messages[i].content;
    if (messages[i].role != "user" || (content.starts_with("<tool_response>") && content.ends_with("</tool_response>")))
      continue;
    question = i;
    break;
  }
  std::string text;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const ChatMessage& message = messages[i];
    if (message.role == "tool") {
      add_result(text, messages, i);
      continue;
    }
    text += "<|im_start|>" + message.role + "\n";
    if (message.role != "assistant") {
      text += message.content + "<|im_end|>\n";
      continue;
    }
    constexpr std::string_view begin = "<think>", end = "</think>";
    std::string_view content = message.content, reasoning;
    if (message.reasoning) {
      reasoning = *message.reasoning;
    } else if (const std::size_t last = content.rfind(end); last != std::string_view::npos) {
      reasoning = without_trailing_lines(content.substr(0, content.find(end)));
      if (const std::size_t at = reasoning.rfind(begin); at != std::string_view::npos)
        reasoning.remove_prefix(at + begin.size());
      reasoning = without_leading_lines(reasoning);
      content = without_leading_lines(content.substr(last + end.size()));
    }
    if (i > question && (i + 1 == messages.size() || !reasoning.empty())) {
      text += "<think>\n" + std::string{without_trailing_lines(without_leading_lines(reasoning))} + "\n</think>\n\n";
      text += without_leading_lines(content);
    } else {
      text += content;
    }
    for (std::size_t call = 0; call < message.calls.size(); ++call) {
      if (call > 0 || !content.empty()) text += '\n';
      add_call(text, message.calls[call]);
    }
    text += "<|im_end|>\n";
  }
  return text + "<|im_start|>assistant\n";
}

[[nodiscard]] inline std::string llama3_turn(std::string_view role, const std::string& content) {
  return "<|start_header_id|>" + std::string{role} + "<|end_header_id|>\n\n" + content + "<|eot_id|>";
}
inline constexpr std::string_view llama3_answer = "<|start_header_id|>assistant<|end_header_id|>\n\n";

[[nodiscard]] inline std::string llama3_text(ChatTurns messages) {
  std::string text = "<|begin_of_text|>";
  for (const ChatMessage& message : messages) text += llama3_turn(message.role, trim(message.content));
  return text.append(llama3_answer);
}

/// The turns as Llama 3.1's template spells them; a call's result has the role ipython there, and is written as JSON.
[[nodiscard]] inline Expected<std::string> llama3_1_text(ChatTurns messages, const std::string& date) {
  const auto [system, turns] = split_system(messages);
  std::string text = "<|begin_of_text|>" +
                     llama3_turn("system", "Cutting Knowledge Date: December 2023\nToday Date: " + date + "\n\n" +
                                               (system == nullptr ? std::string{} : trim(system->content)));
  for (std::size_t i = 0; i < turns.size(); ++i) {
    const std::vector<ChatToolCall>& calls = turns[i].calls;
    if (calls.size() > 1)
      return wrong_turn(i + (messages.size() - turns.size()), "this model's chat format has one tool call per turn",
                        "one");
    if (!calls.empty())
      text += llama3_turn("assistant", "{\"name\": \"" + calls.front().name +
                                           "\", \"parameters\": " + calls.front().arguments + "}");
    else if (turns[i].role == "tool")
      text += llama3_turn("ipython", json_string(turns[i].content));
    else
      text += llama3_turn(turns[i].role, trim(turns[i].content));
  }
  return text.append(llama3_answer);
}

/// The turns of formats in which user and assistant take turns and a system message is part of the user's first.
[[nodiscard]] inline Expected<std::string> alternating_text(ChatFormat format, ChatTurns messages) {
  const auto [system, turns] = split_system(messages);
  const bool gemma = format == ChatFormat::gemma2 || format == ChatFormat::gemma3;
  if (system != nullptr && (format == ChatFormat::gemma2 || format == ChatFormat::mistral))
    return wrong_turn(0, "this model's chat format has no system message", "user and assistant");
  // Gemma's templates write any role where an answer belongs.
  if (Status status = check_alternation(turns, messages.size() - turns.size(), gemma); !status) return status.error();
  std::string text = gemma ? "<bos>" : format == ChatFormat::llama2 ? "" : "<s>";
  for (std::size_t i = 0; i < turns.size(); ++i) {
    const bool user = turns[i].role == "user", leads = i == 0 && system != nullptr;
    const std::string& content = turns[i].content;
    if (gemma)
      text += "<start_of_turn>" + (turns[i].role == "assistant" ? std::string{"model"} : turns[i].role) + "\n" +
              (leads ? system->content + "\n\n" : std::string{}) + trim(content) + "<end_of_turn>\n";
    else if (format == ChatFormat::llama2)
      text += user ? "<s>[INST] " +
                         trim((leads ? "<<SYS>>\n" + system->content + "\n<</SYS>>\n\n" : std::string{}) + content) +
                         " [/INST]"
                   : " " + trim(content) + " </s>";
    else if (format == ChatFormat::mixtral)
      text += user ? " [INST] " + (leads ? system->content + "\n\n" : std::string{}) + content + " [/INST]"
                   : " " + content + "</s>";
    else
      text += user ? "[INST] " + content + " [/INST]" : content + "</s> ";
  }
  return gemma ? text + "<start_of_turn>model\n" : text;
}

[[nodiscard]] inline std::string mistral_small_text(ChatTurns messages) {
  std::string text = "<s>";
  for (const ChatMessage& message : messages)
    text += message.role == "user"     ? "[INST]" + message.content + "[/INST]"
            : message.role == "system" ? "[SYSTEM_PROMPT]" + message.content + "[/SYSTEM_PROMPT]"
                                       : message.content + "</s>";
  return text;
}

/// DeepSeek V3's bars are U+FF5C, and its underscores U+2581. All system messages come first.
[[nodiscard]] inline std::string deepseek_text(ChatTurns messages) {
  std::string system, text;
  bool first = true;
  for (const ChatMessage& message : messages) {
    if (message.role == "system") {
      system += (std::exchange(first, false) ? "" : "\n\n") + message.content;
    } else if (message.role == "user") {
      text += "<\xEF\xBD\x9CUser\xEF\xBD\x9C>" + message.content;
    } else {
      text += "<\xEF\xBD\x9C"
              "Assistant\xEF\xBD\x9C>" +
              message.content +
              "<\xEF\xBD\x9C"
              "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>";
    }
  }
  return "<\xEF\xBD\x9C"
         "begin\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>" +
         system + text +
         "<\xEF\xBD\x9C"
         "Assistant\xEF\xBD\x9C>";
}

/// The turns as gpt-oss's template spells them: it writes no reasoning of earlier answers, and leaves out a system
/// message that is not the first one.
[[nodiscard]] inline Expected<std::string> gpt_oss_text(ChatTurns messages, const std::string& date) {
  const auto [system, turns] = split_system(messages);
  std::string text = "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\n"
                     "Knowledge cutoff: 2024-06\nCurrent date: " +
                     date +
                     "\n\nReasoning: medium\n\n# Valid channels: analysis, commentary, final. Channel must be included "
                     "for every message.<|end|>";
  if (system != nullptr && !system->content.empty())
    text += "<|start|>developer<|message|># Instructions\n\n" + system->content + "\n\n<|end|>";
  for (std::size_t i = 0; i < turns.size(); ++i) {
    const std::string& content = turns[i].content;
    if (turns[i].role == "user") text += "<|start|>user<|message|>" + content + "<|end|>";
    if (turns[i].role != "assistant") continue;
    for (const char* channel : {"<|channel|>analysis<|message|>", "<|channel|>final<|message|>"})
      if (content.find(channel) != std::string::npos)
        return wrong_turn(i + (messages.size() - turns.size()), std::string{"its content has "} + channel,
                          "the final answer alone");
    text += "<|start|>assistant<|channel|>final<|message|>" + content + "<|end|>";
  }
  return text + "<|start|>assistant";
}

} // namespace sluice::detail

namespace sluice {

SLUICE_INLINE Expected<std::string> chat_text(ChatFormat format, std::span<const ChatMessage> messages,
                                              std::time_t now) {
  using namespace detail;
  if (Status status = check_turns(chat_formats.at(static_cast<std::size_t>(format)), messages); !status)
    return status.error();
  switch (format) {
  case ChatFormat::chatml:
    return chatml_text(messages, {});
  case ChatFormat::qwen2_5:
    return chatml_text(messages, "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.");
  case ChatFormat::qwen3:
    return qwen3_text(messages);
  case ChatFormat::llama3:
    return llama3_text(messages);
  case ChatFormat::llama3_1:
    return llama3_1_text(messages, "26 Jul 2024");
  case ChatFormat::llama3_2:
    return llama3_1_text(messages, date_text(now, "%d %b %Y"));
  case ChatFormat::mistral_small:
    return mistral_small_text(messages);
  case ChatFormat::deepseek_v3:
    return deepseek_text(messages);
  case ChatFormat::gpt_oss:
    return gpt_oss_text(messages, date_text(now, "%Y-%m-%d"));
  case ChatFormat::llama2:
  case ChatFormat::mistral:
  case ChatFormat::mixtral:
  case ChatFormat::gemma2:
  case ChatFormat::gemma3:
    break;
  }
  return alternating_text(format, messages);
}

} // namespace sluice
