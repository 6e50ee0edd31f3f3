// SPDX-License-Identifier: Apache-2.0
// KnownDataset: the prompts of a public dataset that begin alike. These are facts about an input, not results of a run.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/state/memory/shared_beginnings.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace recorded {

/// Common beginnings with fewer tokens than vLLM's smallest usual block are left out.
inline constexpr sluice::Tokens shortest_known_beginning{16};

/// A dataset, by the SHA-256 of its file or by the file's name, with its prompts that begin like an earlier one.
struct KnownDataset {
  std::string_view sha256;
  std::span<const std::string_view> names; ///< names of identical files
  std::size_t prompts = 0;
  std::int64_t prompt_tokens = 0; ///< of all prompts
  std::span<const sluice::SharedBeginning> shared;
};

// ShareGPT conversations (Hugging Face: shibing624/sharegpt_gpt4), 300 requests at 10 per second, as tokens of
// Llama-3.1-8B and of Qwen3: workloads/sharegpt-MODEL-300-sps10.jsonl of github.com/casys-kaist/LLMServingSim (MIT
// licence), commit 5daddb2. A recording of vLLM's engine names the dataset by its SHA-256 and has only lengths. Each
// row is {prompt, earlier prompt, common tokens}, as `sluice-validate --list-shared FILE` prints them.

inline constexpr std::array<std::string_view, 1> sharegpt_llama_names{"sharegpt-llama-3.1-8b-300-sps10.jsonl"};
inline constexpr std::array<sluice::SharedBeginning, 32> sharegpt_llama_shared{
    {{47, 40, 455},   {66, 35, 633},    {68, 28, 363},   {79, 17, 859},   {88, 27, 327},   {93, 82, 629},
     {117, 45, 389},  {128, 63, 843},   {139, 117, 996}, {140, 76, 391},  {152, 31, 38},   {158, 107, 616},
     {173, 153, 460}, {174, 38, 1320},  {177, 22, 483},  {180, 61, 824},  {183, 31, 319},  {184, 151, 579},
     {188, 138, 721}, {200, 109, 262},  {209, 201, 607}, {220, 146, 522}, {223, 36, 814},  {227, 226, 520},
     {235, 56, 838},  {237, 207, 1265}, {265, 149, 596}, {280, 147, 831}, {281, 186, 817}, {285, 165, 735},
     {287, 111, 448}, {293, 163, 262}}};

inline constexpr std::array<std::string_view, 2> sharegpt_qwen3_names{"sharegpt-qwen3-32b-300-sps10.jsonl",
                                                                      "sharegpt-qwen3-30b-a3b-300-sps10.jsonl"};
inline constexpr std::array<sluice::SharedBeginning, 32> sharegpt_qwen3_shared{
    {{47, 40, 485},   {67, 35, 649},   {70, 28, 363},    {82, 17, 1347},  {91, 27, 330},   {96, 85, 638},
     {122, 45, 427},  {133, 64, 852},  {146, 122, 1072}, {147, 78, 398},  {159, 31, 38},   {165, 112, 629},
     {180, 160, 473}, {181, 38, 1352}, {185, 22, 503},   {188, 62, 826},  {189, 184, 257}, {192, 31, 319},
     {193, 158, 581}, {197, 145, 721}, {209, 114, 262},  {218, 210, 607}, {229, 153, 526}, {232, 36, 900},
     {236, 235, 520}, {245, 57, 842},  {247, 216, 1265}, {276, 156, 635}, {291, 154, 863}, {292, 195, 830},
     {296, 172, 737}, {298, 116, 448}}};

inline constexpr std::array<KnownDataset, 2> known_datasets{
    {{"05e48b32da530d4a3dd77f3d47c6fe694ac8308d611aa088e38bb10fba2b3b3a", sharegpt_llama_names, 300, 257'239,
      sharegpt_llama_shared},
     {"4af54eb2f7ac12b0856a1668e367fc8a330acd37c4f6c3e336ae02229e21a8bb", sharegpt_qwen3_names, 300, 258'691,
      sharegpt_qwen3_shared}}};

} // namespace recorded
