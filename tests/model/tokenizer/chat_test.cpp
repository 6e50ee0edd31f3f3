// SPDX-License-Identifier: Apache-2.0
// chat_text: each format writes what its family's template writes.
#include "sluice/model/tokenizer/bytes.hpp"
#include "sluice/model/tokenizer/chat.hpp"

#include "model/tokenizer/chat_rendered.hpp"
#include <doctest/doctest.h>

#include <ctime>
#include <string>
#include <vector>

using namespace sluice;

namespace {

/// Noon of the day on which the references were made.
std::time_t that_day() {
  std::tm day{};
  day.tm_year = 2026 - 1900;
  day.tm_mon = 8;
  day.tm_mday = 21;
  day.tm_hour = 12;
  return std::mktime(&day);
}

std::string text_of(ChatFormat format, const std::vector<ChatMessage>& messages) {
  const Expected<std::string> text = chat_text(format, messages, that_day());
  return text ? *text : text.error().line();
}

} // namespace

TEST_CASE("a conversation is written as the family's template writes it, or refused where the template raises") {
  for (const chat_rendered::Rendered& of : chat_rendered::rendered) {
    for (std::size_t i = 0; i < of.texts.size(); ++i) {
      INFO(std::string{name(of.format)} << ", conversation " << i);
      const Expected<std::string> text = chat_text(of.format, chat_rendered::conversations[i], that_day());
      CHECK(text.has_value() == (of.texts[i] != nullptr));
      if (text && of.texts[i] != nullptr) CHECK(*text == of.texts[i]);
    }
  }
}

TEST_CASE("gpt-oss: the system message is the developer's, answers are final, and reasoning is left out") {
  const std::string head =
      "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\nKnowledge cutoff: "
      "2024-06\nCurrent date: 2026-09-21\n\nReasoning: medium\n\n# Valid channels: analysis, commentary, final. "
      "Channel "
      "must be included for every message.<|end|>";
  CHECK(text_of(ChatFormat::gpt_oss, {{"user", "a"}}) == head + "<|start|>user<|message|>a<|end|><|start|>assistant");
  CHECK(text_of(ChatFormat::gpt_oss, {{"system", "s"}, {"user", "a"}, {"assistant", "b", {}, "why"}, {"user", "c"}}) ==
        head + "<|start|>developer<|message|># Instructions\n\ns\n\n<|end|><|start|>user<|message|>a<|end|><|start|>"
               "assistant<|channel|>final<|message|>b<|end|><|start|>user<|message|>c<|end|><|start|>assistant");
  CHECK(text_of(ChatFormat::gpt_oss, {{"user", "a"}, {"assistant", "<|channel|>final<|message|>b"}})
            .starts_with("message 2: its content has <|channel|>final"));
}

TEST_CASE("each format with tools spells calls and their results as its family does") {
  const std::vector<ChatMessage> messages{
      {"user", "Weather?"}, {"assistant", "", {{"weather", R"({"city": "Ulm"})"}}}, {"tool", "rain\n\"x\""}};
  CHECK(text_of(ChatFormat::llama3_1, messages) ==
        "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday "
        "Date: 26 Jul 2024\n\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nWeather?<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n{\"name\": \"weather\", \"parameters\": {\"city\": "
        "\"Ulm\"}}<|eot_id|><|start_header_id|>ipython<|end_header_id|>\n\n\"rain\\n\\\"x\\\"\"<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n");
  const std::string qwen =
      "<|im_start|>user\nWeather?<|im_end|>\n<|im_start|>assistant\n<tool_call>\n{\"name\": \"weather\", "
      "\"arguments\": {\"city\": \"Ulm\"}}\n</tool_call><|im_end|>\n<|im_start|>user\n<tool_response>\nrain\n\"x\"\n"
      "</tool_response><|im_end|>\n<|im_start|>assistant\n";
  CHECK(text_of(ChatFormat::qwen3, messages) == qwen);
  CHECK(text_of(ChatFormat::chatml, messages) == qwen);
  for (const ChatFormat format :
       {ChatFormat::llama2, ChatFormat::llama3, ChatFormat::mistral, ChatFormat::mixtral, ChatFormat::mistral_small,
        ChatFormat::gemma2, ChatFormat::gemma3, ChatFormat::deepseek_v3, ChatFormat::gpt_oss})
    CHECK(text_of(format, messages) == "message 2: the chat format " + std::string{name(format)} +
                                           " has no tools here; expected neither tool_calls nor the role tool");

  std::vector<ChatMessage> two = messages;
  two[1].content = "Let me see.";
  two[1].calls.push_back({"time", "{}"});
  two.push_back({"tool", "noon"});
  for (const ChatFormat format : {ChatFormat::chatml, ChatFormat::qwen3}) {
    const std::string text = text_of(format, two);
    CHECK(text.find("see.\n<tool_call>") != std::string::npos);
    CHECK(text.find("</tool_call>\n<tool_call>") != std::string::npos);
    CHECK(text.find("\"x\"\n</tool_response>\n<tool_response>\nnoon\n</tool_response><|im_end|>") != std::string::npos);
  }
  CHECK(text_of(ChatFormat::llama3_1, two).starts_with("message 2: this model's chat format has one tool call"));
}

TEST_CASE("what no format can write is refused") {
  CHECK(text_of(ChatFormat::chatml, {}) == "messages: there are none; expected at least one of a user");
  CHECK(text_of(ChatFormat::chatml, {{"critic", "x"}}).starts_with("message 1: its role is 'critic'"));
  // The template would leave out the second message.
  CHECK(text_of(ChatFormat::llama2, {{"user", "a"}, {"system", "b"}, {"user", "c"}})
            .starts_with("message 2: its role is 'system'; expected assistant"));
}

TEST_CASE("a format is found by its name, a template by its digest, whatever its line ends") {
  for (const chat_rendered::Rendered& of : chat_rendered::rendered)
    CHECK(*find_chat_format(name(of.format), "--chat-format") == of.format);
  CHECK(find_chat_format("qwen", "--chat-format")
            .error()
            .line()
            .starts_with("--chat-format: there is no chat format 'qwen' (did you mean qwen3?); expected chatml, "
                         "qwen2.5, qwen3, llama2"));
  const std::string mistral =
      "{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ "
      "raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% if "
      "message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}{% elif message['role'] == "
      "'assistant' %}{{ message['content'] + eos_token + ' ' }}{% else %}{{ raise_exception('Only user and assistant "
      "roles are supported!') }}{% endif %}{% endfor %}";
  CHECK(known_chat_template(mistral) == ChatFormat::mistral);
  CHECK(known_chat_template(mistral + "\r\n") == ChatFormat::mistral);
  CHECK_FALSE(known_chat_template(mistral + "x").has_value());
  CHECK(known_chat_template(
            "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + "
            "'<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ "
            "'<|im_start|>assistant\\n' }}{% endif %}") == ChatFormat::chatml);
  CHECK_FALSE(find_chat_format(ByteTokenizer{}).has_value());
  CHECK(chat_format_of(ByteTokenizer{})
            .error()
            .line()
            .starts_with("the chat template: the model has no chat_template, and its special tokens are those of no "
                         "known chat format"));
}
