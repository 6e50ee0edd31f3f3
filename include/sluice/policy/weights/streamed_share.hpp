// SPDX-License-Identifier: Apache-2.0
// StreamedShare: the same share of every layer's weights streams, sized by peak rates (FlexGen, as Select-N extends
// it).
#pragma once

#include "sluice/core/numbers.hpp"
#include "sluice/policy/cost/roofline.hpp"
#include "sluice/policy/weights/weights.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace sluice {

/// FlexGen keeps a share of every layer on the host and fetches it while the layer before computes. Select-N compares
/// with it in this form (3.2, 3.3): the largest share with which a decode is estimated to meet the SLO, before anything
/// has run. Two assumptions make that share smaller than necessary: the estimate computes at the device's peak, so that
/// it seems to hide less than it does; and all engines are assumed to share the bus all the time.
///
/// The estimate is made for the present batch at every decision, which FlexGen does not do: the share is as large as
/// these rates allow.
template <CostModel Peak>
struct BasicStreamedShare {
  using role = roles::Weights;
  static constexpr bool promises = false;
  static constexpr bool lends = false;
  struct State {
    StreamedStep step;
    int last = 0; ///< the last decision's share, where the next search begins
  };
  static constexpr int parts = 256; ///< the share is a multiple of 1 / `parts`

  std::optional<Peak> peak{}; ///< the cost model of the estimate; without it, the planner's own
  int engines_on_bus = 1;     ///< each engine gets an equal share of the link's rate
  static constexpr auto numbers =
      Numbers{"StreamedShare", Number{"engines_on_bus", &BasicStreamedShare::engines_on_bus, 1, 1000,
                                      "engines among which the link's rate is divided"}};

  template <class Task>
  void offer(const Task& task, State& state, std::vector<WeightsLevel>& levels) const {
    Seconds slo{std::numeric_limits<double>::infinity()};
    for (const Claim& claim : task.claims) slo = std::min(slo, task.view.row(claim.slot).spec.slo.tbt);
    const Geometry& geometry = task.view.geometry;
    state.last = largest(task.cost, geometry, task.steady, state.step, slo, state.last);
    int part = std::max(state.last, least(geometry, task.own));
    if (task.claims.size() == 1) // it must be able to end, even if it then misses its SLO
      while (part < parts && task.own + level_of(geometry, part).plan.freed < task.demand) ++part;
    if (part > 0) levels.push_back(level_of(geometry, part));
  }
  [[nodiscard]] LayerBlocks most_freed(const Geometry& geometry) const {
    return std::max(LayerBlocks{0}, level_of(geometry, parts).plan.freed);
  }

  /// `part` / `parts` of every layer's weights through two slots: one computes while one arrives.
  [[nodiscard]] static WeightsLevel level_of(const Geometry& geometry, int part) {
    return WeightsLevel::of(geometry, geometry.streamable(), 2, static_cast<double>(part) / parts);
  }

 private:
  /// A cost model whose link has an equal share of a bus.
  template <class Model>
  struct BusShare {
    const Model& model;
    int engines;
    [[nodiscard]] StepTime step(const Work& work) const { return model.step(work); }
    bool layer_times(const Work& work, std::span<double> layers_s) const requires TimesLayers<Model> {
      return model.layer_times(work, layers_s);
    }
    [[nodiscard]] LinkCost link() const {
      LinkCost link = model.link();
      link.rate = link.rate / static_cast<double>(engines);
      return link;
    }
  };

  /// The smallest share with which the weights and a block of each layer fit the device.
  static int least(const Geometry& geometry, LayerBlocks own) {
    int part = 0;
    if (own < LayerBlocks{0})
      while (part < parts && level_of(geometry, part).plan.freed < geometry.kv_of(TokenBlocks{1}) - own) ++part;
    return part;
  }
  /// From one decision to the next the share hardly changes, so the search first tries `near` and its neighbour.
  template <class Cost>
  int largest(const Cost& cost, const Geometry& geometry, const Work& work, StreamedStep& step, Seconds slo,
              int near) const {
    return peak ? largest_by(BusShare<Peak>{*peak, engines_on_bus}, geometry, work, step, slo, near)
                : largest_by(BusShare<Cost>{cost, engines_on_bus}, geometry, work, step, slo, near);
  }
  template <class Estimate>
  static int largest_by(const Estimate& estimate, const Geometry& geometry, const Work& work, StreamedStep& step,
                        Seconds slo, int near) {
    int good = 0; // nothing streams: no share is better
    int bad = parts + 1;
    for (int tried = 0; bad - good > 1; ++tried) {
      const int neighbour = bad == near ? near - 1 : near + 1;
      const int part = tried == 0 ? near : tried == 1 ? neighbour : good + (bad - good) / 2;
      if (part <= good || part >= bad) continue;
      const Seconds time = step.of(estimate, geometry, work, level_of(geometry, part).plan);
      (time <= slo * (1 + 1e-9) ? good : bad) = part;
    }
    return good;
  }
};

using StreamedShare = BasicStreamedShare<Roofline>;

static_assert(Weights<StreamedShare>);

} // namespace sluice
