// SPDX-License-Identifier: Apache-2.0
// Known recordings: how far a replay may be off by agreement, and links that others state for them.
#pragma once

#include "validate/comparison.hpp"
#include "validate/server.hpp"

#include <array>
#include <cmath>
#include <string>
#include <string_view>

namespace recorded {

/// Bounds in percent; of each figure, or of the means alone.
struct Bound {
  double ttft = 0, tpot = 0, latency = 0;
  bool means = false;

  [[nodiscard]] bool holds(const Differences& differences) const {
    const std::array<double, 3> limits{ttft, tpot, latency};
    for (std::size_t m = 0; m < limits.size(); ++m)
      if ((means ? std::abs(differences.mean_of(m)) : differences.worst(m)) > limits[m]) return false;
    return true;
  }
};

/// A recording is known by its model and its server, not by its figures.
struct KnownRecording {
  std::string_view model, gpu;
  int tensor_parallel = 1, data_parallel = 1;
  bool saturated = false;                   ///< its client waited for earlier requests
  Bound measured;                           ///< with measured communication, or none
  Bound linked;                             ///< with a stated link
  double link_rate = 0, link_latency_s = 0; ///< as the peer simulator states them for it (bench/examples/*/config.json)
};

inline constexpr std::array<KnownRecording, 6> known_recordings{
    {{"meta-llama/Llama-3.1-8B", "NVIDIA GeForce RTX 4090", 1, 1, false, {3, 3, 3}, {}, 0, 0},
     {"meta-llama/Llama-3.1-8B", "NVIDIA RTX PRO 6000 Blackwell Server Edition", 1, 1, false, {6, 6, 6}, {}, 0, 0},
     {"Qwen/Qwen3-32B", "NVIDIA RTX PRO 6000 Blackwell Server Edition", 2, 1, false, {7, 7, 7}, {2, 2, 2}, 16e9, 20e-6},
     {"Qwen/Qwen3-30B-A3B-Instruct-2507",
      "NVIDIA RTX PRO 6000 Blackwell Server Edition",
      1,
      2,
      false,
      {20, 3, 3},
      {20, 3, 3},
      16e9,
      20e-6},
     {"Qwen/Qwen3-14B", "NVIDIA H100 80GB HBM3", 1, 1, false, {20, 7, 7, true}, {}, 0, 0},
     {"Qwen/Qwen3-14B", "NVIDIA H100 80GB HBM3", 1, 1, true, {8, 5, 8, true}, {}, 0, 0}}};

inline const KnownRecording* find_known(const Server& server, std::string_view gpu) {
  for (const KnownRecording& known : known_recordings)
    if (known.model == server.model && known.gpu == gpu && known.tensor_parallel == server.tensor_parallel &&
        known.data_parallel == server.data_parallel && known.saturated == (server.in_flight > 0))
      return &known;
  return nullptr;
}

} // namespace recorded
