// SPDX-License-Identifier: Apache-2.0
// FleetWatch: the observer through which a fleet hears which requests of an engine have ended.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/engine/with.hpp"
#include "sluice/report/observer/observer.hpp"
#include "sluice/report/observer/summary.hpp"

#include <cstdint>
#include <type_traits>
#include <vector>

namespace sluice {

/// The end of a request in one engine. Ranks exchange it.
struct EngineEnd {
  RequestId id{};           ///< the engine's
  std::uint64_t number = 0; ///< the fleet's; written after the engine's iteration
  std::uint32_t engine = 0; ///< in its pool
  Outcome outcome = Outcome::unfinished;
  std::int32_t times_preempted = 0;
  RequestSpec spec; ///< as the engine got it
  Seconds joined{0}, first{0}, last{0};
  Tokens generated{0}, found{0}, loaded{0};
  [[nodiscard]] bool ran() const { return outcome == Outcome::served; }
};
static_assert(std::is_trivially_copyable_v<EngineEnd>);

/// Notes ends in a list of the fleet. It hears of no token and no iteration, so that it costs a request, and not a
/// step. Under a Delivery that holds tokens back, the first token is one that is delivered at once.
struct FleetWatch {
  using role = roles::Observer;
  using hears = Events<events::Ended, events::Refused>;
  static constexpr bool wants_timeline = false;
  struct State {};

  std::vector<EngineEnd>* to = nullptr; ///< null: nobody

  void on(State& /*state*/, const events::Ended& event) const {
    if (to == nullptr) return;
    const RequestRow& row = event.row;
    const bool held_back = row.last_delivery.count() >= 0; // only such a Delivery writes it
    to->push_back({row.id, 0, 0, Outcome::served, row.times_preempted, row.spec.whole(not_a_policy), row.running_since,
                   row.first_token, held_back ? row.last_delivery : row.last_token, row.generated, row.found,
                   row.loaded});
  }
  void on(State& /*state*/, const events::Refused& event) const {
    if (to == nullptr) return;
    to->push_back({event.id, 0, 0, Outcome::refused, 0, event.spec, event.now, event.now, event.now, Tokens{0},
                   Tokens{0}, Tokens{0}});
  }
};

static_assert(explain<FleetWatch>());

namespace detail {

template <class E, class Observers>
struct WatchedEngine;
template <class E, class... Os>
struct WatchedEngine<E, Parts<Os...>> {
  using type = With<E, Os..., FleetWatch>;
};

} // namespace detail

/// The engine `E` as a fleet runs it: with its own observers, and the fleet's.
template <class E>
using Watched = typename detail::WatchedEngine<E, typename E::composition::observer_types>::type;

} // namespace sluice
