// SPDX-License-Identifier: Apache-2.0
// SkipJoinMlfq: a multi-level feedback queue whose newcomers skip levels by the time of their prompt (FastServe).
#pragma once

#include "sluice/core/numbers.hpp"
#include "sluice/policy/admission/admission.hpp"
#include "sluice/policy/admission/batching.hpp"
#include "sluice/policy/admission/feedback_queue.hpp"
#include "sluice/policy/admission/request_costs.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

/// FastServe's scheduler (Wu et al., arXiv 2305.05920, section 4.1). Output lengths are unknown, so requests that have
/// run for long count as long:
///
///  - Levels, quanta, and what happens to a request that starves: FeedbackQueue.
///  - *Skip-join*: a newcomer starts at the first level whose quantum its prompt's time does not exceed. In a plain
///    feedback queue a long prompt would be demoted before its first token.
///  - Requests run in the queue's order, as many as batch and device memory hold. Running requests that are not among
///    them leave.
///  - Of those that have run and are not among them, the ones that NextScheduled expects first are swapped in first and
///    out last (section 4.2).
struct SkipJoinMlfq {
  using role = roles::Admission;
  static constexpr bool steady = false; // quanta end with time
  static constexpr bool knows_lengths = false;
  static constexpr Batching batching = Batching::chunked;

  FeedbackQueue queue{};
  static constexpr auto numbers =
      Numbers{"SkipJoinMlfq",
              Number{"quantum", member_of(&SkipJoinMlfq::queue, &FeedbackQueue::quantum), 1e-6, 1e6,
                     "seconds of the first level"},
              Number{"ratio", member_of(&SkipJoinMlfq::queue, &FeedbackQueue::ratio), 1, 100,
                     "of a level's quantum to that of the level before"},
              Number{"levels", member_of(&SkipJoinMlfq::queue, &FeedbackQueue::levels), 1, 64, "levels of the queue"},
              Number{"starvation", member_of(&SkipJoinMlfq::queue, &FeedbackQueue::starvation), 1e-6, 1e9,
                     "seconds without running after which a request goes to the first level"}};

  struct State {
    FeedbackQueue::State queue;
    std::vector<Slot> fresh;                 ///< newcomers without a level
    std::vector<FeedbackQueue::Entry> order; ///< scratch: the requests that could run, by level
  };

  void enter(State& state, Slot slot, const RequestRow& row) const {
    FeedbackQueue::enter(state.queue, slot, row);
    state.fresh.push_back(slot);
  }
  void leave(State& state, Slot slot, const RequestRow& /*row*/) const {
    std::erase(state.fresh, slot);
    FeedbackQueue::leave(state.queue, slot);
  }

  void propose(const View& view, State& state, Proposal& proposal, const Estimate& estimate) const {
    for (const Slot slot : state.fresh) queue.start(state.queue, slot, prompt_time(estimate, view.row(slot)));
    state.fresh.clear();
    queue.charge(view, state.queue);
    list(view, state);
    choose(view, state);
    ClaimBuilder<batching, Newcomers::optional> claims(view, proposal);
    const auto chosen = [&](Slot slot) {
      return std::any_of(state.order.begin(), state.order.end(), [slot](const auto& one) { return one.slot == slot; });
    };
    for (const Slot slot : view.running) {
      if (chosen(slot))
        claims.keep(slot);
      else
        proposal.leaving.push_back(slot);
    }
    for (const FeedbackQueue::Entry& next : state.order)
      if (view.row(next.slot).phase != Phase::running && !claims.join(next.slot, false)) break;
    expect_next(queue, state.queue, view, proposal);
  }
  void settle(const View& /*view*/, std::span<Claim> /*accepted*/) const {}

 private:
  /// All running requests, those that may return, and as many waiting ones as a batch holds, in their order.
  static void list(const View& view, State& state) {
    state.order.clear();
    for (const Slot slot : view.running) state.order.push_back(state.queue.at(slot));
    for (const Slot slot : view.preempted)
      if (view.row(slot).may_return) state.order.push_back(state.queue.at(slot));
    int places = view.limits.batch;
    for (auto next = state.queue.waiting.begin(); next != state.queue.waiting.end() && places > 0; ++next, --places)
      state.order.push_back(*next);
    std::sort(state.order.begin(), state.order.end());
  }

  /// Keeps the first ones that batch and device memory hold together; the first one always.
  static void choose(const View& view, State& state) {
    std::int64_t left = view.ledger->device().capacity().count();
    std::size_t count = 0;
    for (; count < state.order.size() && static_cast<int>(count) < view.limits.batch; ++count) {
      left -= resident_room(view, view.row(state.order[count].slot));
      if (left < 0 && count > 0) break;
    }
    state.order.resize(count);
  }
};

static_assert(explain<SkipJoinMlfq>());

} // namespace sluice
