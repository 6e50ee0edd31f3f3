// SPDX-License-Identifier: Apache-2.0
// FirstTokenQueues: against a sort of all waiting requests, while they come, go and become late.
#include "sluice/policy/admission/large_yields.hpp"

#include "support/hand_made.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

TEST_CASE("first-token queues name the oldest, the last due, and everybody by lateness and size") {
  Random random(21);
  int late_ones = 0, turns = 0;
  for (int round = 0; round < 200; ++round) {
    CAPTURE(round);
    HandMade made;
    FirstTokenQueues queues;
    std::vector<Slot> waiting;
    int passed = 0, passed_open = 0;
    for (int event = 0; event < 30; ++event) {
      made.now += Seconds{random.uniform()};
      if (waiting.empty() || random.below(3) > 0) {
        const Slot slot = made.add(Tokens{between(random, 1, 20)}, Tokens{5}, Tokens{0}, Tokens{0}, Phase::waiting);
        RequestRow& row = made.rows[index(slot)];
        row.spec.arrival = made.now;
        row.spec.slo.ttft =
            Seconds{random.below(4) == 0 ? std::numeric_limits<double>::infinity() : 5 * random.uniform()};
        queues.enter(slot, row, static_cast<double>(row.context().count()));
        waiting.push_back(slot);
      } else {
        const auto gone = waiting.begin() + between(random, 0, static_cast<std::int64_t>(waiting.size()) - 1);
        passed = *gone == queues.oldest() ? 0 : passed + 1;
        passed_open = std::isinf(made.rows[index(*gone)].spec.slo.ttft.count()) ? 0 : passed_open + 1;
        queues.leave(*gone, made.rows[index(*gone)]);
        CHECK(queues.passed == passed);
        CHECK(queues.passed_open == passed_open);
        waiting.erase(gone);
      }
      queues.find_late(made.view());

      enum Kind { in_time, is_open, is_late };
      const auto size = [&](Slot slot) { return static_cast<double>(made.rows[index(slot)].context().count()); };
      const auto due = [&](Slot slot) {
        return (made.rows[index(slot)].spec.arrival + made.rows[index(slot)].spec.slo.ttft).count();
      };
      Slot oldest = nobody, oldest_open = nobody, last = nobody;
      const auto before = [&](Slot slot, Slot other) {
        return other == nobody || made.rows[index(slot)].spec.arrival < made.rows[index(other)].spec.arrival;
      };
      std::vector<std::tuple<int, double, std::uint32_t>> expected; // in time, open or late; size or arrival; slot
      for (const Slot slot : waiting) {
        const bool late = due(slot) < made.now.count(), open = std::isinf(due(slot));
        expected.emplace_back(open   ? is_open
                              : late ? is_late
                                     : in_time,
                              open ? made.rows[index(slot)].spec.arrival.count() : size(slot), index(slot));
        if ((late || open) && before(slot, oldest)) oldest = slot;
        if (open && before(slot, oldest_open)) oldest_open = slot;
        if (!late && !open && (last == nobody || due(slot) > due(last))) last = slot;
        late_ones += late;
      }
      std::sort(expected.begin(), expected.end());
      CHECK(queues.oldest() == oldest);
      CHECK(queues.last_due() == last);
      CHECK(queues.next_in_turn(3, 2) == (passed >= 3 ? oldest : passed_open >= 1 ? oldest_open : nobody));
      const Slot first = random.below(2) == 0 ? oldest : nobody;
      turns += first != nobody;
      // Those in time come first, up to some size; at `nobody` they have been visited. The larger ones come last.
      const double large = random.below(2) == 0 ? 1000 : static_cast<double>(between(random, 1, 20));
      std::vector<Slot> visited, by_hand;
      if (first != nobody) by_hand.push_back(first);
      const auto add = [&](int wanted, bool is_large) {
        for (const auto& [kind, key, slot] : expected)
          if (Slot{slot} != first && kind == wanted && (kind != is_late && size(Slot{slot}) > large) == is_large)
            by_hand.push_back(Slot{slot});
      };
      add(in_time, false);
      by_hand.push_back(nobody);
      add(is_open, false);
      add(is_late, false);
      add(in_time, true);
      add(is_open, true);
      const std::size_t most = random.below(2) == 0 ? 3 : 1000;
      by_hand.resize(std::min(most, by_hand.size()));
      const auto visit = [&](Slot slot) {
        visited.push_back(slot);
        return visited.size() < most;
      };
      queues.visit_by_size(first, large, visit, [&] { return visit(nobody); });
      CHECK(visited == by_hand);
    }
  }
  CHECK(late_ones > 1000);
  CHECK(turns > 100);
}
