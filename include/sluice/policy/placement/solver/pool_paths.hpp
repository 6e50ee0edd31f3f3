// SPDX-License-Identifier: Apache-2.0
// PoolPaths: the longest paths of the pooled pipeline, each a linear lower bound on every placement's time.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/policy/transfer/pipeline.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

namespace sluice::detail {

/// step time >= constant + sum over layers of slope[l] * load[l], for every placement whose pool holds its worst layer.
struct PathCut {
  double constant = 0;
  LayerArray slope;
};

/// Under `DeadlinePool`, layer l starts at the latest of: the end of layer l-1; C_l / rate after the start; and end(j)
/// + (C_l - C_{j-1} - room) / rate for every j < l (trivially true if the blocks fit the room). With room = X - need,
/// where X is the sum of all loads, each of these is linear in the loads. So the step time is the longest path through
/// a graph whose arcs are linear in the loads: it is convex in them, and every single path is a lower bound.
///
/// `need_blocks`: the blocks that must at least be in flight: all blocks, resident or not, less the budget. Link
/// latency is left out: it only adds time.
class PoolPaths {
 public:
  PoolPaths(std::span<const double> compute_s, double before_s, double after_s, double seconds_per_block,
            double need_blocks)
      : compute_s_(compute_s),
        before_s_(before_s),
        after_s_(after_s),
        seconds_per_block_(seconds_per_block),
        need_blocks_(need_blocks) {
    for (const double seconds : compute_s) compute_total_s_ += seconds;
  }

  [[nodiscard]] double compute_total_s() const { return before_s_ + compute_total_s_ + after_s_; }

  /// The path of the compute alone.
  [[nodiscard]] PathCut compute_path() const {
    PathCut cut;
    cut.constant = compute_total_s();
    cut.slope.fill(0);
    return cut;
  }

  /// Writes the longest path at `loads` into `cut`; if the pool would not hold the worst layer, writes that constraint
  /// as a penalty that no feasible placement pays. Returns its value at `loads`.
  double longest(std::span<const double> loads, PathCut& cut) const {
    const std::size_t layers = loads.size();
    double total = 0;
    std::size_t worst = 0;
    for (std::size_t l = 0; l < layers; ++l) {
      total += loads[l];
      if (loads[l] > loads[worst]) worst = l;
    }
    const double room = total - need_blocks_;
    if (loads[worst] > room * (1 + 1e-9) + 1e-9) {
      const double penalty = 64 * seconds_per_block_;
      cut.constant = compute_total_s() + penalty * need_blocks_;
      std::fill_n(cut.slope.begin(), layers, -penalty);
      cut.slope[worst] = 0;
      return cut.constant + penalty * (loads[worst] - total);
    }
    return walk(loads, room, cut);
  }

 private:
  static constexpr int from_compute = -2;
  static constexpr int from_link = -1;

  double walk(std::span<const double> loads, double room, PathCut& cut) const {
    const std::size_t layers = loads.size();
    LayerArray freed_at;
    std::array<int, max_layers>
        before; // what each layer's start waited for: a layer whose room it needs, or one of the above
    double moved = 0;
    double link = 0;
    int link_from = from_link;
    double freed = room;
    std::size_t next = 0;
    double time = before_s_;
    for (std::size_t l = 0; l < layers; ++l) {
      before[l] = from_compute;
      if (loads[l] > 0) {
        moved += loads[l];
        for (; freed < moved && next < l; ++next) {
          if (freed_at[next] > link) {
            link = freed_at[next];
            link_from = static_cast<int>(next);
          }
          freed += loads[next];
        }
        const double arrival = link + moved * seconds_per_block_;
        if (arrival > time) {
          time = arrival;
          before[l] = link_from;
        }
      }
      time += compute_s_[l];
      freed_at[l] = time - (room + moved - loads[l]) * seconds_per_block_;
    }
    trace(before, layers, cut);
    return time + after_s_;
  }

  void trace(const std::array<int, max_layers>& before, std::size_t layers, PathCut& cut) const {
    std::array<int, max_layers + 1>
        change{}; // in the number of segments that contain a layer, from one layer to the next
    int everywhere = 0;
    std::size_t l = layers - 1;
    cut.constant = after_s_ + compute_s_[l];
    for (;;) {
      if (before[l] == from_compute) {
        if (l == 0) {
          cut.constant += before_s_;
          break;
        }
        --l;
        cut.constant += compute_s_[l];
      } else if (before[l] == from_link) {
        ++change[0];
        --change[l + 1];
        break;
      } else {
        const auto j = static_cast<std::size_t>(before[l]);
        cut.constant += compute_s_[j] + need_blocks_ * seconds_per_block_;
        ++change[j];
        --change[l + 1];
        --everywhere;
        l = j;
      }
    }
    int segments = everywhere;
    for (std::size_t i = 0; i < layers; ++i) {
      segments += change[i];
      cut.slope[i] = segments * seconds_per_block_;
    }
  }

  std::span<const double> compute_s_;
  double before_s_;
  double after_s_;
  double seconds_per_block_;
  double need_blocks_;
  double compute_total_s_ = 0;
};

} // namespace sluice::detail
