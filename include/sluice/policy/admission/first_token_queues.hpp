// SPDX-License-Identifier: Apache-2.0
// FirstTokenQueues: waiting requests, those whose first token can be in time apart from those that are late.
#pragma once

#include "sluice/state/view/proposal.hpp"
#include "sluice/state/view/view.hpp"

#include <compare>
#include <iterator>
#include <limits>
#include <set>

namespace sluice {

/// A part of admission policies: the waiting requests in the orders that a policy of first tokens needs. A request is
/// in time until its TTFT SLO has passed, and late from then on. `enter` and `leave` have the meaning of the role's
/// hooks; each call costs O(log n).
struct FirstTokenQueues {
  struct Entry {
    double key = 0;
    RequestId id{};
    Slot slot{};
    friend auto operator<=>(const Entry&, const Entry&) = default;
  };
  std::set<Entry> due;   ///< requests in time, by the deadline of their first token
  std::set<Entry> fresh; ///< the same requests, by size
  std::set<Entry> late;  ///< the others, by size
  std::set<Entry> waits; ///< the same as `late`, by arrival
  int passed = 0;        ///< requests that have left since the oldest late one did

  void enter(Slot slot, const RequestRow& row) {
    due.insert(by_deadline(slot, row));
    fresh.insert(by_size(slot, row));
  }
  void leave(Slot slot, const RequestRow& row) {
    passed = oldest() == slot ? 0 : passed + 1;
    due.erase(by_deadline(slot, row));
    waits.erase(by_arrival(slot, row));
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
      waits.insert(by_arrival(slot, row));
    }
  }
  /// Visits `first`, unless it is nobody, then those in time and then the late ones, the smallest first, until `visit`
  /// returns false.
  template <class Visit>
  void visit_by_size(Slot first, Visit&& visit) const {
    if (first != nobody && !visit(first)) return;
    for (const std::set<Entry>* queue : {&fresh, &late})
      for (const Entry& next : *queue)
        if (next.slot != first && !visit(next.slot)) return;
  }
  /// The late request that has waited for longest, or nobody.
  [[nodiscard]] Slot oldest() const { return waits.empty() ? nobody : waits.begin()->slot; }
  /// The request in time with the last deadline, or nobody. Requests without one come after all others.
  [[nodiscard]] Slot last_due() const {
    const auto after = due.lower_bound({std::numeric_limits<double>::infinity(), {}, {}});
    return after == due.begin() ? nobody : std::prev(after)->slot;
  }

 private:
  static Entry by_size(Slot slot, const RequestRow& row) {
    return {static_cast<double>(row.context().count()), row.id, slot};
  }
  static Entry by_deadline(Slot slot, const RequestRow& row) {
    return {(row.spec.arrival + row.spec.slo.ttft).count(), row.id, slot};
  }
  static Entry by_arrival(Slot slot, const RequestRow& row) { return {row.spec.arrival.count(), row.id, slot}; }
};

} // namespace sluice
