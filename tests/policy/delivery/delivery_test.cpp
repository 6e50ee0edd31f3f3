// SPDX-License-Identifier: Apache-2.0
// Delivery: when users receive tokens, compared with release times from the rule.
#include "sluice/policy/delivery/immediate.hpp"
#include "sluice/policy/delivery/token_deposit.hpp"

#include "support/hand_made.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace {

/// A minimal Delivery: everything at the end.
struct Whole {
  using role = roles::Delivery;
  static constexpr bool deposits = true;
  void generated(RequestRow&, Seconds, auto&&) const {}
  void advance(RequestRow&, Seconds, auto&&) const {}
  Seconds next_due(const RequestRow&) const { return never_due; }
  void finish(RequestRow& row, Seconds now, auto&& sink) const {
    const Tokens rest = row.deposit();
    row.delivered += rest;
    sink(row, rest, now);
  }
};
struct WithoutFinish : Whole {
  void finish() const {}
};
struct WithoutDeposits : Whole {
  struct deposits {};
};
struct CountsGenerated : Whole {
  int generated(RequestRow&, Seconds, auto&&) const { return 1; }
};

struct WithoutNextDue : Whole {
  void next_due() const {}
};

static_assert(Delivery<Whole> && Delivery<Immediate> && Delivery<TokenDeposit>);
static_assert(!Delivery<WithoutFinish> && !Delivery<WithoutDeposits> && !Delivery<CountsGenerated> &&
              !Delivery<WithoutNextDue>);
static_assert(TokenDeposit::deposits && !Immediate::deposits);

struct Run {
  std::vector<double> generated;
  std::vector<double> released;
};

/// Generates a token at each of `times`, and sometimes releases due tokens in between.
template <class P>
Run deliver(const std::vector<double>& times, Seconds slo, Random& random) {
  Run run{times, {}};
  RequestRow row;
  row.spec = RequestSpec{.output = Tokens{static_cast<std::int64_t>(times.size())}, .slo = {}};
  row.spec.slo.tbt = slo;
  const auto sink = [&](const RequestRow& who, Tokens count, Seconds when) {
    CHECK(&who == &row);
    CHECK(count > Tokens{0});
    CHECK_MESSAGE(row.delivered <= row.generated, "no token is released before it exists");
    for (std::int64_t i = 0; i < count.count(); ++i) run.released.push_back(when.count());
  };
  const P policy;
  double now = 0;
  for (const double time : times) {
    while (random.below(3) != 0) {
      now += (time - now) * random.uniform();
      policy.advance(row, Seconds{now}, sink);
    }
    now = time;
    row.generated += Tokens{1};
    row.last_token = Seconds{now};
    policy.generated(row, Seconds{now}, sink);
  }
  policy.finish(row, Seconds{now}, sink);
  CHECK(row.delivered == row.generated);
  return run;
}

std::vector<double> random_times(Random& random, double slo) {
  std::vector<double> times;
  double now = random.uniform();
  for (std::int64_t i = between(random, 1, 60); i > 0; --i) {
    times.push_back(now);
    // Fast for a while, slow for a while, sometimes a pause.
    const double pace = i / 10 % 2 == 0 ? 0.6 : 1.5;
    now += slo * pace * (0.5 + random.uniform()) + (random.below(15) == 0 ? 5 * slo : 0);
  }
  return times;
}

} // namespace

TEST_CASE("TokenDeposit releases one token per SLO while the deposit lasts, at once when it is empty, all at the end") {
  Random random(41);
  for (int round = 0; round < 1000; ++round) {
    CAPTURE(round);
    const double slo = 0.05 + 0.1 * random.uniform();
    const Run run = deliver<TokenDeposit>(random_times(random, slo), Seconds{slo}, random);
    // The rule in one line: one SLO after the previous token, but not before the token exists, and not after the end.
    std::vector<double> expected;
    for (const double generated : run.generated) {
      const double due = expected.empty() ? generated : expected.back() + slo;
      expected.push_back(std::min(std::max(generated, due), run.generated.back()));
    }
    REQUIRE(run.released.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(run.released[i] == doctest::Approx(expected[i]));
    CHECK(std::is_sorted(run.released.begin(), run.released.end()));
  }
}

TEST_CASE("a request that is always ahead of its SLO never sees a gap longer than the SLO") {
  Random random(42);
  for (int round = 0; round < 200; ++round) {
    std::vector<double> times;
    for (int i = 0; i < 40; ++i) times.push_back(0.09 * i * (0.5 + 0.5 * random.uniform()));
    std::sort(times.begin(), times.end());
    const Run run = deliver<TokenDeposit>(times, Seconds{0.1}, random);
    for (std::size_t i = 1; i < run.released.size(); ++i) CHECK(run.released[i] - run.released[i - 1] <= 0.1 + 1e-9);
  }
}

TEST_CASE("without an SLO, and with Immediate, a token is released when it is generated") {
  Random random(43);
  for (int round = 0; round < 200; ++round) {
    const std::vector<double> times = random_times(random, 0.1);
    const Run promised = deliver<Immediate>(times, Seconds{0.1}, random);
    const Run free = deliver<TokenDeposit>(times, Seconds{std::numeric_limits<double>::infinity()}, random);
    CHECK(promised.released == times);
    CHECK(free.released == times);
  }
}

TEST_CASE("next_due is the time of advance's next release, and calling it does not change release times") {
  Random random(17);
  const TokenDeposit policy;
  for (int round = 0; round < 300; ++round) {
    const double slo = 0.01 + random.uniform();
    RequestRow asked, plain;
    asked.spec.slo.tbt = plain.spec.slo.tbt = Seconds{slo};
    std::vector<double> with_timer, without;
    const auto into = [](std::vector<double>& times) {
      return [&times](const RequestRow&, Tokens count, Seconds when) {
        for (std::int64_t i = 0; i < count.count(); ++i) times.push_back(when.count());
      };
    };
    CHECK(policy.next_due(asked) == never_due);
    double now = 0;
    for (int token = 0; token < 30; ++token) {
      const double next = now + (random.below(4) == 0 ? 6 : 0.7) * slo * random.uniform();
      for (;;) { // a timer that fires when a token is due
        const Seconds due = policy.next_due(asked);
        CHECK((due == never_due) == (asked.deposit().count() == 0));
        if (due.count() > next) break;
        const std::size_t before = with_timer.size();
        policy.advance(asked, due, into(with_timer));
        CHECK(with_timer.size() == before + 1);
      }
      now = next;
      for (auto* row : {&asked, &plain}) {
        row->generated += Tokens{1};
        row->last_token = Seconds{now};
        policy.generated(*row, Seconds{now}, into(row == &asked ? with_timer : without));
      }
      CHECK(policy.next_due(asked) == policy.next_due(plain));
    }
    policy.finish(asked, Seconds{now}, into(with_timer));
    policy.finish(plain, Seconds{now}, into(without));
    CHECK(with_timer == without);
    CHECK(Immediate{}.next_due(asked) == never_due);
  }
}
