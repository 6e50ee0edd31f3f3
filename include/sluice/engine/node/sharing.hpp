// SPDX-License-Identifier: Apache-2.0
// Sharing: which engines of a node may run, and how they slow one another's computation.
#pragma once

#include "sluice/core/role.hpp"
#include "sluice/core/units.hpp"
#include "sluice/engine/node/coordinator.hpp"

#include <concepts>
#include <cstddef>
#include <vector>

namespace sluice {

/// Which engines of a node have work, and which are running.
struct Occupancy {
  std::vector<bool> has_work; ///< the engine has a live request, or one has arrived for it
  std::vector<bool> runs;     ///< an iteration is in progress
};

/// Every engine has a device, or a part of one that no other engine uses (MIG: give the engine that part's rates). The
/// engines may still share one bus.
struct OwnDevices {
  using role = roles::Sharing;
  struct State {};

  [[nodiscard]] bool may_run(State& /*state*/, const Occupancy& /*now*/, std::size_t /*engine*/, Seconds /*at*/) const {
    return true;
  }
  [[nodiscard]] bool inactive(const State& /*state*/, std::size_t /*engine*/) const { return false; }
  [[nodiscard]] double slowdown(const Occupancy& /*now*/) const { return 1; }
};

/// All engines run on one device at the same time, without isolation (MPS): if n models have work when an iteration
/// starts, its computation takes n times as long. The factor stays fixed during the iteration, because iterations are
/// much shorter than the periods in which a model has work.
struct SideBySide {
  using role = roles::Sharing;
  struct State {};

  [[nodiscard]] bool may_run(State& /*state*/, const Occupancy& /*now*/, std::size_t /*engine*/, Seconds /*at*/) const {
    return true;
  }
  [[nodiscard]] bool inactive(const State& /*state*/, std::size_t /*engine*/) const { return false; }
  [[nodiscard]] double slowdown(const Occupancy& now) const {
    double busy = 0;
    for (const bool works : now.has_work) busy += works ? 1 : 0;
    return busy > 1 ? busy : 1;
  }
};

/// Models take turns on the device (temporal sharing). A turn ends when the model has no work, or after `quantum` if
/// other models wait. An iteration is never interrupted.
struct TakeTurns {
  using role = roles::Sharing;
  struct State {
    std::size_t turn = 0;
    Seconds since{0};
  };

  Seconds quantum{1};

  [[nodiscard]] bool may_run(State& state, const Occupancy& now, std::size_t engine, Seconds at) const {
    for (const bool runs : now.runs)
      if (runs) return false;
    if (!now.has_work[state.turn] || at - state.since >= quantum) {
      const std::size_t count = now.has_work.size();
      for (std::size_t step = 1; step <= count; ++step) {
        const std::size_t next = (state.turn + step) % count;
        if (!now.has_work[next]) continue;
        state.turn = next;
        state.since = at;
        break;
      }
    }
    return state.turn == engine;
  }
  [[nodiscard]] bool inactive(const State& state, std::size_t engine) const { return state.turn != engine; }
  [[nodiscard]] double slowdown(const Occupancy& /*now*/) const { return 1; }
};

/// `P` decides which engines may run now, and which are inactive for a while.
template <class P>
concept SaysWhoRuns = requires(const P& policy, typename P::State& state, const Occupancy& now) {
  requires std::same_as<decltype(policy.may_run(state, now, std::size_t{0}, Seconds{0})), bool>;
  requires std::same_as<decltype(policy.inactive(state, std::size_t{0})), bool>;
};

/// `P` defines the factor by which the other engines slow a computation.
template <class P>
concept SaysHowFast = requires(const P& policy, const Occupancy& now) {
  requires std::same_as<decltype(policy.slowdown(now)), double>;
};

/// Which engines of a node may run.
///
///  1. `P::role` is `roles::Sharing`; `P::State` is default-constructible.
///  2. `may_run(state, occupancy, engine, at)`: whether that engine's next iteration may start now.
///  3. `inactive(state, engine)`: that engine does not run for a while, so its weights' memory can be lent.
///  4. `slowdown(occupancy)`: the factor on the computation time of an iteration that starts now.
template <class P>
concept Sharing = PlaysRole<P, roles::Sharing> && HasState<P> && SaysWhoRuns<P> && SaysHowFast<P>;

template <>
struct Contract<roles::Sharing> {
  template <class P>
  static constexpr bool met = Sharing<P>;

  template <class P>
  static consteval auto explain() {
    static_assert(HasState<P>, "sluice: this Sharing policy needs a nested `State`: write `struct State {};` if it "
                               "remembers nothing");
    if constexpr (HasState<P>) {
      static_assert(SaysWhoRuns<P>,
                    "sluice: this Sharing policy needs `bool may_run(State&, const Occupancy&, std::size_t "
                    "engine, Seconds at) const` and `bool inactive(const State&, std::size_t engine) const`");
    }
    static_assert(SaysHowFast<P>, "sluice: this Sharing policy needs `double slowdown(const Occupancy&) const`, 1 if "
                                  "no engine is slowed");
    return true;
  }
};

static_assert(Sharing<OwnDevices> && Sharing<SideBySide> && Sharing<TakeTurns>);

} // namespace sluice
