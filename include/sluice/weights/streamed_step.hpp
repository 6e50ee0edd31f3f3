// SPDX-License-Identifier: Apache-2.0
// streamed_step: how long a decode takes while weights stream, by the evaluator.
#pragma once

#include "sluice/transfer/fair_share.hpp"
#include "sluice/view/block_link.hpp"
#include "sluice/weights/weights.hpp"

#include <algorithm>
#include <cstddef>

namespace sluice {

/// A steady decode in which only these weights cross the link: the rules agree on it (all but `NextLayer`), so that one
/// of them is asked. The first iteration starts cold and is left out.
class StreamedStep {
 public:
  template <class Task>
  [[nodiscard]] Seconds operator()(const Task& task, const WeightsPlan& weights) {
    const StepTime time = task.cost.step(task.steady);
    const LinkCost link = task.cost.link();
    std::fill_n(compute_.begin(), task.layers(), time.layer.count());
    Pipeline pipeline;
    pipeline.compute_s = {compute_.data(), static_cast<std::size_t>(task.layers())};
    pipeline.before_s = time.before.count();
    pipeline.after_s = time.after.count();
    pipeline.link = block_link(link, task.view.geometry);
    pipeline.weights = task.view.geometry.stream_of(weights);
    state_.clear();
    StepCost cost;
    for (int token = 0; token < settled; ++token) cost = FairShare::evaluate(pipeline, state_);
    return Seconds{cost.step_s};
  }

 private:
  static constexpr int settled = 3; ///< tokens after which a step repeats: a token's slots are filled by the one before

  LayerArray compute_{};
  FairShare::State state_;
};

} // namespace sluice
