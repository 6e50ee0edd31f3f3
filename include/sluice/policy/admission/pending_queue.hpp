// SPDX-License-Identifier: Apache-2.0
// PendingQueue: waiting requests by the first token's deadline, the late ones by arrival, and how long all have waited.
#pragma once

#include "sluice/policy/admission/queue_entry.hpp"
#include "sluice/state/view/view.hpp"

#include <cstddef>
#include <set>

namespace sluice {

/// How long a request has waited for its next token: since its last one, or since its arrival, in seconds.
[[nodiscard]] inline double pending_s(const View& view, const RequestRow& row) {
  return (view.now - (row.generated.count() > 0 ? row.last_token : row.spec.arrival)).count();
}
/// Whether that is longer than its SLO.
[[nodiscard]] inline bool is_late(const View& view, const RequestRow& row) {
  const Slo& slo = row.spec.slo;
  return pending_s(view, row) > (row.generated.count() > 0 ? slo.tbt : slo.ttft).count();
}

/// A queue that a policy may ask for the sum of all pending times without a look at each request.
class PendingQueue {
 public:
  void enter(Slot slot, const RequestRow& row) {
    in_time_.insert(QueueEntry::by_deadline(row, slot));
    arrivals_s_ += row.spec.arrival.count();
  }
  void leave(Slot slot, const RequestRow& row) {
    if (in_time_.erase(QueueEntry::by_deadline(row, slot)) == 0) late_.erase(QueueEntry::by_arrival(row, slot));
    arrivals_s_ -= row.spec.arrival.count();
    if (in_time_.empty() && late_.empty()) arrivals_s_ = 0; // without what rounding left
  }
  /// Moves the requests whose deadline has passed to the late ones.
  void pass(const View& view) {
    while (!in_time_.empty() && in_time_.begin()->key < view.now.count()) {
      const Slot slot = in_time_.begin()->slot;
      in_time_.erase(in_time_.begin());
      late_.insert(QueueEntry::by_arrival(view.row(slot), slot));
    }
  }

  [[nodiscard]] const std::set<QueueEntry>& in_time() const { return in_time_; }
  [[nodiscard]] const std::set<QueueEntry>& late() const { return late_; }
  [[nodiscard]] std::size_t size() const { return in_time_.size() + late_.size(); }
  /// The sum of all pending times.
  [[nodiscard]] double pending_sum_s(Seconds now) const {
    return static_cast<double>(size()) * now.count() - arrivals_s_;
  }

 private:
  std::set<QueueEntry> in_time_, late_;
  double arrivals_s_ = 0; ///< the sum over both
};

} // namespace sluice
