// SPDX-License-Identifier: Apache-2.0
// CostModel: the concept of the role that says how long compute and transfers take, as the planner predicts.
#pragma once

#include "sluice/core/contract.hpp"
#include "sluice/core/units.hpp"
#include "sluice/cost/work.hpp"

#include <concepts>
#include <span>

namespace sluice {

/// What an iteration showed. A cost model may learn from it; most do not.
struct Observation {
  const Work& work;           ///< what was computed
  int layers = 1;             ///< of the model
  bool predicted = false;     ///< false: the iteration repeated the last one, and no prediction was made for this work
  Seconds compute{0};         ///< measured: its duration less its stalls
  Bytes moved{0};             ///< what crossed the link while it was busy for `transfer`
  std::int64_t transfers = 0; ///< in how many per-layer transfers
  Seconds transfer{0};        ///< time the link was busy; 0 where nothing crossed it or nothing was measured
  std::span<const double> layers_s{}; ///< of `compute`: seconds of each layer, where a machine measures them
};

/// `P` predicts an iteration's computation.
template <class P>
concept PredictsStep = requires(const P& model, const Work& work) {
  { model.step(work) } -> std::same_as<StepTime>;
};

/// `P` knows the link.
template <class P>
concept KnowsLink = requires(const P& model) {
  { model.link() } -> std::same_as<LinkCost>;
};

/// What a placement is judged by: predictions of computation and of the link, with nothing left to learn.
template <class P>
concept Predictor = PredictsStep<P> && KnowsLink<P>;

/// A predictor that other roles' concepts are checked with; any other has the same hooks.
struct CostArchetype {
  [[nodiscard]] StepTime step(const Work& work) const;
  [[nodiscard]] LinkCost link() const;
};

/// `P` returns its predictor, in the light of what it has learned.
template <class P>
concept HasPredictor = requires(const P& model, const typename P::State& state) {
  { model.predictor(state) } -> Predictor;
};

/// `P` is told what an iteration showed.
template <class P>
concept Observes = requires(const P& model, typename P::State& state, const Observation& observation) {
  { model.observe(state, observation) } -> std::same_as<void>;
};

/// How long computation, transfer and recomputation take, as the *planner* predicts. (The world of a simulation is
/// another object, perhaps of another type: a model never observes itself.)
///
///  1. `P::role` is `roles::Cost`; `P::State` is default-constructible: what it has learned, empty for most.
///  2. `step(work)` and `link()` predict, without what was learned.
///  3. `predictor(state)` is the same predictor corrected by what was learned: planners ask this one. A model that does
///     not learn returns itself, by reference; any other a value that refers to the model and copies the state.
///  4. `observe(state, observation)` after each iteration.
///
/// Not checked, and owed: `step` costs O(1) in the number of decodes and O(chunks) in the rest, and allocates nothing;
/// a time is finite and not negative; more work never takes less (a measured table may break this by its noise).
template <class P>
concept CostModel = PlaysRole<P, roles::Cost> && HasState<P> && Predictor<P> && HasPredictor<P> && Observes<P>;

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
