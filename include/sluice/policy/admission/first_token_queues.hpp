// SPDX-License-Identifier: Apache-2.0
// FirstTokenQueues: waiting requests, those whose first token can be in time apart from those that are late.
#pragma once

#include "sluice/policy/admission/queue_entry.hpp"
#include "sluice/state/view/proposal.hpp"
#include "sluice/state/view/slack.hpp"
#include "sluice/state/view/view.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <set>
#include <vector>

namespace sluice {

/// A part of admission policies: the waiting requests in the orders that a policy of first tokens needs. A request is
/// in time until its TTFT SLO has passed, and late from then on. `enter` and `leave` have the meaning of the role's
/// hooks; each call costs O(log n).
class FirstTokenQueues {
 public:
  std::set<QueueEntry> due;   ///< requests in time, by the deadline of their first token
  std::set<QueueEntry> fresh; ///< the same requests, by size
  std::set<QueueEntry> late;  ///< the others, by size
  std::set<QueueEntry> waits; ///< the same as `late`, by arrival
  int passed = 0;             ///< requests that have left since the oldest late one did

  /// `tokens`: the request's size. It is kept until the request leaves, because a prediction may change.
  void enter(Slot slot, const RequestRow& row, double tokens) {
    if (index(slot) >= tokens_.size()) tokens_.resize(index(slot) + 1);
    tokens_[index(slot)] = tokens;
    due.insert(QueueEntry::by_deadline(row, slot));
    fresh.insert(by_size(slot, row));
  }
  void leave(Slot slot, const RequestRow& row) {
    passed = oldest() == slot ? 0 : passed + 1;
    due.erase(QueueEntry::by_deadline(row, slot));
    waits.erase(QueueEntry::by_arrival(row, slot));
    if (fresh.erase(by_size(slot, row)) == 0) late.erase(by_size(slot, row));
  }
  /// Moves those whose deadline has passed to the late ones.
  void find_late(const View& view) {
    while (!due.empty() && due.begin()->key < view.now.count()) {
      const Slot slot = due.begin()->slot;
      const RequestRow& row = view.row(slot);
      due.erase(due.begin());
      fresh.erase(by_size(slot, row));
      late.insert(by_size(slot, row));
      waits.insert(QueueEntry::by_arrival(row, slot));
    }
  }
  /// Visits `first`, unless it is nobody, then those in time of at most `most` tokens, the late ones, and the others in
  /// time, each the smallest first, until `visit` returns false. `between()` is called before the late ones; false ends
  /// the visit, too.
  template <class Visit, class Between>
  void visit_by_size(Slot first, double most, Visit&& visit, Between&& between) const {
    if (first != nobody && !visit(first)) return;
    const auto visited = [&](const QueueEntry& next) { return next.slot == first || visit(next.slot); };
    const auto behind = fresh.upper_bound({most, RequestId{0xffffffffu}, nobody});
    if (std::all_of(fresh.begin(), behind, visited) && between() && std::all_of(late.begin(), late.end(), visited))
      std::all_of(behind, fresh.end(), visited);
  }
  struct Next {
    Slot urgent = nobody, smallest = nobody;
  };
  /// Of the requests in time that `accept` takes, the one with the first deadline and the smallest; or nobody.
  template <class Accept>
  [[nodiscard]] Next next(Accept&& accept) const {
    const auto first = [&](const std::set<QueueEntry>& queue) {
      const auto at = std::find_if(queue.begin(), queue.end(), [&](const QueueEntry& one) { return accept(one.slot); });
      return at == queue.end() ? nobody : at->slot;
    };
    return {first(due), first(fresh)};
  }
  /// The same of those of at most `most` tokens, if a prompt token takes `token_s`. Not a request that waits for a
  /// tier's blocks, has no TTFT SLO, or whose prompt takes longer than the time it has left.
  [[nodiscard]] Next next_in_time(const View& view, double token_s,
                                  double most = std::numeric_limits<double>::infinity()) const {
    return next([&](Slot slot) {
      const double slack = first_token_slack_s(view.row(slot), view.now, token_s);
      return tokens_[index(slot)] <= most && !view.row(slot).waits && slack >= 0 && !std::isinf(slack);
    });
  }
  /// The late request that has waited for longest, or nobody.
  [[nodiscard]] Slot oldest() const { return waits.empty() ? nobody : waits.begin()->slot; }
  /// The request in time with the last deadline, or nobody. Requests without one come after all others.
  [[nodiscard]] Slot last_due() const {
    const auto after = due.lower_bound({std::numeric_limits<double>::infinity(), {}, {}});
    return after == due.begin() ? nobody : std::prev(after)->slot;
  }

 private:
  [[nodiscard]] QueueEntry by_size(Slot slot, const RequestRow& row) const {
    return {tokens_[index(slot)], row.id, slot};
  }

  std::vector<double> tokens_; ///< by slot
};

} // namespace sluice
