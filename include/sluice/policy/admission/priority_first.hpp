// SPDX-License-Identifier: Apache-2.0
// PriorityFirst: requests join by the priority that their users set; whether running ones are preempted for them.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/policy/admission/admission.hpp"
#include "sluice/policy/admission/batching.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>
#include <span>
#include <vector>

namespace sluice {

/// vLLM's scheduling policy "priority" (vllm/v1/core/sched, `--scheduling-policy`): running requests stay; preempted
/// and waiting requests join in one order, the lowest `RequestSpec::priority` first, at equal priority by arrival. Use
/// it with PreemptLeastUrgent, which preempts by the same order when memory is short.
///
/// With `Preempts`, a request also joins at the cost of running requests whose number is larger than its own. If the
/// batch is full, the one with the largest number leaves, the newest of these first, one in an iteration. If memory is
/// short, Relief chooses. A preempted request comes later in the order than all that run, so no two requests take
/// turns. A request may lose its memory to one that does not fit yet, and then waits behind it: the order is strict.
template <bool Preempts>
struct BasicPriorityFirst {
  using role = roles::Admission;
  static constexpr bool steady = true;
  static constexpr bool knows_lengths = false;
  static constexpr bool heeds_priority = true;
  static constexpr Batching batching = Batching::chunked;

  struct State {
    std::set<QueueEntry> queue;        ///< the waiting requests
    std::vector<QueueEntry> preempted; ///< scratch: those that may return, in the same order
  };

  void enter(State& state, Slot slot, const RequestRow& row) const { state.queue.insert(entry(row, slot)); }
  void leave(State& state, Slot slot, const RequestRow& row) const { state.queue.erase(entry(row, slot)); }

  void propose(const View& view, State& state, Proposal& proposal) const {
    state.preempted.clear();
    for (const Slot slot : view.preempted)
      if (view.row(slot).may_return) state.preempted.push_back(entry(view.row(slot), slot));
    std::sort(state.preempted.begin(), state.preempted.end());
    Builder claims(view, proposal);
    const Slot last = Preempts ? leaving(view, state) : nobody;
    std::int64_t largest = std::numeric_limits<std::int64_t>::min(); // number of a request that keeps its place
    const auto keep = [&](Slot slot) {
      claims.keep(slot);
      largest = std::max<std::int64_t>(largest, view.row(slot).spec.priority);
    };
    for (const Slot slot : view.running)
      if (slot != last) keep(slot);
    if (last != nobody && claims.full()) // no token is left for the one that would come
      keep(last);
    else if (last != nobody)
      proposal.leaving.push_back(last);
    visit_in_order(state,
                   [&](Slot slot) { return claims.join(slot, Preempts && view.row(slot).spec.priority < largest); });
  }

  void settle(const View& view, std::span<Claim> accepted) const { Builder::settle(view, accepted); }

 private:
  using Builder = ClaimBuilder<batching, Newcomers::optional>;

  static QueueEntry entry(const RequestRow& row, Slot slot) {
    return {static_cast<double>(row.spec.priority), row.id, slot};
  }

  /// Preempted and waiting requests, until `visit(Slot)` returns false. It reads no more of the queue than could join.
  template <class Visit>
  static void visit_in_order(const State& state, Visit&& visit) {
    auto waits = state.queue.begin();
    auto returns = state.preempted.begin();
    while (waits != state.queue.end() || returns != state.preempted.end()) {
      const bool back = waits == state.queue.end() || (returns != state.preempted.end() && *returns < *waits);
      if (!visit(back ? (returns++)->slot : (waits++)->slot)) return;
    }
  }

  /// The running request whose place in a full batch the first in the order takes; nobody if it takes none.
  static Slot leaving(const View& view, const State& state) {
    if (static_cast<int>(view.running.size()) < view.limits.batch) return nobody;
    Slot first = nobody;
    visit_in_order(state, [&](Slot slot) {
      if (!view.row(slot).waits) first = slot; // for a tier's blocks: a place would not help it yet
      return first == nobody;
    });
    if (first == nobody) return nobody;
    const auto last = std::max_element(view.running.begin(), view.running.end(),
                                       [&](Slot a, Slot b) { return entry(view.row(a), a) < entry(view.row(b), b); });
    return view.row(first).spec.priority < view.row(*last).spec.priority ? *last : nobody;
  }
};

using PriorityFirst = BasicPriorityFirst<false>;
using PriorityPreempts = BasicPriorityFirst<true>;

static_assert(Admission<PriorityFirst> && Admission<PriorityPreempts>);

} // namespace sluice
