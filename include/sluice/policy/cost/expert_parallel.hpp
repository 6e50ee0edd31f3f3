// SPDX-License-Identifier: Apache-2.0
// ExpertParallel: engines that each serve their own requests and share a model's experts.
#pragma once

#include "sluice/policy/cost/measured_grid.hpp"
#include "sluice/policy/cost/served_profile.hpp"
#include "sluice/policy/cost/served_tables.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

namespace sluice {

/// The iteration of one engine of a group.
struct RankWork {
  const Work* work = nullptr; ///< none: the engine has no request, and computes one token to take part
  Seconds alone{0};           ///< how long the iteration takes without the experts
};

/// How long the engines' iterations take together (data parallel attention with expert parallel layers, vLLM's
/// `data_parallel_size` with `enable_expert_parallel` and the all2all backend allgather_reducescatter). In every layer
/// each engine computes attention for its own requests. Then all gather all tokens, compute their own experts for all
/// of them, and scatter the sums. So no engine can be ahead of the slowest, and an engine without requests computes a
/// token all the same (`execute_dummy_batch`).
///
/// If the batches of all engines fit into CUDA graphs, all are padded to the largest (`coordinate_batch_across_dp`).
class ExpertParallel {
 public:
  /// `rank`: the times of one engine without experts. `experts`: one device's share. `exchange`: gathering the tokens
  /// and scattering the sums each take as long as its second round.
  ExpertParallel(ServedProfile rank, ExpertTable experts, AllReduce exchange, double token_bytes)
      : rank_(std::move(rank)),
        experts_(std::move(experts)),
        exchange_(std::move(exchange)),
        token_bytes_(token_bytes) {}

  [[nodiscard]] Seconds joint(std::span<const RankWork> ranks) const {
    const auto& graphs = rank_.serving().graphs;
    std::int64_t most = 1;
    bool replay = graphs.has_value() && rank_.serving().pads;
    for (const RankWork& rank : ranks) {
      if (rank.work == nullptr) continue;
      most = std::max(most, rank_.padded(*rank.work));
      replay = replay && graphs->replays(rank.work->tokens().count());
    }
    double tokens = 0;
    Seconds slowest{0};
    for (const RankWork& rank : ranks) {
      const std::int64_t own = rank.work == nullptr ? 1 : rank_.padded(*rank.work);
      tokens += static_cast<double>(replay ? most : own);
      Seconds alone = rank.alone;
      if (rank.work != nullptr && replay && own < most)
        alone += rank_.step_of(*rank.work, most).total(rank_.layers()) -
                 rank_.step_of(*rank.work, own).total(rank_.layers());
      slowest = std::max(slowest, alone);
    }
    const Seconds layer = Seconds{experts_.seconds(tokens)} + exchange_.gather_seconds(tokens * token_bytes_) * 2.0;
    return slowest + layer * static_cast<double>(rank_.layers());
  }

 private:
  ServedProfile rank_;
  ExpertTable experts_;
  AllReduce exchange_;
  double token_bytes_;
};

} // namespace sluice
