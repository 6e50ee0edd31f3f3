// SPDX-License-Identifier: Apache-2.0
// EvaluatedInterval, RecordedInterval: two ways to find the smallest interval that meets an SLO.
#pragma once

#include "sluice/core/math.hpp"
#include "sluice/policy/weights/interval_offload.hpp"
#include "sluice/policy/weights/interval_record.hpp"
#include "sluice/policy/weights/weights.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace sluice {

// record_intervals: makes a performance record from a cost model, by the evaluator.

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
  for (int interval = 1; interval <= geometry.streamable_layers(); ++interval) {
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

/// The question for an interval: the work of `batch` requests of about `length` tokens.
template <class Cost>
struct IntervalQuestion {
  const Cost& cost;
  const Geometry& geometry;
  InferencePhase phase;
  const Work& work;
  std::int64_t batch;
  Tokens length;
};

/// Evaluates the present work: exact by the planner's cost model, at a few evaluations per decision.
///
/// The paper sizes the interval by counting: at most n layers with n t_transfer <= L t_compute (1 + delta), where delta
/// is the SLO's slack over the unoffloaded step (its printed formula omits L), and an interval of L / n. That count is
/// tried first; the evaluator, which knows that the layers of one interval must hide their own transfer, decides.
struct EvaluatedInterval {
  struct State {
    StreamedStep step;
  };

  /// The smallest interval that meets `slo`; 0: none.
  template <class Question>
  [[nodiscard]] int smallest(const Question& asked, State& state, Seconds slo) const {
    const int layers = asked.geometry.streamable_layers();
    // A longer interval streams less and is never slower: bisection between one that meets the SLO and one that does
    // not.
    const auto meets = [&](int interval) {
      return state.step.of(asked.cost, asked.geometry, asked.work, interval_level(asked.geometry, interval).plan) <=
             slo * (1 + 1e-9);
    };
    int good = layers + 1; // nothing streams: no interval is better
    int bad = 0;
    if (const int counted = counted_interval(asked, slo); counted <= layers) (meets(counted) ? good : bad) = counted;
    while (good - bad > 1) {
      const int middle = bad + (good - bad) / 2;
      (meets(middle) ? good : bad) = middle;
    }
    return good <= layers ? good : 0;
  }
  /// The shortest time of the work with an interval of at most `most`.
  template <class Question>
  [[nodiscard]] Seconds best(const Question& asked, State& state, int most) const {
    return state.step.of(asked.cost, asked.geometry, asked.work, interval_level(asked.geometry, most).plan);
  }

  /// The most layers that may be offloaded, by the paper's count.
  template <class Question>
  [[nodiscard]] static int counted_layers(const Question& asked, Seconds slo) {
    const Seconds unoffloaded = asked.cost.step(asked.work).total(asked.geometry.layers);
    if (slo < unoffloaded) return 0;
    const LinkCost link = asked.cost.link();
    const double transfer_s = (asked.geometry.layer_weight_bytes / link.rate + link.per_layer).count();
    const double most = math::floor(asked.geometry.layers * asked.cost.step(asked.work).layer.count() *
                                    (slo / unoffloaded) / transfer_s);
    return static_cast<int>(std::min<double>(asked.geometry.streamable_layers(), most));
  }
  /// The smallest interval that offloads no more than the count allows; above the number of layers if none may be. The
  /// printed floor(L / n) can offload more (for 32 layers and n = 9, an interval of 3 offloads 10).
  template <class Question>
  [[nodiscard]] static int counted_interval(const Question& asked, Seconds slo) {
    const int most = counted_layers(asked, slo);
    const int layers = asked.geometry.streamable_layers();
    return most < 1 ? layers + 1 : layers / (most + 1) + 1;
  }
};

/// The paper's performance record, read from `record`; or else a record that the planner's cost model makes, each point
/// on first use, so that an engine does not wait for hundreds of points that it never needs. Answers are conservative:
/// the nearest larger batch and length, and the nearest tighter SLO.
struct RecordedInterval {
  struct State {
    std::optional<IntervalRecord> own;
    std::vector<bool> made;
    StreamedStep step;
    RecordedWork work;
  };

  /// A record of this model on this device. The caller ensures that, and that it outlives the engines. Null: the
  /// planner's own.
  const IntervalRecord* record = nullptr;

  /// The smallest recorded interval that meets `slo`; 0: none, or beyond the record.
  template <class Question>
  [[nodiscard]] int smallest(const Question& asked, State& state, Seconds slo) const {
    return consulted(asked, state).look_up(asked.phase, asked.batch, asked.length, slo).interval;
  }
  /// The tightest recorded SLO that an interval of at most `most` meets; infinite if none is recorded.
  template <class Question>
  [[nodiscard]] Seconds best(const Question& asked, State& state, int most) const {
    const IntervalRecord& from = consulted(asked, state);
    const int b = from.grid().batch_index(asked.batch);
    const int l = from.grid().length_index(asked.length);
    if (b == from.grid().batches() || l == from.grid().lengths())
      return Seconds{std::numeric_limits<double>::infinity()};
    return from.tightest(from.at(asked.phase, b, l), most);
  }

 private:
  /// The batches and lengths of the planner's own record exceed any engine's; its SLOs are unbounded.
  static constexpr IntervalGrid own_grid{.max_batch = 1 << 14,
                                         .least_length = Tokens{16},
                                         .max_length = Tokens{1 << 24},
                                         .slo_step = Seconds{0.002},
                                         .slo_steps = std::int64_t{1} << 60};

  template <class Question>
  const IntervalRecord& consulted(const Question& asked, State& state) const {
    if (record) return *record;
    if (!state.own) {
      state.own.emplace(
          IntervalRecord::Heading{{}, {}, "the planner's", asked.geometry.layers, asked.geometry.layer_weight_bytes},
          own_grid);
      state.made.assign(2 * static_cast<std::size_t>(own_grid.batches() * own_grid.lengths()), false);
    }
    const int b = own_grid.batch_index(asked.batch);
    const int l = own_grid.length_index(asked.length);
    if (b < own_grid.batches() && l < own_grid.lengths()) {
      const auto place =
          static_cast<std::size_t>((static_cast<int>(asked.phase) * own_grid.batches() + b) * own_grid.lengths() + l);
      if (!state.made[place]) {
        state.made[place] = true;
        state.own->at(asked.phase, b, l) =
            record_point(asked.cost, asked.geometry, own_grid,
                         state.work.of(asked.phase, IntervalGrid::batch(b), own_grid.length(l)), state.step);
      }
    }
    return *state.own;
  }
};

} // namespace sluice
