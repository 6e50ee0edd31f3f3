// SPDX-License-Identifier: Apache-2.0
// How PlacementEvaluator computes memory, an iteration and a window.
#pragma once

#include "sluice/core/stopwatch.hpp"
#include "sluice/policy/placement/solver/placement_evaluator.hpp"
#include "sluice/policy/transfer/pipeline.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace sluice {

template <class Table>
PlacementCost BasicPlacementEvaluator<Table>::cost(const Instance& instance, std::span<const LayerSet> offloaded,
                                                   int step) {
  SLUICE_ASSERT(offloaded.size() == instance.requests.size(), "one set per request");
  judge(JudgedCosts::step, instance.requests.size());
  PlacementCost result = memory(instance, offloaded, step);
  Pipeline pipeline;
  LayerStream uniform;
  if (!lay_out(instance, false, result, uniform, pipeline)) return result;
  rule_->clear(state_.get());
  StepCost total;
  for (int i = 0; i < instance.iterations; ++i) add(instance, pipeline, rule_->evaluate(pipeline, state_.get()), total);
  result.step = {total.step_s / instance.iterations, total.stall_s / instance.iterations};
  return result;
}

template <class Table>
WindowCheck BasicPlacementEvaluator<Table>::hold(const Instance& instance, std::span<const LayerSet> offloaded,
                                                 const PlacementCost& first) {
  WindowCheck result;
  result.binding = Binding::device_memory;
  if (!first.fits) return result;
  judge(JudgedCosts::window, instance.requests.size());
  const bool grows = mark_growth(instance);
  const int fits_until = grows ? longest_that_fits(instance, offloaded) : instance.window_max;
  if (fits_until < instance.window_min) return result;
  result.binding = Binding::none;
  result.window = fits_until;
  if (!instance.has_slo()) return result;

  result = {0, Binding::slo};
  const bool moves = std::any_of(offloaded.begin(), offloaded.end(), [](LayerSet set) { return !set.empty(); });
  double elapsed_s = 0;
  double misses = 0;
  double step_s = first.step.step_s;
  for (int t = 1; t <= fits_until; ++t) {
    judge(JudgedCosts::slo_step, instance.requests.size());
    // Only a new block changes a step's time: one token in sixteen, for each request.
    if (moves && grows && t > 1 && grows_after(instance, t - 2)) step_s = cost(instance, offloaded, t - 1).step.step_s;
    elapsed_s += step_s;
    misses += instance.paused_without_deposit;
    for (const InstanceRequest& request : instance.requests)
      if (misses_step(request, t, elapsed_s)) misses += 1;
    if (misses > instance.alpha * instance.window_max + 1e-9) break; // no longer window can make up for these misses
    if (t >= instance.window_min && misses <= instance.alpha * t + 1e-9) result = {t, Binding::none};
  }
  return result;
}

/// Records at which steps, modulo the block size, a request fills its last block. Returns whether any request grows.
template <class Table>
bool BasicPlacementEvaluator<Table>::mark_growth(const Instance& instance) {
  const std::int64_t size = instance.block_tokens.count();
  bool grows = false;
  fills_.assign(static_cast<std::size_t>(std::min<std::int64_t>(size, instance.window_max)), 0);
  for (const InstanceRequest& request : instance.requests) {
    if (request.tokens <= Tokens{0}) continue;
    grows = true;
    const std::int64_t first = (size - request.tokens.count() % size) % size;
    if (first < static_cast<std::int64_t>(fills_.size())) fills_[static_cast<std::size_t>(first)] = 1;
  }
  return grows;
}
/// Whether any request needs another block at the step after `step`.
template <class Table>
bool BasicPlacementEvaluator<Table>::grows_after(const Instance& instance, int step) const {
  const std::int64_t phase = step % instance.block_tokens.count();
  return phase < static_cast<std::int64_t>(fills_.size()) && fills_[static_cast<std::size_t>(phase)] != 0;
}

/// The most steps for which the placement fits, or fewer than `window_min`: by bisection, since KV only grows.
template <class Table>
int BasicPlacementEvaluator<Table>::longest_that_fits(const Instance& instance, std::span<const LayerSet> offloaded) {
  const auto fits = [&](int steps) { return memory(instance, offloaded, steps - 1).fits; };
  if (instance.window_min > 1 && !fits(instance.window_min)) return 0;
  if (fits(instance.window_max)) return instance.window_max;
  int good = instance.window_min;
  int bad = instance.window_max;
  while (bad - good > 1) {
    const int middle = good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good;
}

template <class Table>
PlacementCost BasicPlacementEvaluator<Table>::memory(const Instance& instance, std::span<const LayerSet> offloaded,
                                                     int step) {
  PlacementCost result;
  const int movable = instance.movable().count();
  streams_.clear();
  LayerArray loads;
  std::fill_n(loads.begin(), instance.layers(), 0.0);
  result.resident_blocks = instance.staying_at(step);
  // Adjacent requests that offload the same layers are summed first: a uniform placement is one pass over the layers.
  double alike = 0;
  const auto add_alike = [&] {
    if (alike > 0) streams_.back().layers.for_each([&](int layer) { loads[static_cast<std::size_t>(layer)] += alike; });
    alike = 0;
  };
  for (std::size_t r = 0; r < offloaded.size(); ++r) {
    const double blocks = instance.blocks_at(r, step);
    result.resident_blocks += blocks * (movable - offloaded[r].count());
    if (offloaded[r].empty() || blocks <= 0) continue;
    if (!streams_.empty() && streams_.back().layers != offloaded[r]) add_alike();
    streams_.push_back({offloaded[r], blocks});
    alike += blocks;
  }
  add_alike();
  result.buffer_blocks = rule_->blocks({loads.data(), instance.layer_compute_s.size()}, streams_);
  const auto budget = static_cast<double>(instance.device_blocks.count());
  result.fits = result.resident_blocks + result.buffer_blocks <= budget + 1e-9 * budget;
  return result;
}

/// Builds the iteration of a placement whose memory has been computed, as the rule takes it. False if there is none:
/// `cost.step` is then infinite. `told`: the timeline must name each stream; otherwise identical streams are merged
/// into `uniform`.
template <class Table>
bool BasicPlacementEvaluator<Table>::lay_out(const Instance& instance, bool told, PlacementCost& cost,
                                             LayerStream& uniform, Pipeline& pipeline) {
  pipeline.compute_s = instance.layer_compute_s;
  pipeline.before_s = instance.before_s;
  pipeline.after_s = instance.after_s;
  pipeline.link = {instance.link_blocks_per_s, instance.link_per_layer_s};
  pipeline.streams = streams_;
  if (!told && instance.weights.empty() && is_uniform(uniform))
    pipeline.streams = std::span<const LayerStream>(&uniform, 1);
  pipeline.weights = instance.weights;
  pipeline.room_blocks = static_cast<double>(instance.device_blocks.count()) - cost.resident_blocks;
  if (rule_->needs_room) {
    // A pool smaller than its worst layer can never hold that layer: the iteration is impossible.
    LayerArray loads{};
    detail::layer_loads(pipeline, loads);
    const double worst = *std::max_element(loads.begin(), loads.begin() + instance.layers());
    if (worst > pipeline.room_blocks * (1 + 1e-9)) {
      constexpr double never = std::numeric_limits<double>::infinity();
      cost.step = {never, never};
      return false;
    }
  }
  return true;
}

/// Adds one iteration to the total.
template <class Table>
void BasicPlacementEvaluator<Table>::add(const Instance& instance, const Pipeline& pipeline, StepCost part,
                                         StepCost& total) {
  if (instance.on_link > 0) {
    // Only the link time of its own blocks counts: the iteration before prefetched as many blocks as this one does.
    part.link_s = own_link_s(pipeline);
    part = contended(part, instance.on_link);
  }
  total.step_s += part.step_s;
  total.stall_s += part.stall_s;
}

/// Link time of the blocks that one iteration moves.
template <class Table>
double BasicPlacementEvaluator<Table>::own_link_s(const Pipeline& pipeline) {
  LayerArray loads;
  detail::layer_loads(pipeline, loads);
  double link_s = 0;
  for (int l = 0; l < pipeline.layers(); ++l) {
    const double blocks =
        loads[static_cast<std::size_t>(l)] + (pipeline.weights.layers.contains(l) ? pipeline.weights.blocks : 0);
    if (blocks > 0) link_s += blocks / pipeline.link.blocks_per_s + pipeline.link.per_layer_s;
  }
  return link_s;
}

/// Whether all streams move the same layers; `sum` is then their sum. If nothing else moves, such streams start
/// together and each layer waits for all of them, so the division of the link does not matter.
template <class Table>
bool BasicPlacementEvaluator<Table>::is_uniform(LayerStream& sum) const {
  if (streams_.size() < 2) return false;
  sum.layers = streams_.front().layers;
  for (const LayerStream& stream : streams_) {
    if (stream.layers != sum.layers) return false;
    sum.blocks += stream.blocks;
  }
  return true;
}

} // namespace sluice
