// SPDX-License-Identifier: Apache-2.0
// JointPaths: longest paths of a joint plan's pipeline, each a linear lower bound on every plan's time.
#pragma once

#include "sluice/core/math.hpp"
#include "sluice/policy/placement/solver/joint_instance.hpp"
#include "sluice/policy/transfer/pipeline.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace sluice::detail {

/// What joint bounds may assume about a transfer rule's memory and starts.
enum class JointRule : std::uint8_t {
  pool,  ///< one pool that holds the worst layer, and one queue: `DeadlinePool`
  pair,  ///< layers in turn, two neighbours held: `NextLayer`
  own,   ///< one layer held of each stream: `FairShare`, `EarliestDeadlineFirst`
  other, ///< only that a layer's blocks arrive before it starts
};

/// What a plan adds up to, or a mix of plans.
struct JointSums {
  LayerArray load{};      ///< blocks that cross the link for each layer, without streamed weights
  LayerArray compute_s{}; ///< rebuilding included
  double used = 0;        ///< blocks that are resident or held for rebuilding
  double own = 0;         ///< one layer of each stream
};

/// A bound: every plan of a level that fits takes at least `constant`, plus `used` and `own` times its JointSums of
/// these names, plus for each layer `load` times its blocks and `compute` times its seconds.
struct JointCut {
  double constant = 0;
  double used = 0;
  double own = 0;
  LayerArray load;
  LayerArray compute;
};

/// The graph of `PoolPaths` with compute times and room as variables too: all three are linear in the choices of the
/// requests, and every arc is linear in them, so every path is. Streamed weights lengthen the link's arcs; an arc
/// through returned room leaves them out, and so is weaker than the rule. Link latency is left out as well.
class JointPaths {
 public:
  void begin(const JointInstance& joint, std::size_t level, JointRule rule) {
    const Instance& base = joint.base;
    rule_ = rule;
    weights_ = joint.weights(level);
    before_s_ = base.before_s;
    after_s_ = base.after_s;
    per_block_s_ = 1 / base.link_blocks_per_s;
    budget_ = joint.budget(level);
    // A plan fits if it exceeds the budget by rounding.
    penalised_ = budget_ + 2e-9 * math::abs(budget_);
    layers_ = base.layer_compute_s.size();
    floor_s_ = before_s_ + after_s_;
    for (const double seconds : base.layer_compute_s) floor_s_ += seconds;
  }

  /// All computing, without waiting.
  [[nodiscard]] JointCut compute_path() const {
    JointCut cut;
    cut.constant = before_s_ + after_s_;
    cut.load.fill(0);
    cut.compute.fill(1);
    return cut;
  }
  /// Writes the longest path at `at` into `cut`; if that does not fit, the violated constraint as a penalty that no
  /// plan that fits pays.
  void longest(const JointSums& at, JointCut& cut) const {
    if (over(at, cut)) return;
    walk(at, cut);
  }

 private:
  static constexpr int from_compute = -1;
  static constexpr int from_link = -2;
  static constexpr int from_start = -3;  ///< of the layer before, under `NextLayer`
  static constexpr int from_slot = 1000; ///< + the position among the streamed layers; below: a layer whose room it is

  bool over(const JointSums& at, JointCut& cut) const {
    const auto last = layers_ - 1;
    std::size_t first = 0, second = layers_;
    double held = 0;
    if (rule_ == JointRule::pool) {
      for (std::size_t l = 1; l < layers_; ++l)
        if (at.load[l] > at.load[first]) first = l;
      held = at.load[first];
    } else if (rule_ == JointRule::pair) {
      held = -1;
      for (std::size_t l = 0; l < layers_; ++l) {
        const std::size_t next = l < last ? l + 1 : 0;
        if (at.load[l] + at.load[next] <= held) continue;
        held = at.load[l] + at.load[next];
        first = l;
        second = next;
      }
    } else if (rule_ == JointRule::own) {
      held = at.own;
    }
    if (at.used + held <= penalised_ * (1 + 1e-9) + 1e-9) return false;
    const double penalty = 64 * per_block_s_;
    cut.constant = floor_s_ - penalty * penalised_;
    cut.used = penalty;
    cut.own = rule_ == JointRule::own ? penalty : 0;
    cut.load.fill(0);
    cut.compute.fill(0);
    if (rule_ == JointRule::pool || rule_ == JointRule::pair) cut.load[first] += penalty;
    if (rule_ == JointRule::pair) cut.load[second] += penalty;
    return true;
  }

  void walk(const JointSums& at, JointCut& cut) const {
    const SlotOrder slots{weights_};
    std::array<int, max_layers> before;
    LayerArray started_s, end_s, freed_at;
    const double room = budget_ - at.used;
    const double weights_s = weights_.blocks * per_block_s_;
    double moved = 0, freed = room, position_s = 0;
    double room_base = 0, slot_base = 0;
    int room_from = from_link, slot_from = from_link;
    std::size_t next = 0;
    int streamed = 0;
    double time = before_s_;
    for (std::size_t l = 0; l < layers_; ++l) {
      before[l] = from_compute;
      const bool streams = weights_.layers.contains(static_cast<int>(l));
      const double load_s = at.load[l] * per_block_s_;
      const auto wait = [&](double until, int from) {
        if (until <= time) return;
        time = until;
        before[l] = from;
      };
      if (rule_ == JointRule::pair && l > 0) {
        const double work_s = load_s + (streams ? weights_s : 0);
        wait(started_s[l - 1] + work_s, from_start);
      }
      moved += at.load[l];
      position_s += load_s;
      if (rule_ == JointRule::pool && at.load[l] > 0) {
        for (; freed < moved && next < l; ++next) {
          if (freed_at[next] > room_base) {
            room_base = freed_at[next];
            room_from = static_cast<int>(next);
          }
          freed += at.load[next];
        }
        if (room_from != from_link) wait(room_base + moved * per_block_s_, room_from);
      }
      if (streams) {
        const int by = slots.waits_for(streamed);
        if (by >= 0) {
          const double base = end_s[static_cast<std::size_t>(by)] - position_s;
          if (rule_ != JointRule::pool) wait(end_s[static_cast<std::size_t>(by)] + weights_s, from_slot + streamed);
          if (rule_ == JointRule::pool && base > slot_base) {
            slot_base = base;
            slot_from = from_slot + streamed;
          }
        }
        ++streamed;
        position_s += weights_s;
      }
      if (at.load[l] > 0 || streams) {
        wait(position_s, from_link);
        if (slot_from != from_link) wait(slot_base + position_s, slot_from);
      }
      started_s[l] = time;
      time += at.compute_s[l];
      end_s[l] = time;
      freed_at[l] = time - (room + moved - at.load[l]) * per_block_s_;
    }
    trace(slots, before, cut);
  }

  void trace(const SlotOrder& slots, const std::array<int, max_layers>& before, JointCut& cut) const {
    cut.constant = after_s_;
    cut.used = cut.own = 0;
    cut.load.fill(0);
    cut.compute.fill(0);
    const double weights_s = weights_.blocks * per_block_s_;
    /// The link moves the KV of layers `from` to `to`, and the weights of layers `weights_from` to `to`.
    const auto link = [&](std::size_t from, std::size_t to, std::size_t weights_from) {
      for (std::size_t l = from; l <= to; ++l) cut.load[l] += per_block_s_;
      for (std::size_t l = weights_from; l <= to; ++l)
        if (weights_.layers.contains(static_cast<int>(l))) cut.constant += weights_s;
    };
    std::size_t l = layers_ - 1;
    cut.compute[l] = 1;
    for (;;) {
      const int from = before[l];
      if (from == from_compute) {
        if (l == 0) {
          cut.constant += before_s_;
          return;
        }
        cut.compute[--l] = 1;
      } else if (from == from_link) {
        link(0, l, 0);
        return;
      } else if (from == from_start) {
        link(l, l, l);
        --l;
      } else if (from >= from_slot) {
        const int i = from - from_slot;
        const auto streamed = static_cast<std::size_t>(slots.layer(i));
        link(streamed + 1, l, streamed);
        l = static_cast<std::size_t>(slots.waits_for(i));
        cut.compute[l] = 1;
      } else {
        const auto j = static_cast<std::size_t>(from);
        link(j, l, l + 1);
        cut.used += per_block_s_;
        cut.constant -= budget_ * per_block_s_;
        l = j;
        cut.compute[l] = 1;
      }
    }
  }

  JointRule rule_ = JointRule::other;
  WeightStream weights_;
  std::size_t layers_ = 0;
  double before_s_ = 0;
  double after_s_ = 0;
  double per_block_s_ = 0;
  double budget_ = 0;
  double penalised_ = 0;
  double floor_s_ = 0; ///< computing without rebuilding: no plan takes less
};

} // namespace sluice::detail
