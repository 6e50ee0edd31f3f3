// SPDX-License-Identifier: Apache-2.0
// Known recordings: how far a replay may be off by agreement, and links that others state for them.
#pragma once

#include "validate/comparison.hpp"
#include "validate/recording.hpp"

#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>

namespace recorded {

inline constexpr double no_bound = std::numeric_limits<double>::infinity();

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

/// What a client asked for. Default: anything.
struct Offered {
  double least_prompt = 0, most_prompt = no_bound; ///< mean tokens
  double least_rate = 0, most_rate = no_bound;     ///< requests per second

  [[nodiscard]] bool covers(const Recording& recording) const {
    double tokens = 0;
    for (const sluice::VllmRunRecord& record : recording.records) tokens += static_cast<double>(record.prompt.count());
    const auto count = static_cast<double>(recording.records.size());
    const double prompt = tokens / count, span_s = (recording.due.back() - recording.due.front()).count();
    const double rate = span_s > 0 ? (count - 1) / span_s : no_bound;
    return prompt >= least_prompt && prompt <= most_prompt && rate >= least_rate && rate <= most_rate;
  }
};

/// A recording is known by its model, its server and what its client asked for, not by its figures.
struct KnownRecording {
  std::string_view model, gpu;
  int tensor_parallel = 1, data_parallel = 1;
  bool saturated = false; ///< its client waited for earlier requests
  Offered offered;
  Bound measured;                           ///< with measured communication, or none
  Bound linked;                             ///< with a stated link
  double link_rate = 0, link_latency_s = 0; ///< as the peer simulator states them for it (bench/examples/*/config.json)
};

inline constexpr std::string_view rtx_pro = "NVIDIA RTX PRO 6000 Blackwell Server Edition";
inline constexpr std::string_view h100 = "NVIDIA H100 80GB HBM3";

/// The saturated H100 cells are W7 (prompts of 2,070 tokens) at 12, 18 and 24 requests per second and W5 (990 tokens)
/// at 24 and 30. W5 at 18 is at the edge of saturation, where 5 % of the server's speed decide whether a queue builds:
/// no bound was agreed for it.
inline constexpr std::array<KnownRecording, 7> known_recordings{
    {{"meta-llama/Llama-3.1-8B", "NVIDIA GeForce RTX 4090", 1, 1, false, {}, {3, 3, 3}, {}, 0, 0},
     {"meta-llama/Llama-3.1-8B", rtx_pro, 1, 1, false, {}, {6, 6, 6}, {}, 0, 0},
     {"Qwen/Qwen3-32B", rtx_pro, 2, 1, false, {}, {7, 7, 7}, {2, 2, 2}, 16e9, 20e-6},
     {"Qwen/Qwen3-30B-A3B-Instruct-2507", rtx_pro, 1, 2, false, {}, {20, 3, 3}, {20, 3, 3}, 16e9, 20e-6},
     {"Qwen/Qwen3-14B", h100, 1, 1, false, {}, {20, 7, 7, true}, {}, 0, 0},
     {"Qwen/Qwen3-14B", h100, 1, 1, true, {1900, 2300, 11, 26}, {3, 3, 3}, {}, 0, 0},
     {"Qwen/Qwen3-14B", h100, 1, 1, true, {900, 1100, 22, 32}, {no_bound, 5, 8, true}, {}, 0, 0}}};

inline const KnownRecording* find_known(const Recording& recording, std::string_view gpu) {
  const Server& server = recording.server;
  for (const KnownRecording& known : known_recordings)
    if (known.model == server.model && known.gpu == gpu && known.tensor_parallel == server.tensor_parallel &&
        known.data_parallel == server.data_parallel && known.saturated == (server.in_flight > 0) &&
        known.offered.covers(recording))
      return &known;
  return nullptr;
}

} // namespace recorded
