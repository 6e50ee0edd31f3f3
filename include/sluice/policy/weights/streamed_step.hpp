// SPDX-License-Identifier: Apache-2.0
// streamed_step: how long an iteration takes while weights stream, by the evaluator.
#pragma once

#include "sluice/policy/transfer/block_link.hpp"
#include "sluice/policy/transfer/contended.hpp"
#include "sluice/policy/transfer/fair_share.hpp"
#include "sluice/policy/weights/weights.hpp"

#include <algorithm>
#include <cstddef>

namespace sluice {

/// The time of an iteration that repeats, token after token, while only these weights cross the link. All rules but
/// `NextLayer` give the same time, so one of them is used. The first iterations, from a cold start, are left out.
class StreamedStep {
 public:
  /// The steady decode of the task's claims.
  template <class Task>
  [[nodiscard]] Seconds operator()(const Task& task, const WeightsPlan& weights) {
    return of(task.cost, task.view.geometry, task.steady, weights);
  }
  /// Any work.
  template <Predictor Cost>
  [[nodiscard]] Seconds of(const Cost& cost, const Geometry& geometry, const Work& work, const WeightsPlan& weights) {
    const StepTime time = cost.step(work);
    if (weights.streamed.empty()) return time.total(geometry.layers);
    std::fill_n(compute_.begin(), geometry.layers, time.layer.count());
    Pipeline pipeline;
    pipeline.compute_s = {compute_.data(), static_cast<std::size_t>(geometry.layers)};
    pipeline.before_s = time.before.count();
    pipeline.after_s = time.after.count();
    pipeline.link = block_link(cost.link(), geometry, 0);
    pipeline.weights = geometry.stream_of(weights);
    state_.clear();
    StepCost step;
    for (int token = 0; token < repeats_after; ++token) step = FairShare::evaluate(pipeline, state_);
    return Seconds{contended(step, time.on_link).step_s};
  }

 private:
  static constexpr int repeats_after = 3; ///< tokens after which steps repeat: the one before fills a token's slots

  LayerArray compute_{};
  FairShare::State state_;
};

} // namespace sluice
