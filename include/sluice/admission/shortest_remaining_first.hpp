// SPDX-License-Identifier: Apache-2.0
// ShortestRemainingFirst: the fewest tokens still to generate first. An oracle: it knows the output lengths.
#pragma once

#include "sluice/admission/admission.hpp"
#include "sluice/admission/batching.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace sluice {

/// Shortest remaining processing time first, preemptive: where the batch is full, the running request with the most
/// left gives its place to a waiting one that has less in all (OrbitFlow, section 5.4, "SRTF"). Ties by arrival.
///
/// The queue is an ordered set, so that arrivals and departures cost O(log n) and a step looks only at its head.
template <Batching B = Batching::chunked, Newcomers N = Newcomers::may>
struct BasicShortestRemainingFirst {
  using role = roles::Admission;
  static constexpr bool steady = true;

  struct State {
    std::set<std::pair<std::int64_t, Slot>> queue; ///< (tokens to generate, slot)
    std::vector<Slot> staying;                     ///< scratch
  };

  void enter(State& state, Slot slot, const RequestRow& row) const { state.queue.insert(key(slot, row)); }
  void leave(State& state, Slot slot, const RequestRow& row) const { state.queue.erase(key(slot, row)); }

  void propose(const View& view, State& state, Proposal& proposal) const {
    state.staying.assign(view.running.begin(), view.running.end());
    rotate_out(view, state, proposal);
    ClaimBuilder<B, N> claims(view, proposal);
    for (const Slot slot : state.staying) claims.keep(slot);
    claims.join_in_order([&state](auto&& visit) {
      for (const auto& [remaining, slot] : state.queue)
        if (!visit(slot)) return;
    });
  }

  void settle(const View& view, std::span<Claim> accepted) const { ClaimBuilder<B, N>::settle(view, accepted); }

 private:
  static std::pair<std::int64_t, Slot> key(Slot slot, const RequestRow& row) { return {row.remaining().count(), slot}; }

  static void rotate_out(const View& view, State& state, Proposal& proposal) {
    std::size_t places = static_cast<std::size_t>(view.limits.batch);
    for (const auto& [remaining, slot] : state.queue) {
      if (state.staying.size() < places) { // a free place: nobody has to go for this one
        --places;
        continue;
      }
      const auto longest = std::max_element(state.staying.begin(), state.staying.end(), [&view](Slot a, Slot b) {
        return view.row(a).remaining() < view.row(b).remaining();
      });
      if (longest == state.staying.end() || view.row(*longest).remaining().count() <= remaining) return;
      proposal.leaving.push_back(*longest);
      state.staying.erase(longest);
      if (places > 0) --places;
    }
  }
};

using ShortestRemainingFirst = BasicShortestRemainingFirst<>;

static_assert(Admission<ShortestRemainingFirst>);

} // namespace sluice
