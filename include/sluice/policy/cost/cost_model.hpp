// SPDX-License-Identifier: Apache-2.0
// CostModel: the concept of the role that predicts for the planner how long compute and transfers take.
#pragma once

#include "sluice/core/role.hpp"
#include "sluice/core/units.hpp"
#include "sluice/policy/cost/work.hpp"

#include <algorithm>
#include <concepts>
#include <span>

namespace sluice {

/// Measurements of an iteration. A cost model may learn from them; most do not.
struct Observation {
  const Work& work;       ///< what was computed
  int layers = 1;         ///< the model's layers
  bool predicted = false; ///< false: the iteration repeated the last one, and nothing was predicted for this work
  Seconds compute{0};     ///< measured: its duration less its stalls
  Seconds transfer{0};    ///< measured: the link was busy; 0 if nothing crossed it or nothing was measured
  /// The link's busy time as the model's `predictor` says of the same iteration, in the state before this observation.
  Seconds transfer_predicted{0};
  std::span<const double> layers_s{}; ///< seconds of each layer within `compute`, if the machine measures them
};

/// `P` predicts an iteration's computation.
template <class P>
concept PredictsStep = requires(const P& model, const Work& work) {
  { model.step(work) } -> std::same_as<StepTime>;
};

/// `P` predicts the link.
template <class P>
concept KnowsLink = requires(const P& model) {
  { model.link() } -> std::same_as<LinkCost>;
};

/// `P` reads `Work::contexts`. A world with such a model keeps the batch in the order of a server's rows, for O(batch)
/// in every iteration; planners have no contexts, and such a model then counts every decode at the mean.
template <class P>
concept ReadsContexts = requires {
  requires P::reads_contexts;
};

/// `P` may predict each layer's own time: `layer_times(work, layers_s)` writes seconds, whose mean is
/// `step(work).layer`, or returns false if all layers take that. Transfers hide behind the layers before theirs, so
/// cost models of models whose layers differ have it.
template <class P>
concept TimesLayers = requires(const P& model, const Work& work, std::span<double> layers_s) {
  { model.layer_times(work, layers_s) } -> std::same_as<bool>;
};

/// `P` has a `layer_times`.
template <class P>
concept NamesLayerTimes = requires {
  &P::layer_times;
};

/// Writes each layer's own time in seconds, which is `mean` (`step(work).layer`) if the model does not tell layers
/// apart.
template <class P>
void own_layer_times(const P& model, const Work& work, Seconds mean, std::span<double> layers_s) {
  if constexpr (TimesLayers<P>)
    if (model.layer_times(work, layers_s)) return;
  std::fill(layers_s.begin(), layers_s.end(), mean.count());
}

/// What judges a placement: predictions of computation and of the link, with nothing left to learn.
template <class P>
concept Predictor = PredictsStep<P> && KnowsLink<P>;

/// An archetype of a predictor for checking other roles' concepts; every predictor has the same hooks.
struct CostArchetype {
  [[nodiscard]] StepTime step(const Work& work) const;
  [[nodiscard]] LinkCost link() const;
};

/// `P` returns its predictor, corrected by what it has learned.
template <class P>
concept HasPredictor = requires(const P& model, const typename P::State& state) {
  { model.predictor(state) } -> Predictor;
};

/// `P` receives the measurements of an iteration.
template <class P>
concept Observes = requires(const P& model, typename P::State& state, const Observation& observation) {
  { model.observe(state, observation) } -> std::same_as<void>;
};

/// How long computation, transfer and recomputation take, as the *planner* predicts. (A simulation's world is another
/// object, perhaps of another type: a model never observes itself.)
///
///  1. `P::role` is `roles::Cost`; `P::State` is default-constructible: what it has learned, empty for most models.
///  2. `step(work)` and `link()` predict without what was learned. Optional: `layer_times(work, layers_s)`
///  (TimesLayers).
///  3. `predictor(state)` is the same predictor corrected by what was learned; planners use this one. A model that
///     does not learn returns itself, by reference; any other model returns a value that refers to the model and
///     copies the state.
///  4. `observe(state, observation)` after each iteration.
///
/// Requirements that are not checked: `step` costs O(1) in the number of decodes and O(n) in the number of chunks, and
/// allocates nothing; a time is finite and not negative; more work never takes less time (noise in a measured table may
/// break this).
template <class P>
concept CostModel = PlaysRole<P, roles::Cost> && HasState<P> && Predictor<P> && HasPredictor<P> && Observes<P> &&
    (TimesLayers<P> || !NamesLayerTimes<P>);

template <>
struct Contract<roles::Cost> {
  template <class P>
  static constexpr bool met = CostModel<P>;

  template <class P>
  static consteval auto explain() {
    static_assert(HasState<P>, "sluice: this CostModel needs a nested `State`: write `struct State {};` if it learns "
                               "nothing");
    static_assert(PredictsStep<P>, "sluice: this CostModel needs `StepTime step(const Work&) const`");
    static_assert(KnowsLink<P>, "sluice: this CostModel needs `LinkCost link() const`");
    static_assert(TimesLayers<P> || !NamesLayerTimes<P>,
                  "sluice: this CostModel's `layer_times` would never be called: write `bool layer_times(const Work&, "
                  "std::span<double> seconds) const`, which returns whether it wrote each layer's own time");
    if constexpr (HasState<P>) {
      static_assert(HasPredictor<P>,
                    "sluice: this CostModel needs `const P& predictor(const State&) const` that returns "
                    "`*this`, or, if it learns, a predictor with `step` and `link`");
      static_assert(Observes<P>, "sluice: this CostModel needs `void observe(State&, const Observation&) const`, empty "
                                 "if it learns nothing");
    }
    return true;
  }

  template <bool Once>
  static consteval auto explain_twice() {
    static_assert(
        Once,
        "sluice: two Cost models in one engine: keep one (the world's belongs to the backend: BasicSimulated<World>)");
    return true;
  }
};

} // namespace sluice
