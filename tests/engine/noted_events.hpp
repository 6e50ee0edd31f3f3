// SPDX-License-Identifier: Apache-2.0
// Notes: an observer that records every event, to compare two runs of one trial event by event.
#pragma once

#include "sluice/report/observer/observer.hpp"

#include "engine/trials.hpp"
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::testing {

/// Every event, in order, exact to the bit.
struct Happened {
  char what = ' ';
  std::uint32_t id = 0;
  double when = 0;
  std::int64_t count = 0;
  friend bool operator==(const Happened&, const Happened&) = default;
};

/// Records every event.
struct Notes {
  using role = roles::Observer;
  using hears = Events<events::Submitted, events::Refused, events::Preempted, events::Resumed, events::Ended,
                       events::Cancelled, events::Delivered, events::Planned, events::Iterated>;
  static constexpr bool wants_timeline = false;
  struct State {};

  std::vector<Happened>* into = nullptr;

  void note(char what, RequestId id, Seconds when, std::int64_t count = 0) const {
    into->push_back({what, index(id), when.count(), count});
  }
  void on(State&, const events::Submitted& event) const { note('s', event.row.id, event.row.spec.arrival); }
  void on(State&, const events::Refused& event) const { note('r', event.id, event.now); }
  void on(State&, const events::Preempted& event) const {
    note('p', event.row.id, event.now, static_cast<std::int64_t>(event.kept));
  }
  void on(State&, const events::Resumed& event) const { note('R', event.row.id, event.now); }
  void on(State&, const events::Ended& event) const { note('e', event.row.id, event.now); }
  void on(State&, const events::Cancelled& event) const { note('c', event.row.id, event.now); }
  void on(State&, const events::Delivered& event) const { note('d', event.row.id, event.when, event.count.count()); }
  void on(State&, const events::Planned& event) const {
    note('P', RequestId{0}, event.view.now, static_cast<std::int64_t>(event.plan.requests.size()));
    note('v', RequestId{0}, event.virtual_time, event.plan.effort);
  }
  void on(State&, const events::Iterated& event) const {
    const IterationRecord& record = event.record;
    note('i', RequestId{static_cast<std::uint32_t>(record.step)}, record.start, record.tokens.count());
    note('I', RequestId{static_cast<std::uint32_t>(record.running)}, record.duration, record.to_device.count());
  }
};

} // namespace sluice::testing
