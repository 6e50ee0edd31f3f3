// SPDX-License-Identifier: Apache-2.0
// StreamedShare: of every layer's weights the same part streams, sized by peak rates (FlexGen, as Select-N extends it).
#pragma once

#include "sluice/cost/roofline.hpp"
#include "sluice/weights/streamed_step.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

namespace sluice {

/// FlexGen keeps a part of every layer on the host and fetches it while the layer before computes. Select-N compares
/// with it so (3.2, 3.3): the largest part with which a decode is estimated to meet the SLO, estimated before anything
/// has run. Two things make that part smaller than it need be: the computation is taken to run at the device's peak, so
/// that it seems to hide less than it does; and the bus is taken to be shared by all of its engines all the time.
///
/// The estimate is made for the batch at hand, at every decision, which FlexGen does not: the part is as large as it
/// can be by these rates.
template <CostModel Peak>
struct BasicStreamedShare {
  using role = roles::Weights;
  struct State {
    StreamedStep step;
  };
  static constexpr int parts = 256; ///< the part is a whole number of these

  std::optional<Peak> peak{}; ///< what is estimated by; without it the planner's own model
  int engines_on_bus = 1;     ///< each is given as much of the link's rate

  template <class Task>
  void offer(const Task& task, State& state, std::vector<WeightsLevel>& levels) const {
    double slo_s = std::numeric_limits<double>::infinity();
    for (const Claim& claim : task.claims) slo_s = std::min(slo_s, task.view.row(claim.slot).spec.slo.tbt.count());
    const int part = peak ? largest(Believed<Peak>{*peak, engines_on_bus}, task, state, slo_s)
                          : largest(Believed<typename Task::cost_type>{task.cost, engines_on_bus}, task, state, slo_s);
    if (part > 0) levels.push_back(level_of(task.view.geometry, part));
  }
  /// What the SLO has time for depends on the batch: nothing is promised.
  [[nodiscard]] LayerBlocks most_freed(const Geometry& /*geometry*/) const { return LayerBlocks{0}; }

  /// `part` of every layer's weights through two slots: one computes, one arrives.
  [[nodiscard]] static WeightsLevel level_of(const Geometry& geometry, int part) {
    return WeightsLevel::of(geometry, LayerSet::all(geometry.layers), 2, static_cast<double>(part) / parts);
  }

 private:
  /// A model, with its share of the bus.
  template <class Model>
  struct Believed {
    const Model& model;
    int engines;
    [[nodiscard]] StepTime step(const Work& work) const { return model.step(work); }
    [[nodiscard]] LinkCost link() const {
      LinkCost link = model.link();
      link.rate = link.rate / static_cast<double>(engines);
      return link;
    }
  };

  template <class Estimate, class Task>
  int largest(const Estimate& estimate, const Task& task, State& state, double slo_s) const {
    const WeightsTask<Estimate> estimated{task.view, estimate, task.claims, task.demand, task.own, task.steady};
    const auto meets = [&](int part) {
      return state.step(estimated, level_of(task.view.geometry, part).plan).count() <= slo_s * (1 + 1e-9);
    };
    int good = 0; // nothing streamed: there is no better
    int bad = parts + 1;
    while (bad - good > 1) {
      const int middle = good + (bad - good) / 2;
      (meets(middle) ? good : bad) = middle;
    }
    return good;
  }
};

using StreamedShare = BasicStreamedShare<Roofline>;

static_assert(Weights<StreamedShare>);

} // namespace sluice
