// SPDX-License-Identifier: Apache-2.0
// PendingQueue: the same sum and the same late requests as a look at each request.
#include "sluice/policy/admission/hybrid_choice.hpp"

#include "support/hand_made.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <tuple>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

TEST_CASE("a queue that changes all the time knows its late requests and its pending time") {
  Random random(101);
  HandMade made;
  PendingQueue queue;
  std::vector<Slot> waiting;
  int late_ones = 0, left_late = 0;
  for (int i = 0; i < 3000; ++i) {
    CAPTURE(i);
    made.now += Seconds{random.uniform()};
    if (random.below(2) == 0) {
      const Slot slot = made.add(Tokens{1}, Tokens{10}, Tokens{0}, Tokens{0}, Phase::waiting);
      RequestRow& row = made.rows[index(slot)];
      row.spec.arrival = made.now - Seconds{random.uniform()};
      row.spec.slo.ttft = Seconds{1.0 + static_cast<double>(random.below(20))};
      queue.enter(slot, row);
      waiting.push_back(slot);
    } else if (!waiting.empty()) {
      const std::size_t at = random.below(waiting.size());
      const RequestRow& row = made.rows[index(waiting[at])];
      left_late += is_late(made.view(), row);
      queue.leave(waiting[at], row);
      waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(at));
    }
    const View view = made.view();
    queue.pass(view);
    double sum_s = 0;
    std::vector<std::tuple<double, RequestId, Slot>> in_time, late;
    for (const Slot slot : waiting) {
      const RequestRow& row = view.row(slot);
      sum_s += pending_s(view, row);
      const double arrival = row.spec.arrival.count(), due = arrival + row.spec.slo.ttft.count();
      if (is_late(view, row))
        late.emplace_back(arrival, row.id, slot);
      else
        in_time.emplace_back(due, row.id, slot);
    }
    std::sort(in_time.begin(), in_time.end());
    std::sort(late.begin(), late.end());
    const auto same = [](const std::set<QueueEntry>& a, const auto& b) {
      return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const QueueEntry& entry, const auto& one) {
        return std::tuple(entry.key, entry.id, entry.slot) == one;
      });
    };
    CHECK(same(queue.in_time(), in_time));
    CHECK(same(queue.late(), late));
    CHECK(queue.size() == waiting.size());
    CHECK(queue.pending_sum_s(view.now) == doctest::Approx(sum_s).epsilon(1e-9));
    late_ones += static_cast<int>(late.size());
  }
  CHECK(late_ones > 1000);
  CHECK(left_late > 100);
}
