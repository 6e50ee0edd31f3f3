// SPDX-License-Identifier: Apache-2.0
// Fcfs: first come, first served (the default).
#pragma once

#include "sluice/policy/admission/admission.hpp"
#include "sluice/policy/admission/batching.hpp"

#include <algorithm>
#include <deque>
#include <span>

namespace sluice {

/// Running requests stay; then preempted requests join, then waiting ones, by arrival. Strict order: if one request
/// finds no place, no later one is tried. A step reads no more of the queue than could join.
template <Batching B = Batching::chunked, Newcomers N = Newcomers::optional>
struct BasicFcfs {
  using role = roles::Admission;
  static constexpr bool steady = true;
  static constexpr bool knows_lengths = false;
  static constexpr Batching batching = B;

  struct State {
    std::deque<Slot> queue;
  };

  void enter(State& state, Slot slot, const RequestRow& /*row*/) const { state.queue.push_back(slot); }

  void leave(State& state, Slot slot, const RequestRow& /*row*/) const {
    if (!state.queue.empty() && state.queue.front() == slot) {
      state.queue.pop_front(); // the rule: requests leave the queue in order
      return;
    }
    const auto found = std::find(state.queue.begin(), state.queue.end(), slot);
    if (found != state.queue.end()) state.queue.erase(found);
  }

  void propose(const View& view, State& state, Proposal& proposal) const {
    ClaimBuilder<B, N> claims(view, proposal);
    for (const Slot slot : view.running) claims.keep(slot);
    claims.join_in_order([&state](auto&& visit) {
      for (const Slot slot : state.queue)
        if (!visit(slot)) return;
    });
  }

  void settle(const View& view, std::span<Claim> accepted) const { ClaimBuilder<B, N>::settle(view, accepted); }
};

using Fcfs = BasicFcfs<>;
using FcfsPrefillFirst = BasicFcfs<Batching::prefill_first>;

static_assert(Admission<Fcfs>);

template <>
struct Default<roles::Admission> {
  using type = Fcfs;
};

} // namespace sluice
