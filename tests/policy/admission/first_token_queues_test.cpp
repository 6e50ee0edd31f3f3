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
    int passed = 0;
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
        queues.leave(*gone, made.rows[index(*gone)]);
        CHECK(queues.passed == passed);
        waiting.erase(gone);
      }
      queues.find_late(made.view());

      const auto due = [&](Slot slot) {
        return (made.rows[index(slot)].spec.arrival + made.rows[index(slot)].spec.slo.ttft).count();
      };
      Slot oldest = nobody, last = nobody;
      std::vector<std::tuple<bool, std::int64_t, std::uint32_t>> expected; // late, size, slot
      for (const Slot slot : waiting) {
        const bool late = due(slot) < made.now.count();
        expected.emplace_back(late, made.rows[index(slot)].context().count(), index(slot));
        if (late && (oldest == nobody || made.rows[index(slot)].spec.arrival < made.rows[index(oldest)].spec.arrival))
          oldest = slot;
        if (!late && !std::isinf(due(slot)) && (last == nobody || due(slot) > due(last))) last = slot;
        late_ones += late;
      }
      std::sort(expected.begin(), expected.end());
      CHECK(queues.oldest() == oldest);
      CHECK(queues.last_due() == last);
      const Slot first = random.below(2) == 0 ? oldest : nobody;
      turns += first != nobody;
      // Those in time come first, up to some size; at `nobody` they have been visited. The larger ones come last.
      const std::int64_t large = random.below(2) == 0 ? 1000 : between(random, 1, 20);
      std::vector<Slot> visited, by_hand;
      if (first != nobody) by_hand.push_back(first);
      const auto add = [&](bool is_late, bool is_large) {
        for (const auto& [late, size, slot] : expected)
          if (Slot{slot} != first && late == is_late && (!late && size > large) == is_large)
            by_hand.push_back(Slot{slot});
      };
      add(false, false);
      by_hand.push_back(nobody);
      add(true, false);
      add(false, true);
      const std::size_t most = random.below(2) == 0 ? 3 : 1000;
      by_hand.resize(std::min(most, by_hand.size()));
      const auto visit = [&](Slot slot) {
        visited.push_back(slot);
        return visited.size() < most;
      };
      queues.visit_by_size(first, static_cast<double>(large), visit, [&] { return visit(nobody); });
      CHECK(visited == by_hand);
    }
  }
  CHECK(late_ones > 1000);
  CHECK(turns > 100);
}
