// SPDX-License-Identifier: Apache-2.0
// ShortestRemainingFirst: the fewest tokens still to generate first. An oracle: it knows the output lengths.
#pragma once

#include "sluice/policy/admission/admission.hpp"
#include "sluice/policy/admission/batching.hpp"

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <vector>

namespace sluice {

/// Shortest remaining processing time first, preemptive: if the batch is full, the running request with the most tokens
/// left gives its place to a request with fewer left (OrbitFlow, section 5.4, "SRTF"). Ties by arrival. Preempted
/// requests compete by the same measure. If newcomers are required claims, they come before preempted requests, as with
/// every admission.
///
/// The queue is an ordered set: arrivals and departures cost O(log n), and a step reads only its head.
template <Batching B = Batching::chunked, Newcomers N = Newcomers::optional>
struct BasicShortestRemainingFirst {
  static_assert(N != Newcomers::optional_first, "sluice: this policy ranks preempted requests and newcomers together: "
                                                "use Newcomers::optional or Newcomers::required");
  using role = roles::Admission;
  static constexpr bool steady = true;
  static constexpr bool knows_lengths = true;
  static constexpr Batching batching = B;

  /// By tokens to generate, then by arrival. Slots are reused, so they do not order arrivals.
  struct Entry {
    std::int64_t remaining = 0;
    RequestId id{};
    Slot slot{};
    friend auto operator<=>(const Entry&, const Entry&) = default;
  };
  struct State {
    std::set<Entry> queue;
    std::vector<Slot> staying;  ///< scratch
    std::vector<Entry> joining; ///< scratch: requests that could join in this step, the shortest first
  };

  void enter(State& state, Slot slot, const RequestRow& row) const { state.queue.insert(entry(slot, row)); }
  void leave(State& state, Slot slot, const RequestRow& row) const { state.queue.erase(entry(slot, row)); }

  void propose(const View& view, State& state, Proposal& proposal) const {
    state.staying.assign(view.running.begin(), view.running.end());
    list_joining(view, state);
    rotate_out(view, state, proposal);
    ClaimBuilder<B, N> claims(view, proposal);
    for (const Slot slot : state.staying) claims.keep(slot);
    if constexpr (N == Newcomers::required) {
      claims.join_in_order([&state](auto&& visit) {
        for (const Entry& next : state.joining)
          if (!visit(next.slot)) return;
      });
    } else {
      for (const Entry& next : state.joining)
        if (!claims.join(next.slot, false)) return;
    }
  }

  void settle(const View& view, std::span<Claim> accepted) const { ClaimBuilder<B, N>::settle(view, accepted); }

 private:
  static Tokens remaining(const RequestRow& row) { return row.remaining(LengthPermit<BasicShortestRemainingFirst>{}); }
  static Entry entry(Slot slot, const RequestRow& row) { return {remaining(row).count(), row.id, slot}; }

  static void list_joining(const View& view, State& state) {
    state.joining.clear();
    for (const Entry& next : state.queue) {
      if (state.joining.size() == static_cast<std::size_t>(view.limits.batch)) break;
      state.joining.push_back(next);
    }
    if constexpr (N == Newcomers::optional) {
      for (const Slot slot : view.preempted)
        if (view.row(slot).may_return) state.joining.push_back(entry(slot, view.row(slot)));
      std::sort(state.joining.begin(), state.joining.end());
    }
  }

  static void rotate_out(const View& view, State& state, Proposal& proposal) {
    std::size_t places = static_cast<std::size_t>(view.limits.batch);
    for (const Entry& next : state.joining) {
      if (state.staying.size() < places) { // a free place: no running request has to leave for this one
        --places;
        continue;
      }
      const auto longest = std::max_element(state.staying.begin(), state.staying.end(), [&view](Slot a, Slot b) {
        return remaining(view.row(a)) < remaining(view.row(b));
      });
      if (longest == state.staying.end() || remaining(view.row(*longest)).count() <= next.remaining) return;
      proposal.leaving.push_back(*longest);
      state.staying.erase(longest);
      if (places > 0) --places;
    }
  }
};

using ShortestRemainingFirst = BasicShortestRemainingFirst<>;

static_assert(Admission<ShortestRemainingFirst>);

} // namespace sluice
