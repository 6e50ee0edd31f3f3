// SPDX-License-Identifier: Apache-2.0
// record_intervals: makes a performance record from a cost model, by the evaluator.
#pragma once

#include "sluice/policy/weights/interval_offload.hpp"
#include "sluice/policy/weights/interval_record.hpp"
#include "sluice/policy/weights/streamed_step.hpp"

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace sluice {

/// The work of one point of a record: `batch` prompts of `length` tokens computed at once, or as many decodes that read
/// that many tokens each. Owns the chunks that its `Work` refers to.
class RecordedWork {
 public:
  [[nodiscard]] const Work& of(InferencePhase phase, std::int64_t batch, Tokens length) {
    work_ = Work{};
    work_.samples = batch;
    if (phase == InferencePhase::decode) {
      work_.decodes = batch;
      work_.decode_context = length * batch;
    } else {
      prompts_.assign(static_cast<std::size_t>(batch), ChunkWork{length, Tokens{0}});
      work_.chunks = prompts_;
    }
    return work_;
  }

 private:
  Work work_;
  std::vector<ChunkWork> prompts_;
};

/// The step function of one work: tries every interval that frees memory, from 1 up, and keeps those that meet an SLO
/// that no smaller one meets. SLOs beyond the grid's longest are left out. (The search does not assume that times fall
/// with the interval; a measured record could not either.)
template <Predictor Cost>
[[nodiscard]] IntervalPoint record_point(const Cost& cost, const Geometry& geometry, const IntervalGrid& grid,
                                         const Work& work, StreamedStep& step) {
  IntervalPoint point;
  point.resident = step.of(cost, geometry, work, {});
  std::int64_t tightest = grid.slo_steps + 1;
  for (int interval = 1; interval <= geometry.layers; ++interval) {
    const WeightsPlan plan = interval_level(geometry, interval).plan;
    if (plan.level < 1) continue;
    const std::int64_t steps = grid.steps_for(step.of(cost, geometry, work, plan));
    if (steps >= tightest) continue;
    tightest = steps;
    point.intervals.insert(point.intervals.begin(), {steps, interval});
  }
  return point;
}

/// The record of a model on a device. `tell(done, of)` is called after each point.
template <Predictor Cost, class Tell>
[[nodiscard]] IntervalRecord record_intervals(const Cost& cost, const Geometry& geometry,
                                              IntervalRecord::Heading heading, const IntervalGrid& grid, Tell&& tell) {
  heading.layers = geometry.layers;
  heading.layer_weight_bytes = geometry.layer_weight_bytes;
  IntervalRecord record{std::move(heading), grid};
  StreamedStep step;
  RecordedWork work;
  std::int64_t done = 0;
  const std::int64_t all = std::int64_t{2} * grid.batches() * grid.lengths();
  for (const InferencePhase phase : {InferencePhase::prefill, InferencePhase::decode})
    for (int b = 0; b < grid.batches(); ++b)
      for (int l = 0; l < grid.lengths(); ++l) {
        record.at(phase, b, l) =
            record_point(cost, geometry, grid, work.of(phase, IntervalGrid::batch(b), grid.length(l)), step);
        tell(++done, all);
      }
  return record;
}

} // namespace sluice
