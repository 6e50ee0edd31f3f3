// SPDX-License-Identifier: Apache-2.0
// Known devices: what a profile does not say of its GPU.
#pragma once

#include <array>
#include <string_view>

namespace recorded {

struct KnownDevice {
  std::string_view gpu;       ///< as its driver names it
  int multiprocessors = 0;    ///< data sheet
  bool splits_evenly = false; ///< FlashAttention 3 schedules its blocks by their length: it has no tail
};

/// vLLM runs FlashAttention 3 on compute capability 9.0 and FlashAttention 2 on the others
/// (vllm/v1/attention/backends/fa_utils.py).
inline constexpr std::array<KnownDevice, 4> known_devices{{{"NVIDIA GeForce RTX 4090", 128, false},
                                                           {"NVIDIA RTX PRO 6000 Blackwell Server Edition", 188, false},
                                                           {"NVIDIA H100 80GB HBM3", 132, true},
                                                           {"NVIDIA H200", 132, true}}};

/// What a launch within a graph saves, where no profile has steps with and without graphs: the mean of such pairs on an
/// RTX PRO 6000 (Llama-3.1-8B, 1 to 128 decodes: 0.58 ms of an iteration's 320 launches; LLMServingSim's step.csv).
inline constexpr double saved_per_launch_us = 1.8;

} // namespace recorded
