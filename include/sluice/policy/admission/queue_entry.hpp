// SPDX-License-Identifier: Apache-2.0
// QueueEntry: a waiting request's place in an ordered queue.
#pragma once

#include "sluice/state/view/slack.hpp"

#include <compare>

namespace sluice {

/// By `key`, the least first; at equal keys by arrival, which ids follow. (Slots are reused, so they order nothing.)
struct QueueEntry {
  double key = 0;
  RequestId id{};
  Slot slot{};
  friend auto operator<=>(const QueueEntry&, const QueueEntry&) = default;

  /// By the deadline of the first token.
  [[nodiscard]] static QueueEntry by_deadline(const RequestRow& row, Slot slot) {
    return {first_due(row).count(), row.id, slot};
  }
  [[nodiscard]] static QueueEntry by_arrival(const RequestRow& row, Slot slot) {
    return {row.spec.arrival.count(), row.id, slot};
  }
};

} // namespace sluice
