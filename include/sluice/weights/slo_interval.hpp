// SPDX-License-Identifier: Apache-2.0
// SloInterval: the smallest interval whose streamed layers the SLO has time for (Select-N).
#pragma once

#include "sluice/weights/interval_offload.hpp"
#include "sluice/weights/streamed_step.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace sluice {

/// Select-N's interval for the batch at hand (4.2, 4.3): the smallest, which has most weights on the host, with which a
/// decode still takes no longer than the tightest SLO of the batch. What the paper looks up in a performance record
/// made offline is asked of the cost model here.
///
/// The paper sizes it by counting: at most n layers with n t_transfer <= L t_compute (1 + delta), delta the SLO's slack
/// over the unoffloaded step (its printed formula omits L), and an interval of L / n. That is the first thing tried;
/// the evaluator, which sees that the layers of one interval must hide its own transfer, has the last word.
///
/// Levels: all intervals from there up, the smallest first, for a bus coordinator to choose among. While no SLO is
/// promised every interval is as good, and the smallest is 1.
struct SloInterval {
  using role = roles::Weights;
  struct State {
    StreamedStep step;
  };

  template <class Task>
  void offer(const Task& task, State& state, std::vector<WeightsLevel>& levels) const {
    const Geometry& geometry = task.view.geometry;
    double slo_s = std::numeric_limits<double>::infinity();
    for (const Claim& claim : task.claims) slo_s = std::min(slo_s, task.view.row(claim.slot).spec.slo.tbt.count());
    // A longer interval streams less and is never slower: by bisection, between one that meets the SLO and one not.
    const auto meets = [&](int interval) {
      return state.step(task, interval_level(geometry, interval).plan).count() <= slo_s * (1 + 1e-9);
    };
    int good = geometry.layers + 1; // nothing streamed: there is no better
    int bad = 0;
    if (const int counted = counted_interval(task, slo_s); counted <= geometry.layers)
      (meets(counted) ? good : bad) = counted;
    while (good - bad > 1) {
      const int middle = bad + (good - bad) / 2;
      (meets(middle) ? good : bad) = middle;
    }
    for (int interval = good; interval <= geometry.layers; ++interval)
      if (interval == good || geometry.layers / interval < geometry.layers / (interval - 1))
        levels.push_back(interval_level(geometry, interval));
  }
  /// What the SLO has time for depends on the batch: nothing is promised.
  [[nodiscard]] LayerBlocks most_freed(const Geometry& /*geometry*/) const { return LayerBlocks{0}; }

  /// The interval by the paper's count; above the number of layers where none may be streamed.
  template <class Task>
  [[nodiscard]] static int counted_interval(const Task& task, double slo_s) {
    const double unoffloaded_s = task.cost.step(task.steady).total(task.layers()).count();
    if (slo_s < unoffloaded_s) return task.layers() + 1;
    const double slack = slo_s / unoffloaded_s - 1;
    const double most = std::floor(task.layers() * task.layer_compute_s() * (1 + slack) / task.layer_transfer_s());
    if (most < 1) return task.layers() + 1;
    return std::max(1, static_cast<int>(std::ceil(task.layers() / std::min<double>(most, task.layers()))));
  }
};

static_assert(Weights<SloInterval>);

} // namespace sluice
