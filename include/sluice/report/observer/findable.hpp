// SPDX-License-Identifier: Apache-2.0
// Findable: the observer that knows what a run's requests could have found at most, whatever the system kept.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/report/observer/observer.hpp"
#include "sluice/state/memory/belady.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace sluice {

/// Belady's optimum for a run's own requests: each looks up its prompt when it first joins the batch, and has its
/// blocks until it ends. A driver tells it the blocks (`State::submitted`), which no event names.
struct Findable {
  using role = roles::Observer;
  using hears = Events<events::Refused, events::Preempted, events::Ended>;
  static constexpr bool wants_timeline = false;

  struct Use {
    std::vector<BlockKey> keys; ///< those that have KV when it ends
    std::size_t looked_up = 0;
    Tokens prompt{0};
    /// Unknown until it has been preempted or has ended: it may have its blocks from its arrival on.
    Lifetime life{Seconds{0}, Seconds{std::numeric_limits<double>::infinity()}};
    bool joined = false, served = false;
  };
  struct State {
    std::vector<Use> uses; ///< by id

    /// The engine has taken a request. `keys`: of its prompt's blocks, and of its answer's as far as they are known.
    void submitted(RequestId id, const RequestSpec& spec, std::span<const BlockKey> keys, Tokens block_tokens);
    /// The largest share of the served requests' prompt tokens that a system with memory for `capacity` blocks, on the
    /// device and in all tiers, could find; NaN if none was served. Comparable with `Metrics::found_share`.
    [[nodiscard]] double share(TokenBlocks capacity, Tokens block_tokens) const;
  };

  void on(State& state, const events::Refused& event) const;
  void on(State& state, const events::Preempted& event) const { joined(state, event.row); }
  void on(State& state, const events::Ended& event) const;

 private:
  static Use& joined(State& state, const RequestRow& row);
};

static_assert(explain<Findable>());

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/report/observer/findable.inl.hpp"
#endif
