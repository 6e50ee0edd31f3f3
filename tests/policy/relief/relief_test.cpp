// SPDX-License-Identifier: Apache-2.0
// Relief: which request is preempted, and which may return.
#include "sluice/policy/relief/pause.hpp"
#include "sluice/policy/relief/preempt_newest.hpp"
#include "sluice/policy/relief/refuse.hpp"

#include "support/hand_made.hpp"
#include <doctest/doctest.h>

#include <set>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace {

/// A minimal Relief.
struct FirstGoes {
  using role = roles::Relief;
  struct State {};
  static constexpr Parting parting = Parting::preempt;
  std::size_t choose(const View&, State&, std::span<const Claim>) const { return 0; }
  bool may_return(const View&, const RequestRow&) const { return true; }
};
struct ChoosesByInt : FirstGoes {
  int choose(const View&, State&, std::span<const Claim>) const { return 0; }
};
struct GatesByNothing : FirstGoes {
  void may_return(const View&, const RequestRow&) const {}
};
struct PartsByText : FirstGoes {
  static constexpr const char* parting = "preempt";
};

static_assert(Relief<FirstGoes> && Relief<PauseLargest> && Relief<PauseLongest> && Relief<PauseShortest>);
static_assert(Relief<PauseRandom> && Relief<PreemptNewest> && Relief<Refuse>);
static_assert(!Relief<ChoosesByInt> && !Relief<GatesByNothing> && !Relief<PartsByText>);
static_assert(!Relief<PauseResume>); // a bundle: its parts play the roles
static_assert(Refuse::parting == Parting::refuse && PreemptNewest::parting == Parting::preempt);

struct Candidates {
  HandMade made;
  std::vector<Claim> claims;
};

Candidates random_candidates(Random& random) {
  Candidates all;
  const std::int64_t count = between(random, 1, 8);
  for (std::int64_t i = 0; i < count; ++i) {
    const Tokens generated{between(random, 1, 40)};
    const Slot slot = all.made.decoding(Tokens{between(random, 1, 200)}, generated, generated + Tokens{10});
    RequestRow& row = all.made.rows[index(slot)];
    row.delivered = Tokens{between(random, 0, generated.count())};
    all.claims.push_back({slot, Tokens{1}, Tokens{0}, true});
  }
  if (random.below(2) == 0) { // a newcomer, which has no blocks yet and will need its whole prompt's
    const Tokens prompt{between(random, 1, 300)};
    const Slot slot = all.made.add(prompt, Tokens{5}, Tokens{0}, Tokens{0}, Phase::waiting);
    all.claims.push_back({slot, Tokens{1}, prompt, true});
  }
  return all;
}

/// The victim weighs at least as much as any request, and more than any after it.
template <class P, class Weight>
void check_heaviest(Weight&& weight) {
  Random random(31);
  for (int round = 0; round < 500; ++round) {
    CAPTURE(round);
    const Candidates all = random_candidates(random);
    typename P::State state;
    const View view = all.made.view();
    const std::size_t victim = P{}.choose(view, state, all.claims);
    REQUIRE(victim < all.claims.size());
    for (std::size_t i = 0; i < all.claims.size(); ++i) {
      CHECK(weight(view, all.claims[victim]) >= weight(view, all.claims[i]));
      if (i > victim) CHECK(weight(view, all.claims[victim]) > weight(view, all.claims[i]));
    }
  }
}

std::int64_t context(const View& view, const Claim& claim) { return view.row(claim.slot).context().count(); }

} // namespace

TEST_CASE("PauseLargest chooses the largest sum of blocks and deposited tokens, the last of equals") {
  check_heaviest<PauseLargest>([](const View& view, const Claim& claim) {
    const RequestRow& row = view.row(claim.slot);
    const Tokens held = row.computed + std::max(claim.tokens, claim.reserve);
    return blocks_for(held, view.limits.block_tokens).count() + row.generated.count() - row.delivered.count();
  });
}

TEST_CASE("PauseLongest and PauseShortest choose by context") {
  check_heaviest<PauseLongest>(context);
  check_heaviest<PauseShortest>([](const View& view, const Claim& claim) { return -context(view, claim); });
}

TEST_CASE("PauseRandom chooses any request, and the same one from the same state") {
  Random random(32);
  const Candidates all = random_candidates(random);
  PauseRandom::State state, again;
  std::set<std::size_t> chosen;
  for (int i = 0; i < 300; ++i) {
    const std::size_t victim = PauseRandom{}.choose(all.made.view(), state, all.claims);
    CHECK(victim == PauseRandom{}.choose(all.made.view(), again, all.claims));
    chosen.insert(victim);
  }
  CHECK(chosen.size() == all.claims.size());
  CHECK(*chosen.rbegin() == all.claims.size() - 1);
}

TEST_CASE("PreemptNewest and Refuse choose the request that joined last, and let every request return") {
  Random random(33);
  for (int round = 0; round < 50; ++round) {
    const Candidates all = random_candidates(random);
    PreemptNewest::State preempt;
    Refuse::State refuse;
    CHECK(PreemptNewest{}.choose(all.made.view(), preempt, all.claims) == all.claims.size() - 1);
    CHECK(Refuse{}.choose(all.made.view(), refuse, all.claims) == all.claims.size() - 1);
    CHECK(PreemptNewest{}.may_return(all.made.view(), all.made.rows[0]));
  }
}

TEST_CASE("a paused request returns once a request has ended, when no request runs, or when it waited too long") {
  HandMade made;
  made.decoding(Tokens{5}, Tokens{1}, Tokens{9});
  RequestRow paused;
  paused.preempted_at_step = 40;
  paused.preempted_since = Seconds{90}; // now is 100
  made.last_finish_step = 39;
  CHECK_FALSE(PauseLargest{}.may_return(made.view(), paused));
  CHECK(PauseLargest{.max_wait = Seconds{9}}.may_return(made.view(), paused));
  CHECK_FALSE(PauseLargest{.max_wait = Seconds{11}}.may_return(made.view(), paused));
  made.last_finish_step = 40;
  CHECK(PauseLargest{}.may_return(made.view(), paused));
  made.last_finish_step = -1;
  made.running.clear();
  CHECK(PauseLargest{}.may_return(made.view(), paused));
}
