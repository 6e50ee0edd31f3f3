// SPDX-License-Identifier: Apache-2.0
// Pressing: who presses and who pays, against the rules written out over all pairs; and no turns.
#include "sluice/policy/admission/pressing.hpp"
#include "sluice/state/view/proposal.hpp"

#include "support/hand_made.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace {

constexpr double ttft_s = 5, tbt_s = 0.25, token_s = 0.01;

/// Running and paused requests with tokens and TTFT SLOs of their own at any time, some of them late, and some that
/// were paused before.
HandMade any_requests(Random& random) {
  HandMade made;
  const auto started = [&](Slot slot) {
    RequestRow& row = made.rows[index(slot)];
    row.spec.arrival = Seconds{60 + 39 * random.uniform()};
    constexpr double ttfts_s[] = {2, ttft_s, 20};
    row.spec.slo = {.ttft = Seconds{ttfts_s[random.below(3)]}, .tbt = Seconds{tbt_s}};
    row.first_token = row.spec.arrival + Seconds{(100 - row.spec.arrival.count()) * 0.4 * random.uniform()};
    if (random.below(3) == 0) row.delivered = Tokens{between(random, 0, row.generated.count())};
    row.times_preempted = row.phase == Phase::preempted || random.below(3) == 0;
    row.running_since = Seconds{100 - 8 * random.uniform()};
  };
  for (std::int64_t i = between(random, 0, 4); i > 0; --i)
    started(made.decoding(Tokens{between(random, 1, 300)}, Tokens{between(random, 1, 300)}, Tokens{900}));
  for (std::int64_t i = between(random, 0, 3); i > 0; --i) { // with a newcomer no more than are tried
    const std::int64_t generated = random.below(4) == 0 ? 0 : between(random, 1, 200);
    const Slot slot =
        made.add(Tokens{between(random, 1, 300)}, Tokens{900}, Tokens{generated}, Tokens{generated}, Phase::preempted);
    started(slot);
    if (generated == 0) made.rows[index(slot)].spec.arrival = Seconds{100 - 12 * random.uniform()};
    made.rows[index(slot)].may_return = random.below(5) > 0;
    made.rows[index(slot)].waits = random.below(5) == 0;
    made.rows[index(slot)].preempted_since = Seconds{60 + 40 * random.uniform()};
    made.preempted.push_back(slot);
  }
  return made;
}
Slot waiting_one(HandMade& made, double ttft) {
  const Slot slot = made.add(Tokens{5}, Tokens{5}, Tokens{0}, Tokens{0}, Phase::waiting);
  made.rows[index(slot)].spec.slo = {.ttft = Seconds{ttft}, .tbt = Seconds{tbt_s}};
  return slot;
}

/// Seconds that a request's tokens are ahead of one TBT each since its first.
double ahead(const RequestRow& row) {
  return row.first_token.count() + static_cast<double>(row.generated.count()) * tbt_s - 100;
}
/// When a request that keeps its whole schedule needs its next token.
double due(const RequestRow& row) {
  return row.spec.arrival.count() + row.spec.slo.ttft.count() + static_cast<double>(row.generated.count()) * tbt_s;
}
/// The running request whose pause costs least, by hand: lost ones first, then deposits, then the distance to the next
/// token's place in the whole schedule; of those that have lost their SLO, or bear a pause as long as the TTFT SLO of
/// the one that comes. One that was paused and came back has half a TTFT SLO of time, unless a deposit covers its
/// pause.
const RequestRow* payer(const HandMade& made, const RequestRow& comes, Slot spared = nobody) {
  const auto costs_less = [&](const RequestRow& a, const RequestRow& b) {
    const bool lost = due(a) < 100, other = due(b) < 100;
    if (lost != other) return lost;
    const std::int64_t deposit = (a.generated - a.delivered).count(), its = (b.generated - b.delivered).count();
    return deposit != its ? deposit > its : due(a) > due(b);
  };
  const double ttft = comes.spec.slo.ttft.count();
  const RequestRow* pays = nullptr;
  for (const Slot slot : made.running) {
    if (slot == spared) continue;
    const RequestRow& row = made.rows[index(slot)];
    const bool rests = row.times_preempted > 0 && row.generated == row.delivered &&
                       100 - row.running_since.count() < 0.5 * std::min(ttft, row.spec.slo.ttft.count());
    if (due(row) >= 100 && (rests || ahead(row) <= ttft)) continue;
    if (pays == nullptr || costs_less(row, *pays)) pays = &row;
  }
  return pays;
}

} // namespace

TEST_CASE("of those for whom somebody can pay, the one with the least slack presses, or the one paused longest") {
  Random random(11);
  int saved = 0, first = 0, longest = 0, new_one = 0, none = 0, passed_over = 0;
  for (int round = 0; round < 6000; ++round) {
    CAPTURE(round);
    HandMade made = any_requests(random);
    std::optional<Pressing::Wish> wish;
    if (random.below(2) == 0) wish = {waiting_one(made, random.below(2) == 0 ? 2 : 20), ttft_s * random.uniform()};

    std::optional<Slot> expected;
    double least = 1e9;
    const auto offer = [&](Slot slot, double slack) {
      if (slack >= least) return;
      if (payer(made, made.rows[index(slot)]) == nullptr) {
        ++passed_over;
        return;
      }
      least = slack;
      expected = slot;
    };
    if (wish) offer(wish->slot, wish->slack_s);
    for (const Slot slot : made.preempted) {
      const RequestRow& row = made.rows[index(slot)];
      if (!row.may_return || row.waits) continue;
      const double ttft = row.spec.slo.ttft.count(), left = row.spec.arrival.count() + ttft - 100;
      if (row.generated.count() == 0) {
        const double slack = left - token_s * static_cast<double>(row.spec.prompt.count());
        if (slack >= 0) offer(slot, slack);
      } else if (row.first_token.count() - row.spec.arrival.count() <= ttft && ahead(row) >= 0 && ahead(row) <= ttft) {
        offer(slot, ahead(row));
      }
    }
    const bool in_time = expected.has_value();
    if (!in_time) {
      double since = 1e9;
      for (const Slot slot : made.preempted) {
        const RequestRow& row = made.rows[index(slot)];
        if (!row.may_return || row.waits || payer(made, row) == nullptr || row.preempted_since.count() >= since ||
            100 - row.preempted_since.count() < 4 * std::max(row.spec.slo.ttft.count(), 10 * tbt_s))
          continue;
        since = row.preempted_since.count();
        expected = slot;
      }
    }
    const auto choice = Pressing{}.choose(made.view(), {}, {.newcomer = wish, .token_s = token_s});
    REQUIRE(choice.has_value() == expected.has_value());
    none += !choice;
    if (!choice) continue;
    CHECK(choice->comes == *expected);
    CHECK(made.rows[index(choice->pays)].id == payer(made, made.rows[index(*expected)])->id);
    const RequestRow& comes = made.rows[index(choice->comes)];
    ++(!in_time                              ? longest
       : wish && wish->slot == choice->comes ? new_one
       : comes.generated.count() == 0        ? first
                                             : saved);
  }
  CHECK(saved > 100);
  CHECK(first > 100);
  CHECK(longest > 100);
  CHECK(new_one > 100);
  CHECK(none > 100);
  CHECK(passed_over > 100);
}

TEST_CASE("if only one may press, nobody else does, and those that are spared do not pay") {
  Random random(12);
  int pressed = 0, none = 0, another = 0;
  for (int round = 0; round < 2000; ++round) {
    CAPTURE(round);
    HandMade made = any_requests(random);
    if (made.preempted.empty() || made.running.empty()) continue;
    const Slot only = made.preempted[random.below(made.preempted.size())];
    const std::vector<Slot> spared{made.running[random.below(made.running.size())]};
    const Pressing::Wish urgent{waiting_one(made, 2), 0};
    const RequestRow* pays = payer(made, made.rows[index(only)], spared.front());
    const auto choice =
        Pressing{}.choose(made.view(), {}, {.newcomer = urgent, .token_s = token_s, .only = only, .spared = spared});
    REQUIRE(choice.has_value() == (pays != nullptr));
    ++(choice ? pressed : none);
    if (!choice) continue;
    CHECK(choice->comes == only);
    CHECK(made.rows[index(choice->pays)].id == pays->id);
    another += payer(made, made.rows[index(only)]) != pays;
  }
  CHECK(pressed > 100);
  CHECK(none > 100);
  CHECK(another > 100);
}

TEST_CASE("a running request without a TTFT SLO does not keep another from paying") {
  for (const double ttft : {5.0, 60.0, std::numeric_limits<double>::infinity()}) {
    CAPTURE(ttft);
    HandMade made;
    const auto running = [&](double slo, double slack) {
      const Slot slot = made.decoding(Tokens{10}, Tokens{400}, Tokens{900});
      RequestRow& row = made.rows[index(slot)];
      row.spec.slo = {.ttft = Seconds{slo}, .tbt = Seconds{tbt_s}};
      row.first_token = made.now - Seconds{400 * tbt_s - slack};
      row.spec.arrival = row.first_token - Seconds{1};
      row.delivered = row.generated;
      return slot;
    };
    running(ttft, 1);
    const Slot pays = running(5, 40);
    const Slot waits = waiting_one(made, ttft_s); // before the view, which its row would move
    const auto choice = Pressing{}.choose(made.view(), {}, {.newcomer = Pressing::Wish{waits, 1}, .token_s = token_s});
    REQUIRE(choice.has_value());
    CHECK(choice->pays == pays);
  }
}

TEST_CASE("a short TTFT SLO does not let requests that have lost theirs press each other at once") {
  HandMade made;
  const auto lost = [&](Slot slot) {
    RequestRow& row = made.rows[index(slot)];
    row.spec.slo = {.ttft = Seconds{0.01}, .tbt = Seconds{tbt_s}};
    row.spec.arrival = row.first_token = Seconds{0};
    row.delivered = row.generated;
  };
  lost(made.decoding(Tokens{10}, Tokens{10}, Tokens{90}));
  const Slot rests = made.add(Tokens{10}, Tokens{900}, Tokens{10}, Tokens{10}, Phase::preempted);
  lost(rests);
  made.rows[index(rests)].may_return = true;
  made.preempted.push_back(rests);
  const auto presses_after = [&](double since) {
    made.rows[index(rests)].preempted_since = made.now - Seconds{since};
    return Pressing{}.choose(made.view(), {}, {.token_s = token_s}).has_value();
  };
  CHECK_FALSE(presses_after(39 * tbt_s));
  CHECK(presses_after(41 * tbt_s));
}

TEST_CASE("a request that has pressed in vain leaves its turn to the next") {
  HandMade made;
  const Slot pays = made.decoding(Tokens{1}, Tokens{3000}, Tokens{9000}); // ahead of all
  made.rows[index(pays)].spec.slo = {.ttft = Seconds{ttft_s}, .tbt = Seconds{tbt_s}};
  const Slot rests = made.add(Tokens{10}, Tokens{900}, Tokens{400}, Tokens{400}, Phase::preempted);
  RequestRow& row = made.rows[index(rests)];
  row.spec.slo = {.ttft = Seconds{ttft_s}, .tbt = Seconds{tbt_s}};
  row.first_token = made.now - Seconds{400 * tbt_s - 3}; // its TPOT is late in 3 s
  row.spec.arrival = row.first_token - Seconds{1};
  row.may_return = true;
  made.preempted.push_back(rests);
  const Slot waits = waiting_one(made, ttft_s);
  made.rows[index(waits)].spec.prompt = Tokens{2000}; // what is larger would press in vain, too
  VainPresses vain;
  const auto presses = [&] {
    vain.look_back(made.view());
    const auto choice =
        Pressing{}.choose(made.view(), vain, {.newcomer = Pressing::Wish{waits, 1}, .token_s = token_s});
    if (choice) vain.pressed(made.view(), choice->comes, choice->pays);
    ++made.step;
    return choice ? choice->comes : nobody;
  };
  CHECK(presses() == waits);
  CHECK(presses() == rests);
  CHECK(presses() == nobody);
  made.decoding(Tokens{10}, Tokens{10}, Tokens{90}); // the batch has changed
  CHECK(presses() == waits);
}

TEST_CASE("two requests that share a place do not press each other by turns") {
  // One place; the one that has it gets a token in each iteration, and the other presses for it. Their TTFT SLOs and
  // slacks are any, their speed such that both can keep their TPOT.
  Random random(13);
  int swaps = 0;
  for (int round = 0; round < 500; ++round) {
    CAPTURE(round);
    HandMade made;
    const auto one = [&](Phase phase) {
      const double ttft = 0.5 + 4 * random.uniform(), slack = 2 * ttft * random.uniform();
      const Slot slot = made.add(Tokens{10}, Tokens{9000}, Tokens{40}, Tokens{49}, phase);
      RequestRow& row = made.rows[index(slot)];
      row.spec.slo = {.ttft = Seconds{ttft}, .tbt = Seconds{tbt_s}};
      row.first_token = made.now - Seconds{40 * tbt_s - slack};
      row.spec.arrival = row.first_token - Seconds{ttft * random.uniform()};
      row.times_preempted = phase == Phase::preempted;
      row.preempted_since = made.now;
      row.may_return = true;
      return slot;
    };
    Slot runs = one(Phase::running), rests = one(Phase::preempted);
    made.running = {runs};
    made.preempted = {rests};
    const Seconds step{tbt_s * (0.3 + 0.3 * random.uniform())};
    double pressed_at = -1e9;
    for (int iteration = 0; iteration < 400; ++iteration) {
      const auto choice = Pressing{}.choose(made.view(), {}, {.token_s = token_s});
      if (choice) {
        RequestRow &comes = made.rows[index(rests)], &pays = made.rows[index(runs)];
        if (ahead_s(pays, made.now) >= 0) { // it has lost nothing yet: it was not pressed off moments after its return
          CHECK(made.now.count() - pressed_at >= 0.499 * std::min(pays.spec.slo.ttft, comes.spec.slo.ttft).count());
          ++swaps;
        }
        pressed_at = made.now.count();
        comes.phase = Phase::running;
        comes.running_since = pays.preempted_since = made.now;
        pays.phase = Phase::preempted;
        ++pays.times_preempted;
        std::swap(runs, rests);
        made.running = {runs};
        made.preempted = {rests};
      }
      made.now += step;
      RequestRow& row = made.rows[index(runs)];
      row.generated += Tokens{1};
      row.delivered = row.generated;
    }
  }
  CHECK(swaps > 100);
}

TEST_CASE("a request without a TTFT SLO does not press, and pays as before after a pause") {
  HandMade made;
  const Slot runs = made.decoding(Tokens{1000}, Tokens{1000}, Tokens{2000});
  const Slot rests = made.add(Tokens{10}, Tokens{900}, Tokens{500}, Tokens{500}, Phase::preempted);
  made.preempted.push_back(rests);
  made.rows[index(rests)].may_return = true;
  made.rows[index(rests)].first_token = made.now;
  for (RequestRow& row : made.rows)
    row.spec.slo = {.ttft = Seconds{std::numeric_limits<double>::infinity()}, .tbt = Seconds{tbt_s}};
  CHECK_FALSE(Pressing{}.choose(made.view(), {}, {.token_s = token_s}).has_value());
  made.rows[index(runs)].times_preempted = 1;
  made.rows[index(runs)].running_since = made.now;
  const Slot waits = waiting_one(made, ttft_s);
  CHECK(Pressing{}.choose(made.view(), {}, {.newcomer = Pressing::Wish{waits, 1}, .token_s = token_s}).has_value());
}
