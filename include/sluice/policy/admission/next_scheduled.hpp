// SPDX-License-Identifier: Apache-2.0
// NextScheduled: the estimated time until a request of a feedback queue runs again, by which its KV is swapped.
#pragma once

#include "sluice/policy/admission/feedback_queue.hpp"
#include "sluice/state/view/proposal.hpp"
#include "sluice/state/view/view.hpp"

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

namespace sluice {

/// FastServe's estimated next scheduled time (arXiv 2305.05920v3, section 4.2). A request runs again when starvation
/// promotes it, or when the requests of higher levels have been demoted to its own level, whichever comes first:
///
///     ENST(i) = min(T_promote(i), T_execute(i))
///     T_execute(i) = 1/B * sum over j of a higher level than i, sum over levels k from j's to the one above i's: q_k
///
/// B requests run at once, and none is assumed to end before its demotion. KV of the request with the largest time is
/// offloaded first, that of the one with the least is uploaded first. Requests of one level that starvation does not
/// promote earlier have the same time; they keep the queue's order.
struct NextScheduled {
  /// Counts the requests of each level: all that have KV (`those`), and all that wait.
  NextScheduled(const FeedbackQueue& queue, const FeedbackQueue::State& state,
                std::span<const FeedbackQueue::Entry> those, int batch)
      : queue_(queue), state_(state), execute_(static_cast<std::size_t>(queue.levels), Seconds{0}) {
    std::vector<double> at(execute_.size(), 0.0);
    for (const FeedbackQueue::Entry& entry : those) at[static_cast<std::size_t>(entry.level)] += 1;
    for (const FeedbackQueue::Entry& entry : state.waiting) at[static_cast<std::size_t>(entry.level)] += 1;
    double higher = 0; // requests of levels above `level`: each runs that level's predecessor's quantum once more
    for (std::size_t level = 1; level < execute_.size(); ++level) {
      higher += at[level - 1];
      execute_[level] = execute_[level - 1] + queue.quantum_of(static_cast<int>(level) - 1) * (higher / batch);
    }
  }

  /// Until the request is promoted; 0 on the first level, and for one that starves already.
  [[nodiscard]] Seconds promote(Slot slot, Seconds now) const {
    const FeedbackQueue::Account& account = state_.accounts[index(slot)];
    if (account.at.level == 0) return Seconds{0};
    return std::max(Seconds{0}, queue_.starvation - (account.runs ? Seconds{0} : now - account.idle));
  }
  /// Until the requests of higher levels have come down to its level.
  [[nodiscard]] Seconds execute(Slot slot) const { return execute_[static_cast<std::size_t>(state_.at(slot).level)]; }
  /// Until it runs again.
  [[nodiscard]] Seconds operator()(Slot slot, Seconds now) const { return std::min(promote(slot, now), execute(slot)); }

  /// Writes the slots of `those` to `order`, the soonest first.
  void sort(std::span<const FeedbackQueue::Entry> those, Seconds now, std::vector<Slot>& order) const {
    std::vector<std::pair<Seconds, FeedbackQueue::Entry>> keys;
    for (const FeedbackQueue::Entry& entry : those) keys.emplace_back((*this)(entry.slot, now), entry);
    std::sort(keys.begin(), keys.end());
    order.clear();
    for (const auto& [until, entry] : keys) order.push_back(entry.slot);
  }

 private:
  const FeedbackQueue& queue_;
  const FeedbackQueue::State& state_;
  std::vector<Seconds> execute_; ///< by level
};

/// Names the requests that have run and have no claim, by when they are expected to run again (`Proposal::next`).
inline void expect_next(const FeedbackQueue& queue, const FeedbackQueue::State& state, const View& view,
                        Proposal& proposal) {
  if (proposal.leaving.empty() && view.preempted.empty()) return;
  std::vector<FeedbackQueue::Entry> begun;
  for (const auto& list : {view.running, view.preempted})
    for (const Slot slot : list) begun.push_back(state.at(slot));
  const NextScheduled next(queue, state, begun, view.limits.batch);
  std::vector<Slot> claimed;
  for (const Claim& claim : proposal.claims) claimed.push_back(claim.slot);
  std::sort(claimed.begin(), claimed.end());
  std::erase_if(begun, [&claimed](const FeedbackQueue::Entry& one) {
    return std::binary_search(claimed.begin(), claimed.end(), one.slot);
  });
  next.sort(begun, view.now, proposal.next);
}

} // namespace sluice
