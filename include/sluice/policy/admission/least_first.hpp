// SPDX-License-Identifier: Apache-2.0
// LeastFirst: waiting requests join by a key, the least first; no running request is preempted for them.
#pragma once

#include "sluice/core/interrupt.hpp"
#include "sluice/core/math.hpp"
#include "sluice/core/units.hpp"
#include "sluice/policy/admission/admission.hpp"
#include "sluice/policy/admission/batching.hpp"

#include <set>
#include <span>
#include <string>
#include <vector>

namespace sluice {

/// Not preemptive: running requests stay; then preempted ones return; then waiting ones join by their `Key`, ties by
/// arrival. The queue is an ordered set: a step reads no more of it than could join.
///
/// A key has a `State`, a `double operator()(State&, const RequestRow&) const`, which is called once when the request
/// arrives, and `knows_lengths` as in Admission. A key that is not a number ends the run.
template <class Key, Batching B = Batching::chunked>
struct BasicLeastFirst {
  using role = roles::Admission;
  static constexpr bool steady = true;
  static constexpr bool knows_lengths = Key::knows_lengths;
  static constexpr Batching batching = B;

  Key key{};

  struct State {
    typename Key::State keys;
    std::set<QueueEntry> queue;
    std::vector<QueueEntry> entries; ///< by slot: each key is computed once
  };

  void enter(State& state, Slot slot, const RequestRow& row) const {
    const QueueEntry entry{key(state.keys, row), row.id, slot};
    // Its place in the queue would be undefined, and others' too: requests would get lost.
    if (math::isnan(entry.key))
      policy_mistake("the key of request " + std::to_string(index(row.id)) + " is not a number");
    if (index(slot) >= state.entries.size()) state.entries.resize(index(slot) + 1);
    state.entries[index(slot)] = entry;
    state.queue.insert(entry);
  }
  void leave(State& state, Slot slot, const RequestRow& /*row*/) const {
    state.queue.erase(state.entries[index(slot)]);
  }

  void propose(const View& view, State& state, Proposal& proposal) const {
    ClaimBuilder<B, Newcomers::optional> claims(view, proposal);
    for (const Slot slot : view.running) claims.keep(slot);
    claims.join_in_order([&state](auto&& visit) {
      for (const QueueEntry& next : state.queue)
        if (!visit(next.slot)) return;
    });
  }

  void settle(const View& view, std::span<Claim> accepted) const {
    ClaimBuilder<B, Newcomers::optional>::settle(view, accepted);
  }
};

} // namespace sluice
