// SPDX-License-Identifier: Apache-2.0
// WeightedScorers: a router that adds up scores, as llm-d's endpoint picker does.
#pragma once

#include "sluice/fleet/random_router.hpp"
#include "sluice/fleet/router.hpp"

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace sluice {

/// A part of a WeightedScorers.
///
///  1. `S::reads` says which facts it reads; `S::State` is default-constructible.
///  2. `weight`, a member: the factor on its scores.
///  3. `score(view, request, state, scores)` adds `weight` times a score from 0 to 1 to each of `scores`, which has the
///     order of `view.open`.
///  4. `sent(view, request, engine, state)`: the request goes to that engine.
template <class S>
concept Scorer = SaysWhatItReads<S> && HasState<S> && std::convertible_to<decltype(S::weight), double> &&
    requires(const S& scorer, const FleetView& view, const RoutedRequest& request, typename S::State& state,
             std::span<double> scores) {
  { scorer.score(view, request, state, scores) } -> std::same_as<void>;
  { scorer.sent(view, request, std::size_t{0}, state) } -> std::same_as<void>;
};

/// The engine with the highest sum of weighted scores; of equal ones, one at random (llm-d's `max-score-picker`).
///
///     using Precise = WeightedScorers<QueueScorer, KvScorer, FoundScorer>;
///     const Precise router{.scorers = {QueueScorer{2}, KvScorer{2}, FoundScorer{3}}};
template <Scorer... Ss>
struct WeightedScorers {
  using role = roles::Router;
  static constexpr RouterReads reads = (Ss::reads | ... | RouterReads{});
  struct State {
    std::tuple<typename Ss::State...> of{};
    std::vector<double> scores{};      ///< scratch: in the order of `view.open`
    std::vector<std::uint32_t> best{}; ///< scratch
  };

  Seconds every{0.1};
  std::tuple<Ss...> scorers{};
  std::uint64_t seed = 1; ///< of the choice among equals

  [[nodiscard]] std::size_t choose(const FleetView& view, const RoutedRequest& request, State& state) const {
    state.scores.assign(view.open.size(), 0);
    each([&]<std::size_t I>() { std::get<I>(scorers).score(view, request, std::get<I>(state.of), state.scores); });
    const double most = *std::max_element(state.scores.begin(), state.scores.end());
    state.best.clear();
    for (std::size_t i = 0; i < view.open.size(); ++i)
      if (state.scores[i] >= most - 1e-12) state.best.push_back(view.open[i]); // sums of equal scores may round apart
    const std::size_t to = state.best[drawn(seed, request.number, state.best.size())];
    each([&]<std::size_t I>() { std::get<I>(scorers).sent(view, request, to, std::get<I>(state.of)); });
    return to;
  }

 private:
  template <class Act>
  static void each(Act&& act) {
    [&]<std::size_t... I>(std::index_sequence<I...>) { (act.template operator()<I>(), ...); }
    (std::index_sequence_for<Ss...>{});
  }
};

} // namespace sluice
