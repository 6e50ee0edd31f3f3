// SPDX-License-Identifier: Apache-2.0
// EvaluatedInterval, RecordedInterval: two ways to find the smallest interval that meets an SLO.
#pragma once

#include "sluice/policy/weights/interval_offload.hpp"
#include "sluice/policy/weights/interval_record.hpp"
#include "sluice/policy/weights/record_intervals.hpp"
#include "sluice/policy/weights/streamed_step.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace sluice {

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
    const int layers = asked.geometry.layers;
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
    const int layers = asked.geometry.layers;
    const double most =
        std::floor(layers * asked.cost.step(asked.work).layer.count() * (slo / unoffloaded) / transfer_s);
    return static_cast<int>(std::min<double>(layers, most));
  }
  /// The smallest interval that offloads no more than the count allows; above the number of layers if none may be. The
  /// printed floor(L / n) can offload more (for 32 layers and n = 9, an interval of 3 offloads 10).
  template <class Question>
  [[nodiscard]] static int counted_interval(const Question& asked, Seconds slo) {
    const int most = counted_layers(asked, slo);
    const int layers = asked.geometry.layers;
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
