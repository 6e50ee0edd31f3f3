// SPDX-License-Identifier: Apache-2.0
// Conversations, and the text that each family's template makes of them with Jinja 3.1 as Hugging Face's transformers
// sets it up (trim_blocks, lstrip_blocks, add_generation_prompt, on 21 September 2026). Null: the template raises, or
// would leave a message out (gpt-oss's leaves out later system messages, and so does its format).
#pragma once

#include "sluice/model/tokenizer/chat.hpp"

#include <vector>

namespace chat_rendered {

using sluice::ChatFormat;
using sluice::ChatMessage;

inline const std::vector<std::vector<ChatMessage>> conversations{
    {{"user", "Hi"}},
    {{"system", "Be brief."}, {"user", "Hi"}},
    {{"user", " Hi\n"}, {"assistant", "Hello "}, {"user", "Bye"}},
    {{"user", "a"}, {"user", "b"}},
    {{"system", "x"}, {"system", "y"}, {"user", "a"}},
    {{"user", "a"}, {"system", "later"}, {"user", "b"}},
    {{"assistant", "first"}, {"user", "b"}},
    {{"user", "a"}, {"assistant", "last"}},
    {{"user", "q"}, {"assistant", "<think>\nhmm\n</think>\n\nanswer"}, {"user", "next"}},
    {{"user", "q"}, {"assistant", "<think>\nhmm\n</think>\n\nanswer"}},
    {{"user", "q"}, {"assistant", "answer", {}, "\nwhy\n"}, {"user", "next"}},
    {{"user", "q"}, {"assistant", "answer", {}, "why"}},
    {{"user", "q"}, {"assistant", "x</think>y</think>\n\nz"}, {"user", "n"}},
    {{"user", "a"}, {"assistant", "b"}, {"system", "mid"}, {"user", "c"}},
    {{"user", "\xC3\xA4 \xE6\x97\xA5\xE6\x9C\xAC \xC2\xA0"},
     {"assistant", " \xC3\xA9\xE2\x80\x83"},
     {"user", "<tool_response>x</tool_response>"}},
    {{"user", "q"},
     {"assistant", "A</think>\n\nB"},
     {"assistant", "C"},
     {"user", "d"},
     {"assistant", "<think>k</think>E"},
     {"assistant", "F"}},
    {{"user", ""}},
    {{"system", ""}, {"user", "a"}, {"assistant", ""}, {"user", "b"}},
    {{"system", " s "}, {"user", "a"}, {"assistant", "b"}, {"user", "c"}, {"assistant", "d"}, {"user", "e\n"}},
    {{"user", "q"}, {"assistant", "", {}, "why"}, {"user", "n"}, {"assistant", "m", {}, ""}}};

struct Rendered {
  ChatFormat format;
  std::vector<const char*> texts; ///< one per conversation, from the first on
};

inline const std::vector<Rendered> rendered{
    {ChatFormat::qwen3,
     {"<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
      "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
      "<|im_start|>user\n Hi\n<|im_end|>\n<|im_start|>assistant\nHello "
      "<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n",
      "<|im_start|>user\na<|im_end|>\n<|im_start|>user\nb<|im_end|>\n<|im_start|>assistant\n",
      "<|im_start|>system\nx<|im_end|>\n<|im_start|>system\ny<|im_end|>\n<|im_start|>user\na<|im_end|>\n<|im_start|>"
      "assistant\n",
      "<|im_start|>user\na<|im_end|>\n<|im_start|>system\nlater<|im_end|>\n<|im_start|>user\nb<|im_end|>\n<|im_start|>"
      "assistant\n",
      "<|im_start|>assistant\nfirst<|im_end|>\n<|im_start|>user\nb<|im_end|>\n<|im_start|>assistant\n",
      "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n<think>\n\n</"
      "think>\n\nlast<|im_end|>\n<|im_start|>assistant\n",
      "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\nanswer<|im_end|>\n<|im_start|>user\nnext<|im_end|>\n<|im_"
      "start|>assistant\n",
      "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n<think>\nhmm\n</"
      "think>\n\nanswer<|im_end|>\n<|im_start|>assistant\n",
      "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\nanswer<|im_end|>\n<|im_start|>user\nnext<|im_end|>\n<|im_"
      "start|>assistant\n",
      "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n<think>\nwhy\n</"
      "think>\n\nanswer<|im_end|>\n<|im_start|>assistant\n",
      "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\nz<|im_end|>\n<|im_start|>user\nn<|im_end|>\n<|im_start|>"
      "assistant\n",
      "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n<|im_start|>system\nmid<|im_end|>\n<|im_"
      "start|>user\nc<|im_end|>\n<|im_start|>assistant\n",
      "<|im_start|>user\n\xC3\xA4 \xE6\x97\xA5\xE6\x9C\xAC \xC2\xA0<|im_end|>\n<|im_start|>assistant\n "
      "\xC3\xA9\xE2\x80\x83<|im_end|>\n<|im_start|>user\n<tool_response>x</"
      "tool_response><|im_end|>\n<|im_start|>assistant\n",
      "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\nB<|im_end|>\n<|im_start|>assistant\nC<|im_end|>\n<|im_"
      "start|>user\nd<|im_end|>\n<|im_start|>assistant\n<think>\nk\n</"
      "think>\n\nE<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\nF<|im_end|>\n<|im_start|>assistant\n",
      "<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n",
      "<|im_start|>system\n<|im_end|>\n<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n<|im_end|>\n<|im_start|>"
      "user\nb<|im_end|>\n<|im_start|>assistant\n",
      "<|im_start|>system\n s "
      "<|im_end|>\n<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n<|im_start|>user\nc<|im_end|>\n<|"
      "im_start|>assistant\nd<|im_end|>\n<|im_start|>user\ne\n<|im_end|>\n<|im_start|>assistant\n",
      "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n<|im_end|>\n<|im_start|>user\nn<|im_end|>\n<|im_start|>"
      "assistant\n<think>\n\n</think>\n\nm<|im_end|>\n<|im_start|>assistant\n"}},
    {ChatFormat::qwen2_5,
     {"<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful "
      "assistant.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
      "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
      "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful "
      "assistant.<|im_end|>\n<|im_start|>user\n Hi\n<|im_end|>\n<|im_start|>assistant\nHello "
      "<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n",
      "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful "
      "assistant.<|im_end|>\n<|im_start|>user\na<|im_end|>\n<|im_start|>user\nb<|im_end|>\n<|im_start|>assistant\n",
      "<|im_start|>system\nx<|im_end|>\n<|im_start|>system\ny<|im_end|>\n<|im_start|>user\na<|im_end|>\n<|im_start|>"
      "assistant\n",
      "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful "
      "assistant.<|im_end|>\n<|im_start|>user\na<|im_end|>\n<|im_start|>system\nlater<|im_end|>\n<|im_start|>user\nb<|"
      "im_end|>\n<|im_start|>assistant\n",
      "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful "
      "assistant.<|im_end|>\n<|im_start|>assistant\nfirst<|im_end|>\n<|im_start|>user\nb<|im_end|>\n<|im_start|>"
      "assistant\n",
      "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful "
      "assistant.<|im_end|>\n<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nlast<|im_end|>\n<|im_start|>"
      "assistant\n",
      "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful "
      "assistant.<|im_end|>\n<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n<think>\nhmm\n</"
      "think>\n\nanswer<|im_end|>\n<|im_start|>user\nnext<|im_end|>\n<|im_start|>assistant\n",
      "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful "
      "assistant.<|im_end|>\n<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n<think>\nhmm\n</"
      "think>\n\nanswer<|im_end|>\n<|im_start|>assistant\n",
      "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful "
      "assistant.<|im_end|>\n<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\nanswer<|im_end|>\n<|im_start|>"
      "user\nnext<|im_end|>\n<|im_start|>assistant\n",
      "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful "
      "assistant.<|im_end|>\n<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\nanswer<|im_end|>\n<|im_start|>"
      "assistant\n",
      "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful "
      "assistant.<|im_end|>\n<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\nx</think>y</"
      "think>\n\nz<|im_end|>\n<|im_start|>user\nn<|im_end|>\n<|im_start|>assistant\n",
      "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful "
      "assistant.<|im_end|>\n<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n<|im_start|>"
      "system\nmid<|im_end|>\n<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n",
      "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful "
      "assistant.<|im_end|>\n<|im_start|>user\n\xC3\xA4 \xE6\x97\xA5\xE6\x9C\xAC "
      "\xC2\xA0<|im_end|>\n<|im_start|>assistant\n "
      "\xC3\xA9\xE2\x80\x83<|im_end|>\n<|im_start|>user\n<tool_response>x</"
      "tool_response><|im_end|>\n<|im_start|>assistant\n",
      "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful "
      "assistant.<|im_end|>\n<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\nA</"
      "think>\n\nB<|im_end|>\n<|im_start|>assistant\nC<|im_end|>\n<|im_start|>user\nd<|im_end|>\n<|im_start|>"
      "assistant\n<think>k</think>E<|im_end|>\n<|im_start|>assistant\nF<|im_end|>\n<|im_start|>assistant\n"}},
    {ChatFormat::llama3,
     {"<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\n",
      "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe "
      "brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\n",
      "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\nHello<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|><|start_header_id|>"
      "assistant<|end_header_id|>\n\n",
      "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\na<|eot_id|><|start_header_id|>user<|end_header_id|>"
      "\n\nb<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
      "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nx<|eot_id|><|start_header_id|>system<|end_header_"
      "id|>\n\ny<|eot_id|><|start_header_id|>user<|end_header_id|>\n\na<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\n",
      "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\na<|eot_id|><|start_header_id|>system<|end_header_"
      "id|>\n\nlater<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nb<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\n",
      "<|begin_of_text|><|start_header_id|>assistant<|end_header_id|>\n\nfirst<|eot_id|><|start_header_id|>user<|end_"
      "header_id|>\n\nb<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
      "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\na<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\nlast<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
      "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nq<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\n<think>\nhmm\n</"
      "think>\n\nanswer<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nnext<|eot_id|><|start_header_id|>"
      "assistant<|end_header_id|>\n\n",
      "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nq<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\n<think>\nhmm\n</think>\n\nanswer<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
      "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nq<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\nanswer<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nnext<|eot_id|><|start_header_id|>"
      "assistant<|end_header_id|>\n\n",
      "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nq<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\nanswer<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
      "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nq<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\nx</think>y</"
      "think>\n\nz<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nn<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\n",
      "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\na<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\nb<|eot_id|><|start_header_id|>system<|end_header_id|>\n\nmid<|eot_id|><|start_header_id|>user<|"
      "end_header_id|>\n\nc<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
      "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\n\xC3\xA4 "
      "\xE6\x97\xA5\xE6\x9C\xAC<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n\xC3\xA9<|eot_id|><|start_"
      "header_id|>user<|end_header_id|>\n\n<tool_response>x</"
      "tool_response><|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
      "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nq<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\nA</"
      "think>\n\nB<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nC<|eot_id|><|start_header_id|>user<|end_"
      "header_id|>\n\nd<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n<think>k</"
      "think>E<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nF<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\n",
      "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\n<|eot_id|><|start_header_id|>assistant<|end_header_"
      "id|>\n\n",
      "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n<|eot_id|><|start_header_id|>user<|end_header_id|"
      ">\n\na<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n<|eot_id|><|start_header_id|>user<|end_header_"
      "id|>\n\nb<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
      "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\ns<|eot_id|><|start_header_id|>user<|end_header_"
      "id|>\n\na<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nb<|eot_id|><|start_header_id|>user<|end_"
      "header_id|>\n\nc<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nd<|eot_id|><|start_header_id|>user<|"
      "end_header_id|>\n\ne<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
      "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nq<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nn<|eot_id|><|start_header_id|>assistant<|"
      "end_header_id|>\n\nm<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"}},
    {ChatFormat::llama3_1,
     {"<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday "
      "Date: 26 Jul "
      "2024\n\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\n",
      "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday "
      "Date: 26 Jul 2024\n\nBe "
      "brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\n",
      "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday "
      "Date: 26 Jul "
      "2024\n\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\nHello<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|><|start_header_id|>"
      "assistant<|end_header_id|>\n\n",
      "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday "
      "Date: 26 Jul "
      "2024\n\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\na<|eot_id|><|start_header_id|>user<|end_header_id|"
      ">\n\nb<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
      "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday "
      "Date: 26 Jul "
      "2024\n\nx<|eot_id|><|start_header_id|>system<|end_header_id|>\n\ny<|eot_id|><|start_header_id|>user<|end_header_"
      "id|>\n\na<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
      "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday "
      "Date: 26 Jul "
      "2024\n\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\na<|eot_id|><|start_header_id|>system<|end_header_"
      "id|>\n\nlater<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nb<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\n",
      "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday "
      "Date: 26 Jul "
      "2024\n\n<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nfirst<|eot_id|><|start_header_id|>user<|end_"
      "header_id|>\n\nb<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
      "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday "
      "Date: 26 Jul "
      "2024\n\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\na<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\nlast<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
      "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday "
      "Date: 26 Jul "
      "2024\n\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nq<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\n<think>\nhmm\n</"
      "think>\n\nanswer<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nnext<|eot_id|><|start_header_id|>"
      "assistant<|end_header_id|>\n\n",
      "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday "
      "Date: 26 Jul "
      "2024\n\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nq<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\n<think>\nhmm\n</think>\n\nanswer<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
      "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday "
      "Date: 26 Jul "
      "2024\n\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nq<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\nanswer<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nnext<|eot_id|><|start_header_id|>"
      "assistant<|end_header_id|>\n\n",
      "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday "
      "Date: 26 Jul "
      "2024\n\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nq<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\nanswer<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
      "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday "
      "Date: 26 Jul "
      "2024\n\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nq<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\nx</think>y</"
      "think>\n\nz<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nn<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\n",
      "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday "
      "Date: 26 Jul "
      "2024\n\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\na<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\nb<|eot_id|><|start_header_id|>system<|end_header_id|>\n\nmid<|eot_id|><|start_header_id|>user<|"
      "end_header_id|>\n\nc<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
      "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday "
      "Date: 26 Jul 2024\n\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n\xC3\xA4 "
      "\xE6\x97\xA5\xE6\x9C\xAC<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n\xC3\xA9<|eot_id|><|start_"
      "header_id|>user<|end_header_id|>\n\n<tool_response>x</"
      "tool_response><|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
      "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday "
      "Date: 26 Jul "
      "2024\n\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nq<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\nA</"
      "think>\n\nB<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nC<|eot_id|><|start_header_id|>user<|end_"
      "header_id|>\n\nd<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n<think>k</"
      "think>E<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nF<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\n"}},
    {ChatFormat::llama3_2,
     {"<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday "
      "Date: 21 Sep "
      "2026\n\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\n",
      "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday "
      "Date: 21 Sep 2026\n\nBe "
      "brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\n",
      "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday "
      "Date: 21 Sep "
      "2026\n\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\nHello<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|><|start_header_id|>"
      "assistant<|end_header_id|>\n\n",
      "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday "
      "Date: 21 Sep "
      "2026\n\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\na<|eot_id|><|start_header_id|>user<|end_header_id|"
      ">\n\nb<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
      "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday "
      "Date: 21 Sep "
      "2026\n\nx<|eot_id|><|start_header_id|>system<|end_header_id|>\n\ny<|eot_id|><|start_header_id|>user<|end_header_"
      "id|>\n\na<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
      "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday "
      "Date: 21 Sep "
      "2026\n\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\na<|eot_id|><|start_header_id|>system<|end_header_"
      "id|>\n\nlater<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nb<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\n",
      "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday "
      "Date: 21 Sep "
      "2026\n\n<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nfirst<|eot_id|><|start_header_id|>user<|end_"
      "header_id|>\n\nb<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
      "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday "
      "Date: 21 Sep "
      "2026\n\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\na<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\nlast<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
      "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday "
      "Date: 21 Sep "
      "2026\n\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nq<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\n<think>\nhmm\n</"
      "think>\n\nanswer<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nnext<|eot_id|><|start_header_id|>"
      "assistant<|end_header_id|>\n\n",
      "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday "
      "Date: 21 Sep "
      "2026\n\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nq<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\n<think>\nhmm\n</think>\n\nanswer<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
      "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday "
      "Date: 21 Sep "
      "2026\n\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nq<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\nanswer<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nnext<|eot_id|><|start_header_id|>"
      "assistant<|end_header_id|>\n\n",
      "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday "
      "Date: 21 Sep "
      "2026\n\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nq<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\nanswer<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
      "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday "
      "Date: 21 Sep "
      "2026\n\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nq<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\nx</think>y</"
      "think>\n\nz<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nn<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\n",
      "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday "
      "Date: 21 Sep "
      "2026\n\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\na<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\nb<|eot_id|><|start_header_id|>system<|end_header_id|>\n\nmid<|eot_id|><|start_header_id|>user<|"
      "end_header_id|>\n\nc<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
      "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday "
      "Date: 21 Sep 2026\n\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n\xC3\xA4 "
      "\xE6\x97\xA5\xE6\x9C\xAC<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n\xC3\xA9<|eot_id|><|start_"
      "header_id|>user<|end_header_id|>\n\n<tool_response>x</"
      "tool_response><|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
      "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday "
      "Date: 21 Sep "
      "2026\n\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nq<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\nA</"
      "think>\n\nB<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nC<|eot_id|><|start_header_id|>user<|end_"
      "header_id|>\n\nd<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n<think>k</"
      "think>E<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nF<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\n"}},
    {ChatFormat::gemma3,
     {"<bos><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\n",
      "<bos><start_of_turn>user\nBe brief.\n\nHi<end_of_turn>\n<start_of_turn>model\n",
      "<bos><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\nHello<end_of_turn>\n<start_of_turn>user\nBye<"
      "end_of_turn>\n<start_of_turn>model\n",
      nullptr,
      nullptr,
      "<bos><start_of_turn>user\na<end_of_turn>\n<start_of_turn>system\nlater<end_of_turn>\n<start_of_turn>user\nb<end_"
      "of_turn>\n<start_of_turn>model\n",
      nullptr,
      "<bos><start_of_turn>user\na<end_of_turn>\n<start_of_turn>model\nlast<end_of_turn>\n<start_of_turn>model\n",
      "<bos><start_of_turn>user\nq<end_of_turn>\n<start_of_turn>model\n<think>\nhmm\n</"
      "think>\n\nanswer<end_of_turn>\n<start_of_turn>user\nnext<end_of_turn>\n<start_of_turn>model\n",
      "<bos><start_of_turn>user\nq<end_of_turn>\n<start_of_turn>model\n<think>\nhmm\n</"
      "think>\n\nanswer<end_of_turn>\n<start_of_turn>model\n",
      "<bos><start_of_turn>user\nq<end_of_turn>\n<start_of_turn>model\nanswer<end_of_turn>\n<start_of_turn>user\nnext<"
      "end_of_turn>\n<start_of_turn>model\n",
      "<bos><start_of_turn>user\nq<end_of_turn>\n<start_of_turn>model\nanswer<end_of_turn>\n<start_of_turn>model\n",
      "<bos><start_of_turn>user\nq<end_of_turn>\n<start_of_turn>model\nx</think>y</"
      "think>\n\nz<end_of_turn>\n<start_of_turn>user\nn<end_of_turn>\n<start_of_turn>model\n",
      nullptr,
      "<bos><start_of_turn>user\n\xC3\xA4 "
      "\xE6\x97\xA5\xE6\x9C\xAC<end_of_turn>\n<start_of_turn>model\n\xC3\xA9<end_of_turn>\n<start_of_turn>user\n<tool_"
      "response>x</tool_response><end_of_turn>\n<start_of_turn>model\n",
      nullptr,
      "<bos><start_of_turn>user\n<end_of_turn>\n<start_of_turn>model\n",
      "<bos><start_of_turn>user\n\n\na<end_of_turn>\n<start_of_turn>model\n<end_of_turn>\n<start_of_turn>user\nb<end_"
      "of_turn>\n<start_of_turn>model\n",
      "<bos><start_of_turn>user\n s "
      "\n\na<end_of_turn>\n<start_of_turn>model\nb<end_of_turn>\n<start_of_turn>user\nc<end_of_turn>\n<start_of_turn>"
      "model\nd<end_of_turn>\n<start_of_turn>user\ne<end_of_turn>\n<start_of_turn>model\n",
      "<bos><start_of_turn>user\nq<end_of_turn>\n<start_of_turn>model\n<end_of_turn>\n<start_of_turn>user\nn<end_of_"
      "turn>\n<start_of_turn>model\nm<end_of_turn>\n<start_of_turn>model\n"}},
    {ChatFormat::gemma2,
     {"<bos><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\n", nullptr,
      "<bos><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\nHello<end_of_turn>\n<start_of_turn>user\nBye<"
      "end_of_turn>\n<start_of_turn>model\n",
      nullptr, nullptr,
      "<bos><start_of_turn>user\na<end_of_turn>\n<start_of_turn>system\nlater<end_of_turn>\n<start_of_turn>user\nb<end_"
      "of_turn>\n<start_of_turn>model\n",
      nullptr,
      "<bos><start_of_turn>user\na<end_of_turn>\n<start_of_turn>model\nlast<end_of_turn>\n<start_of_turn>model\n",
      "<bos><start_of_turn>user\nq<end_of_turn>\n<start_of_turn>model\n<think>\nhmm\n</"
      "think>\n\nanswer<end_of_turn>\n<start_of_turn>user\nnext<end_of_turn>\n<start_of_turn>model\n",
      "<bos><start_of_turn>user\nq<end_of_turn>\n<start_of_turn>model\n<think>\nhmm\n</"
      "think>\n\nanswer<end_of_turn>\n<start_of_turn>model\n",
      "<bos><start_of_turn>user\nq<end_of_turn>\n<start_of_turn>model\nanswer<end_of_turn>\n<start_of_turn>user\nnext<"
      "end_of_turn>\n<start_of_turn>model\n",
      "<bos><start_of_turn>user\nq<end_of_turn>\n<start_of_turn>model\nanswer<end_of_turn>\n<start_of_turn>model\n",
      "<bos><start_of_turn>user\nq<end_of_turn>\n<start_of_turn>model\nx</think>y</"
      "think>\n\nz<end_of_turn>\n<start_of_turn>user\nn<end_of_turn>\n<start_of_turn>model\n",
      nullptr,
      "<bos><start_of_turn>user\n\xC3\xA4 "
      "\xE6\x97\xA5\xE6\x9C\xAC<end_of_turn>\n<start_of_turn>model\n\xC3\xA9<end_of_turn>\n<start_of_turn>user\n<tool_"
      "response>x</tool_response><end_of_turn>\n<start_of_turn>model\n",
      nullptr}},
    {ChatFormat::deepseek_v3,
     {"<\xEF\xBD\x9C"
      "begin\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C><\xEF\xBD\x9CUser\xEF\xBD\x9C>Hi<\xEF\xBD\x9C"
      "Assistant\xEF\xBD\x9C>",
      "<\xEF\xBD\x9C"
      "begin\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>Be brief.<\xEF\xBD\x9CUser\xEF\xBD\x9C>Hi<\xEF\xBD\x9C"
      "Assistant\xEF\xBD\x9C>",
      "<\xEF\xBD\x9C"
      "begin\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C><\xEF\xBD\x9CUser\xEF\xBD\x9C> Hi\n<\xEF\xBD\x9C"
      "Assistant\xEF\xBD\x9C>Hello <\xEF\xBD\x9C"
      "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C><\xEF\xBD\x9CUser\xEF\xBD\x9C>Bye<\xEF\xBD\x9C"
      "Assistant\xEF\xBD\x9C>",
      "<\xEF\xBD\x9C"
      "begin\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C><\xEF\xBD\x9CUser\xEF\xBD\x9C>a<"
      "\xEF\xBD\x9CUser\xEF\xBD\x9C>b<\xEF\xBD\x9C"
      "Assistant\xEF\xBD\x9C>",
      "<\xEF\xBD\x9C"
      "begin\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>x\n\ny<\xEF\xBD\x9CUser\xEF\xBD\x9C>a<\xEF\xBD\x9C"
      "Assistant\xEF\xBD\x9C>",
      "<\xEF\xBD\x9C"
      "begin\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>later<\xEF\xBD\x9CUser\xEF\xBD\x9C>a<"
      "\xEF\xBD\x9CUser\xEF\xBD\x9C>b<\xEF\xBD\x9C"
      "Assistant\xEF\xBD\x9C>",
      "<\xEF\xBD\x9C"
      "begin\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C><\xEF\xBD\x9C"
      "Assistant\xEF\xBD\x9C>first<\xEF\xBD\x9C"
      "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C><\xEF\xBD\x9CUser\xEF\xBD\x9C>b<\xEF\xBD\x9C"
      "Assistant\xEF\xBD\x9C>",
      "<\xEF\xBD\x9C"
      "begin\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C><\xEF\xBD\x9CUser\xEF\xBD\x9C>a<\xEF\xBD\x9C"
      "Assistant\xEF\xBD\x9C>last<\xEF\xBD\x9C"
      "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C><\xEF\xBD\x9C"
      "Assistant\xEF\xBD\x9C>",
      "<\xEF\xBD\x9C"
      "begin\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C><\xEF\xBD\x9CUser\xEF\xBD\x9C>q<\xEF\xBD\x9C"
      "Assistant\xEF\xBD\x9C><think>\nhmm\n</think>\n\nanswer<\xEF\xBD\x9C"
      "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C><\xEF\xBD\x9CUser\xEF\xBD\x9C>next<\xEF\xBD\x9C"
      "Assistant\xEF\xBD\x9C>",
      "<\xEF\xBD\x9C"
      "begin\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C><\xEF\xBD\x9CUser\xEF\xBD\x9C>q<\xEF\xBD\x9C"
      "Assistant\xEF\xBD\x9C><think>\nhmm\n</think>\n\nanswer<\xEF\xBD\x9C"
      "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C><\xEF\xBD\x9C"
      "Assistant\xEF\xBD\x9C>",
      "<\xEF\xBD\x9C"
      "begin\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C><\xEF\xBD\x9CUser\xEF\xBD\x9C>q<\xEF\xBD\x9C"
      "Assistant\xEF\xBD\x9C>answer<\xEF\xBD\x9C"
      "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C><\xEF\xBD\x9CUser\xEF\xBD\x9C>next<\xEF\xBD\x9C"
      "Assistant\xEF\xBD\x9C>",
      "<\xEF\xBD\x9C"
      "begin\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C><\xEF\xBD\x9CUser\xEF\xBD\x9C>q<\xEF\xBD\x9C"
      "Assistant\xEF\xBD\x9C>answer<\xEF\xBD\x9C"
      "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C><\xEF\xBD\x9C"
      "Assistant\xEF\xBD\x9C>",
      "<\xEF\xBD\x9C"
      "begin\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C><\xEF\xBD\x9CUser\xEF\xBD\x9C>q<\xEF\xBD\x9C"
      "Assistant\xEF\xBD\x9C>x</think>y</think>\n\nz<\xEF\xBD\x9C"
      "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C><\xEF\xBD\x9CUser\xEF\xBD\x9C>n<\xEF\xBD\x9C"
      "Assistant\xEF\xBD\x9C>",
      "<\xEF\xBD\x9C"
      "begin\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>mid<\xEF\xBD\x9CUser\xEF\xBD\x9C>a<\xEF\xBD\x9C"
      "Assistant\xEF\xBD\x9C>b<\xEF\xBD\x9C"
      "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C><\xEF\xBD\x9CUser\xEF\xBD\x9C>c<\xEF\xBD\x9C"
      "Assistant\xEF\xBD\x9C>",
      "<\xEF\xBD\x9C"
      "begin\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C><\xEF\xBD\x9CUser\xEF\xBD\x9C>\xC3\xA4 "
      "\xE6\x97\xA5\xE6\x9C\xAC \xC2\xA0<\xEF\xBD\x9C"
      "Assistant\xEF\xBD\x9C> \xC3\xA9\xE2\x80\x83<\xEF\xBD\x9C"
      "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C><\xEF\xBD\x9CUser\xEF\xBD\x9C><tool_response>x</"
      "tool_response><\xEF\xBD\x9C"
      "Assistant\xEF\xBD\x9C>",
      "<\xEF\xBD\x9C"
      "begin\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C><\xEF\xBD\x9CUser\xEF\xBD\x9C>q<\xEF\xBD\x9C"
      "Assistant\xEF\xBD\x9C>A</think>\n\nB<\xEF\xBD\x9C"
      "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C><\xEF\xBD\x9C"
      "Assistant\xEF\xBD\x9C>C<\xEF\xBD\x9C"
      "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C><\xEF\xBD\x9CUser\xEF\xBD\x9C>d<\xEF\xBD\x9C"
      "Assistant\xEF\xBD\x9C><think>k</think>E<\xEF\xBD\x9C"
      "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C><\xEF\xBD\x9C"
      "Assistant\xEF\xBD\x9C>F<\xEF\xBD\x9C"
      "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C><\xEF\xBD\x9C"
      "Assistant\xEF\xBD\x9C>",
      "<\xEF\xBD\x9C"
      "begin\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C><\xEF\xBD\x9CUser\xEF\xBD\x9C><\xEF\xBD\x9C"
      "Assistant\xEF\xBD\x9C>",
      "<\xEF\xBD\x9C"
      "begin\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C><\xEF\xBD\x9CUser\xEF\xBD\x9C>a<\xEF\xBD\x9C"
      "Assistant\xEF\xBD\x9C><\xEF\xBD\x9C"
      "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C><\xEF\xBD\x9CUser\xEF\xBD\x9C>b<\xEF\xBD\x9C"
      "Assistant\xEF\xBD\x9C>",
      "<\xEF\xBD\x9C"
      "begin\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C> s <\xEF\xBD\x9CUser\xEF\xBD\x9C>a<\xEF\xBD\x9C"
      "Assistant\xEF\xBD\x9C>b<\xEF\xBD\x9C"
      "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C><\xEF\xBD\x9CUser\xEF\xBD\x9C>c<\xEF\xBD\x9C"
      "Assistant\xEF\xBD\x9C>d<\xEF\xBD\x9C"
      "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C><\xEF\xBD\x9CUser\xEF\xBD\x9C>e\n<\xEF\xBD\x9C"
      "Assistant\xEF\xBD\x9C>",
      "<\xEF\xBD\x9C"
      "begin\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C><\xEF\xBD\x9CUser\xEF\xBD\x9C>q<\xEF\xBD\x9C"
      "Assistant\xEF\xBD\x9C><\xEF\xBD\x9C"
      "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C><\xEF\xBD\x9CUser\xEF\xBD\x9C>n<\xEF\xBD\x9C"
      "Assistant\xEF\xBD\x9C>m<\xEF\xBD\x9C"
      "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C><\xEF\xBD\x9C"
      "Assistant\xEF\xBD\x9C>"}},
    {ChatFormat::mistral_small,
     {"<s>[INST]Hi[/INST]", "<s>[SYSTEM_PROMPT]Be brief.[/SYSTEM_PROMPT][INST]Hi[/INST]",
      "<s>[INST] Hi\n[/INST]Hello </s>[INST]Bye[/INST]", "<s>[INST]a[/INST][INST]b[/INST]",
      "<s>[SYSTEM_PROMPT]x[/SYSTEM_PROMPT][SYSTEM_PROMPT]y[/SYSTEM_PROMPT][INST]a[/INST]",
      "<s>[INST]a[/INST][SYSTEM_PROMPT]later[/SYSTEM_PROMPT][INST]b[/INST]", "<s>first</s>[INST]b[/INST]",
      "<s>[INST]a[/INST]last</s>", "<s>[INST]q[/INST]<think>\nhmm\n</think>\n\nanswer</s>[INST]next[/INST]",
      "<s>[INST]q[/INST]<think>\nhmm\n</think>\n\nanswer</s>", "<s>[INST]q[/INST]answer</s>[INST]next[/INST]",
      "<s>[INST]q[/INST]answer</s>", "<s>[INST]q[/INST]x</think>y</think>\n\nz</s>[INST]n[/INST]",
      "<s>[INST]a[/INST]b</s>[SYSTEM_PROMPT]mid[/SYSTEM_PROMPT][INST]c[/INST]",
      "<s>[INST]\xC3\xA4 \xE6\x97\xA5\xE6\x9C\xAC \xC2\xA0[/INST] "
      "\xC3\xA9\xE2\x80\x83</s>[INST]<tool_response>x</tool_response>[/INST]",
      "<s>[INST]q[/INST]A</think>\n\nB</s>C</s>[INST]d[/INST]<think>k</think>E</s>F</s>"}},
    {ChatFormat::mistral,
     {"<s>[INST] Hi [/INST]",
      nullptr,
      "<s>[INST]  Hi\n [/INST]Hello </s> [INST] Bye [/INST]",
      nullptr,
      nullptr,
      nullptr,
      nullptr,
      "<s>[INST] a [/INST]last</s> ",
      "<s>[INST] q [/INST]<think>\nhmm\n</think>\n\nanswer</s> [INST] next [/INST]",
      "<s>[INST] q [/INST]<think>\nhmm\n</think>\n\nanswer</s> ",
      "<s>[INST] q [/INST]answer</s> [INST] next [/INST]",
      "<s>[INST] q [/INST]answer</s> ",
      "<s>[INST] q [/INST]x</think>y</think>\n\nz</s> [INST] n [/INST]",
      nullptr,
      "<s>[INST] \xC3\xA4 \xE6\x97\xA5\xE6\x9C\xAC \xC2\xA0 [/INST] \xC3\xA9\xE2\x80\x83</s> [INST] "
      "<tool_response>x</tool_response> [/INST]",
      nullptr,
      "<s>[INST]  [/INST]",
      nullptr,
      nullptr,
      "<s>[INST] q [/INST]</s> [INST] n [/INST]m</s> "}},
    {ChatFormat::mixtral,
     {"<s> [INST] Hi [/INST]", "<s> [INST] Be brief.\n\nHi [/INST]",
      "<s> [INST]  Hi\n [/INST] Hello </s> [INST] Bye [/INST]", nullptr, nullptr, nullptr, nullptr,
      "<s> [INST] a [/INST] last</s>", "<s> [INST] q [/INST] <think>\nhmm\n</think>\n\nanswer</s> [INST] next [/INST]",
      "<s> [INST] q [/INST] <think>\nhmm\n</think>\n\nanswer</s>",
      "<s> [INST] q [/INST] answer</s> [INST] next [/INST]", "<s> [INST] q [/INST] answer</s>",
      "<s> [INST] q [/INST] x</think>y</think>\n\nz</s> [INST] n [/INST]", nullptr,
      "<s> [INST] \xC3\xA4 \xE6\x97\xA5\xE6\x9C\xAC \xC2\xA0 [/INST]  \xC3\xA9\xE2\x80\x83</s> [INST] "
      "<tool_response>x</tool_response> [/INST]",
      nullptr}},
    {ChatFormat::llama2,
     {"<s>[INST] Hi [/INST]", "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHi [/INST]",
      "<s>[INST] Hi [/INST] Hello </s><s>[INST] Bye [/INST]", nullptr, nullptr, nullptr, nullptr,
      "<s>[INST] a [/INST] last </s>",
      "<s>[INST] q [/INST] <think>\nhmm\n</think>\n\nanswer </s><s>[INST] next [/INST]",
      "<s>[INST] q [/INST] <think>\nhmm\n</think>\n\nanswer </s>",
      "<s>[INST] q [/INST] answer </s><s>[INST] next [/INST]", "<s>[INST] q [/INST] answer </s>",
      "<s>[INST] q [/INST] x</think>y</think>\n\nz </s><s>[INST] n [/INST]", nullptr,
      "<s>[INST] \xC3\xA4 \xE6\x97\xA5\xE6\x9C\xAC [/INST] \xC3\xA9 </s><s>[INST] <tool_response>x</tool_response> "
      "[/INST]",
      nullptr}},
    {ChatFormat::gpt_oss,
     {"<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\nKnowledge cutoff: "
      "2024-06\nCurrent date: 2026-09-21\n\nReasoning: medium\n\n# Valid channels: analysis, commentary, final. "
      "Channel must be included for every message.<|end|><|start|>user<|message|>Hi<|end|><|start|>assistant",
      "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\nKnowledge cutoff: "
      "2024-06\nCurrent date: 2026-09-21\n\nReasoning: medium\n\n# Valid channels: analysis, commentary, final. "
      "Channel must be included for every message.<|end|><|start|>developer<|message|># Instructions\n\nBe "
      "brief.\n\n<|end|><|start|>user<|message|>Hi<|end|><|start|>assistant",
      "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\nKnowledge cutoff: "
      "2024-06\nCurrent date: 2026-09-21\n\nReasoning: medium\n\n# Valid channels: analysis, commentary, final. "
      "Channel must be included for every message.<|end|><|start|>user<|message|> "
      "Hi\n<|end|><|start|>assistant<|channel|>final<|message|>Hello "
      "<|end|><|start|>user<|message|>Bye<|end|><|start|>assistant",
      "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\nKnowledge cutoff: "
      "2024-06\nCurrent date: 2026-09-21\n\nReasoning: medium\n\n# Valid channels: analysis, commentary, final. "
      "Channel must be included for every "
      "message.<|end|><|start|>user<|message|>a<|end|><|start|>user<|message|>b<|end|><|start|>assistant",
      "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\nKnowledge cutoff: "
      "2024-06\nCurrent date: 2026-09-21\n\nReasoning: medium\n\n# Valid channels: analysis, commentary, final. "
      "Channel must be included for every message.<|end|><|start|>developer<|message|># "
      "Instructions\n\nx\n\n<|end|><|start|>user<|message|>a<|end|><|start|>assistant",
      "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\nKnowledge cutoff: "
      "2024-06\nCurrent date: 2026-09-21\n\nReasoning: medium\n\n# Valid channels: analysis, commentary, final. "
      "Channel must be included for every "
      "message.<|end|><|start|>user<|message|>a<|end|><|start|>user<|message|>b<|end|><|start|>assistant",
      "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\nKnowledge cutoff: "
      "2024-06\nCurrent date: 2026-09-21\n\nReasoning: medium\n\n# Valid channels: analysis, commentary, final. "
      "Channel must be included for every "
      "message.<|end|><|start|>assistant<|channel|>final<|message|>first<|end|><|start|>user<|message|>b<|end|><|start|"
      ">assistant",
      "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\nKnowledge cutoff: "
      "2024-06\nCurrent date: 2026-09-21\n\nReasoning: medium\n\n# Valid channels: analysis, commentary, final. "
      "Channel must be included for every "
      "message.<|end|><|start|>user<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>last<|end|><|start|>"
      "assistant",
      "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\nKnowledge cutoff: "
      "2024-06\nCurrent date: 2026-09-21\n\nReasoning: medium\n\n# Valid channels: analysis, commentary, final. "
      "Channel must be included for every "
      "message.<|end|><|start|>user<|message|>q<|end|><|start|>assistant<|channel|>final<|message|><think>\nhmm\n</"
      "think>\n\nanswer<|end|><|start|>user<|message|>next<|end|><|start|>assistant",
      "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\nKnowledge cutoff: "
      "2024-06\nCurrent date: 2026-09-21\n\nReasoning: medium\n\n# Valid channels: analysis, commentary, final. "
      "Channel must be included for every "
      "message.<|end|><|start|>user<|message|>q<|end|><|start|>assistant<|channel|>final<|message|><think>\nhmm\n</"
      "think>\n\nanswer<|end|><|start|>assistant",
      "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\nKnowledge cutoff: "
      "2024-06\nCurrent date: 2026-09-21\n\nReasoning: medium\n\n# Valid channels: analysis, commentary, final. "
      "Channel must be included for every "
      "message.<|end|><|start|>user<|message|>q<|end|><|start|>assistant<|channel|>final<|message|>answer<|end|><|"
      "start|>user<|message|>next<|end|><|start|>assistant",
      "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\nKnowledge cutoff: "
      "2024-06\nCurrent date: 2026-09-21\n\nReasoning: medium\n\n# Valid channels: analysis, commentary, final. "
      "Channel must be included for every "
      "message.<|end|><|start|>user<|message|>q<|end|><|start|>assistant<|channel|>final<|message|>answer<|end|><|"
      "start|>assistant",
      "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\nKnowledge cutoff: "
      "2024-06\nCurrent date: 2026-09-21\n\nReasoning: medium\n\n# Valid channels: analysis, commentary, final. "
      "Channel must be included for every "
      "message.<|end|><|start|>user<|message|>q<|end|><|start|>assistant<|channel|>final<|message|>x</think>y</"
      "think>\n\nz<|end|><|start|>user<|message|>n<|end|><|start|>assistant",
      "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\nKnowledge cutoff: "
      "2024-06\nCurrent date: 2026-09-21\n\nReasoning: medium\n\n# Valid channels: analysis, commentary, final. "
      "Channel must be included for every "
      "message.<|end|><|start|>user<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b<|end|><|start|>"
      "user<|message|>c<|end|><|start|>assistant",
      "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\nKnowledge cutoff: "
      "2024-06\nCurrent date: 2026-09-21\n\nReasoning: medium\n\n# Valid channels: analysis, commentary, final. "
      "Channel must be included for every message.<|end|><|start|>user<|message|>\xC3\xA4 \xE6\x97\xA5\xE6\x9C\xAC "
      "\xC2\xA0<|end|><|start|>assistant<|channel|>final<|message|> "
      "\xC3\xA9\xE2\x80\x83<|end|><|start|>user<|message|><tool_response>x</tool_response><|end|><|start|>assistant",
      "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\nKnowledge cutoff: "
      "2024-06\nCurrent date: 2026-09-21\n\nReasoning: medium\n\n# Valid channels: analysis, commentary, final. "
      "Channel must be included for every "
      "message.<|end|><|start|>user<|message|>q<|end|><|start|>assistant<|channel|>final<|message|>A</"
      "think>\n\nB<|end|><|start|>assistant<|channel|>final<|message|>C<|end|><|start|>user<|message|>d<|end|><|start|>"
      "assistant<|channel|>final<|message|><think>k</"
      "think>E<|end|><|start|>assistant<|channel|>final<|message|>F<|end|><|start|>assistant",
      "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\nKnowledge cutoff: "
      "2024-06\nCurrent date: 2026-09-21\n\nReasoning: medium\n\n# Valid channels: analysis, commentary, final. "
      "Channel must be included for every message.<|end|><|start|>user<|message|><|end|><|start|>assistant",
      "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\nKnowledge cutoff: "
      "2024-06\nCurrent date: 2026-09-21\n\nReasoning: medium\n\n# Valid channels: analysis, commentary, final. "
      "Channel must be included for every "
      "message.<|end|><|start|>user<|message|>a<|end|><|start|>assistant<|channel|>final<|message|><|end|><|start|>"
      "user<|message|>b<|end|><|start|>assistant",
      "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\nKnowledge cutoff: "
      "2024-06\nCurrent date: 2026-09-21\n\nReasoning: medium\n\n# Valid channels: analysis, commentary, final. "
      "Channel must be included for every message.<|end|><|start|>developer<|message|># Instructions\n\n s "
      "\n\n<|end|><|start|>user<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b<|end|><|start|>user<|"
      "message|>c<|end|><|start|>assistant<|channel|>final<|message|>d<|end|><|start|>user<|message|>e\n<|end|><|start|"
      ">assistant",
      "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\nKnowledge cutoff: "
      "2024-06\nCurrent date: 2026-09-21\n\nReasoning: medium\n\n# Valid channels: analysis, commentary, final. "
      "Channel must be included for every "
      "message.<|end|><|start|>user<|message|>q<|end|><|start|>assistant<|channel|>final<|message|><|end|><|start|>"
      "user<|message|>n<|end|><|start|>assistant<|channel|>final<|message|>m<|end|><|start|>assistant"}}};

} // namespace chat_rendered
