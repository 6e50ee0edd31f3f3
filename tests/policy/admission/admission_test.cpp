// SPDX-License-Identifier: Apache-2.0
// Admission: turns orders into claims within the limits, in order.
#include "sluice/policy/admission/fcfs.hpp"
#include "sluice/policy/admission/narrowed.hpp"
#include "sluice/policy/admission/shortest_remaining_first.hpp"

#include "support/hand_made.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <tuple>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace {

/// A minimal Admission: running requests stay, none joins.
struct Closed {
  using role = roles::Admission;
  static constexpr bool steady = true;
  static constexpr bool knows_lengths = false;
  struct State {};
  void enter(State&, Slot, const RequestRow&) const {}
  void leave(State&, Slot, const RequestRow&) const {}
  void propose(const View&, State&, Proposal&) const {}
  void settle(const View&, std::span<Claim>) const {}
};
struct WithoutRole : Closed {
  using role = void;
};
struct WithoutState : Closed {
  using State = void;
};
struct ProposesByReturn : Closed {
  Proposal propose(const View&, State&, Proposal&) const { return {}; }
};
struct SettlesNobody : Closed {
  void settle(const View&) const {}
};

static_assert(Admission<Closed> && Admission<Fcfs> && Admission<FcfsPrefillFirst> && Admission<ShortestRemainingFirst>);
static_assert(Admission<Narrowed<ShortestRemainingFirst, 3>>);
static_assert(!Admission<WithoutRole> && !Admission<WithoutState>);
static_assert(!Admission<ProposesByReturn> && !Admission<SettlesNobody>);

/// A view with requests of every kind; `queue` has the waiting ones by arrival.
struct Scene {
  HandMade made;
  std::vector<Slot> queue;
};

Scene random_scene(Random& random) {
  Scene scene;
  HandMade& made = scene.made;
  made.limits.batch = static_cast<int>(between(random, 1, 8));
  made.limits.batch_tokens = Tokens{between(random, 8, 300)};
  const auto tokens = [&](std::int64_t most) { return Tokens{between(random, 1, most)}; };
  for (std::int64_t i = between(random, 0, made.limits.batch); i > 0; --i) {
    if (random.below(4) == 0) { // A view with requests of every kind; `queue` has the waiting ones by arrival.
      const Slot slot = made.add(Tokens{between(random, 2, 200)}, tokens(50), Tokens{0}, Tokens{1}, Phase::running);
      made.running.push_back(slot);
    } else {
      const Tokens generated = tokens(20);
      made.decoding(tokens(100), generated, generated + tokens(50));
    }
  }
  for (std::int64_t i = between(random, 0, 4); i > 0; --i) {
    const Tokens generated = tokens(20);
    const Slot slot = made.add(tokens(100), generated + tokens(50), generated, Tokens{0}, Phase::preempted);
    made.rows[index(slot)].may_return = random.below(2) == 0;
    made.preempted.push_back(slot);
  }
  for (std::int64_t i = between(random, 0, 12); i > 0; --i)
    scene.queue.push_back(made.add(tokens(200), tokens(50), Tokens{0}, Tokens{0}, Phase::waiting));
  return scene;
}

template <class P>
Proposal propose(const P& policy, const Scene& scene, typename P::State& state) {
  for (const Slot slot : scene.queue) policy.enter(state, slot, scene.made.rows[index(slot)]);
  Proposal proposal;
  policy.propose(scene.made.view(), state, proposal);
  return proposal;
}

template <class P>
Proposal propose(const P& policy, const Scene& scene) {
  typename P::State state;
  return propose(policy, scene, state);
}

bool claims(const Proposal& proposal, Slot slot) {
  return std::any_of(proposal.claims.begin(), proposal.claims.end(), [&](const Claim& c) { return c.slot == slot; });
}

template <class P>
void check_limits(const Scene& scene, const Proposal& proposal, int batch) {
  const View view = scene.made.view();
  CHECK(static_cast<int>(proposal.claims.size()) <= batch);
  Tokens sum{0}, decodes{0}; // with prefill first they never share an iteration: each has the whole budget
  bool optional_seen = false;
  for (const Claim& claim : proposal.claims) {
    const RequestRow& row = view.row(claim.slot);
    (P::batching == Batching::prefill_first && row.pending() <= Tokens{1} ? decodes : sum) += claim.tokens;
    CHECK(claim.tokens >= Tokens{0});
    CHECK(claim.tokens <= row.pending());
    if (row.phase == Phase::running) CHECK(claim.required);
    if (row.phase != Phase::running) {
      CHECK(claim.tokens > Tokens{0});
      CHECK(claim.reserve == row.pending());
    }
    if (row.phase == Phase::preempted) CHECK(row.may_return);
    optional_seen = optional_seen || !claim.required;
    CHECK_MESSAGE(claim.required != optional_seen, "required claims come first");
    const auto same = [&](const Claim& other) { return other.slot == claim.slot; };
    CHECK(std::count_if(proposal.claims.begin(), proposal.claims.end(), same) == 1);
  }
  CHECK(sum <= view.limits.batch_tokens);
  CHECK(decodes <= view.limits.batch_tokens);
  for (const Slot slot : scene.made.running) {
    const bool leaves = std::count(proposal.leaving.begin(), proposal.leaving.end(), slot) == 1;
    CHECK_MESSAGE(claims(proposal, slot) != leaves, "every running request is claimed or leaves");
  }
}

using Orders =
    std::tuple<BasicFcfs<Batching::chunked, Newcomers::optional>, BasicFcfs<Batching::chunked, Newcomers::required>,
               BasicFcfs<Batching::prefill_first, Newcomers::optional>,
               BasicFcfs<Batching::prefill_first, Newcomers::required>>;
using Shortest = std::tuple<BasicShortestRemainingFirst<Batching::chunked, Newcomers::optional>,
                            BasicShortestRemainingFirst<Batching::chunked, Newcomers::required>,
                            BasicShortestRemainingFirst<Batching::prefill_first, Newcomers::optional>,
                            BasicShortestRemainingFirst<Batching::prefill_first, Newcomers::required>>;

} // namespace

TEST_CASE_TEMPLATE_DEFINE("claims stay within the limits", P, keep_limits) {
  Random random(11);
  for (int round = 0; round < 400; ++round) {
    CAPTURE(round);
    const Scene scene = random_scene(random);
    typename P::State state;
    check_limits<P>(scene, propose(P{}, scene, state), scene.made.limits.batch);
  }
}
TEST_CASE_TEMPLATE_APPLY(keep_limits, Orders);
TEST_CASE_TEMPLATE_APPLY(keep_limits, Shortest);

namespace {

/// The requests that join by the rules: groups in their order; in each, requests join until the limits leave no place.
/// After a preempted request without a place, no waiting request is tried.
std::vector<Claim> joiners(const Scene& scene, std::size_t running, Tokens left, Tokens left_for_decodes,
                           bool whole_prompts, Newcomers newcomers) {
  const bool required = newcomers == Newcomers::required;
  const View view = scene.made.view();
  std::vector<Slot> preempted;
  for (const Slot slot : view.preempted)
    if (view.row(slot).may_return) preempted.push_back(slot);
  std::vector<Claim> joined;
  for (const std::vector<Slot>& group : {newcomers == Newcomers::optional ? preempted : scene.queue,
                                         newcomers == Newcomers::optional ? scene.queue : preempted})
    for (const Slot slot : group) {
      const Tokens pending = view.row(slot).pending();
      const bool fits = running + joined.size() < static_cast<std::size_t>(view.limits.batch) && left > Tokens{0} &&
                        (!whole_prompts || pending <= left || left == view.limits.batch_tokens);
      if (!fits && required) break;
      if (!fits) return joined;
      Tokens& budget = whole_prompts && pending <= Tokens{1} ? left_for_decodes : left;
      const Tokens tokens = std::min(pending, budget);
      budget -= tokens;
      joined.push_back({slot, tokens, pending, required && view.row(slot).phase == Phase::waiting});
    }
  return joined;
}

template <Batching B, Newcomers N>
void check_order() {
  Random random(12);
  for (int round = 0; round < 400; ++round) {
    CAPTURE(round);
    const Scene scene = random_scene(random);
    typename BasicFcfs<B, N>::State state;
    const Proposal proposal = propose(BasicFcfs<B, N>{}, scene, state);
    const std::size_t running = scene.made.running.size();
    CHECK(proposal.leaving.empty());
    REQUIRE(proposal.claims.size() >= running);
    Tokens left = scene.made.limits.batch_tokens, left_for_decodes = left;
    for (std::size_t i = 0; i < running; ++i) {
      const Tokens pending = scene.made.view().row(scene.made.running[i]).pending();
      Tokens& budget = B == Batching::prefill_first && pending <= Tokens{1} ? left_for_decodes : left;
      CHECK(proposal.claims[i].slot == scene.made.running[i]);
      CHECK(proposal.claims[i].tokens == std::min(budget, pending));
      budget -= proposal.claims[i].tokens;
    }
    const std::vector<Claim> expected =
        joiners(scene, running, left, left_for_decodes, B == Batching::prefill_first, N);
    REQUIRE(proposal.claims.size() == running + expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CHECK(proposal.claims[running + i].slot == expected[i].slot);
      CHECK(proposal.claims[running + i].tokens == expected[i].tokens);
      CHECK(proposal.claims[running + i].required == expected[i].required);
    }
  }
}

/// The requests that should run by shortest remaining first, if tokens are no limit: the shortest of all; at equal
/// length, running ones first.
std::vector<Slot> shortest(const Scene& scene) {
  const View view = scene.made.view();
  std::vector<Slot> all = scene.made.running;
  for (const Slot slot : view.preempted)
    if (view.row(slot).may_return) all.push_back(slot);
  all.insert(all.end(), scene.queue.begin(), scene.queue.end());
  std::stable_sort(all.begin(), all.end(), [&](Slot a, Slot b) {
    return view.row(a).remaining(not_a_policy) < view.row(b).remaining(not_a_policy);
  });
  all.resize(std::min(all.size(), static_cast<std::size_t>(view.limits.batch)));
  std::sort(all.begin(), all.end());
  return all;
}

} // namespace

TEST_CASE("Fcfs admits by arrival until the limits leave the next request no place") {
  check_order<Batching::chunked, Newcomers::optional>();
  check_order<Batching::chunked, Newcomers::optional_first>();
  check_order<Batching::chunked, Newcomers::required>();
  check_order<Batching::prefill_first, Newcomers::optional>();
  check_order<Batching::prefill_first, Newcomers::optional_first>();
  check_order<Batching::prefill_first, Newcomers::required>();
}

TEST_CASE("Fcfs forgets a request that left its queue from any position") {
  Random random(13);
  for (int round = 0; round < 100; ++round) {
    Scene scene = random_scene(random);
    scene.made.running.clear();
    scene.made.preempted.clear();
    Fcfs::State state;
    for (const Slot slot : scene.queue) Fcfs{}.enter(state, slot, scene.made.rows[index(slot)]);
    std::vector<Slot> staying;
    for (const Slot slot : scene.queue) {
      if (random.below(2) == 0)
        staying.push_back(slot);
      else
        Fcfs{}.leave(state, slot, scene.made.rows[index(slot)]);
    }
    scene.queue = staying;
    Proposal proposal;
    Fcfs{}.propose(scene.made.view(), state, proposal);
    const std::vector<Claim> expected =
        joiners(scene, 0, scene.made.limits.batch_tokens, Tokens{0}, false, Newcomers::optional);
    REQUIRE(proposal.claims.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(proposal.claims[i].slot == expected[i].slot);
  }
}

TEST_CASE("ShortestRemainingFirst runs the shortest requests of all, and others leave for them") {
  Random random(14);
  int left = 0;
  for (int round = 0; round < 1000; ++round) {
    CAPTURE(round);
    Scene scene = random_scene(random);
    scene.made.limits.batch_tokens = Tokens{100'000};
    ShortestRemainingFirst::State state;
    const Proposal proposal = propose(ShortestRemainingFirst{}, scene, state);
    // Equal lengths may be served in either order: only the lengths must agree.
    const View view = scene.made.view();
    const auto lengths = [&](auto&& slots, auto&& slot_of) {
      std::vector<std::int64_t> all;
      for (const auto& item : slots) all.push_back(view.row(slot_of(item)).remaining(not_a_policy).count());
      std::sort(all.begin(), all.end());
      return all;
    };
    CHECK(lengths(proposal.claims, [](const Claim& c) { return c.slot; }) ==
          lengths(shortest(scene), [](Slot slot) { return slot; }));
    left += static_cast<int>(proposal.leaving.size());
  }
  CHECK(left > 100); // otherwise the test would check little
}

TEST_CASE("ShortestRemainingFirst admits equal requests by arrival, although slots are reused") {
  HandMade made;
  made.limits.batch = 1;
  const Slot later = made.add(Tokens{10}, Tokens{5}, Tokens{0}, Tokens{0}, Phase::waiting);
  const Slot sooner = made.add(Tokens{10}, Tokens{5}, Tokens{0}, Tokens{0}, Phase::waiting);
  made.rows[index(later)].id = RequestId{9};
  const Proposal proposal = propose(ShortestRemainingFirst{}, {made, {later, sooner}});
  REQUIRE(proposal.claims.size() == 1);
  CHECK(proposal.claims[0].slot == sooner);
}

TEST_CASE("chunked: all accepted claims run; prefill first: decodes wait while a prompt is computed") {
  Random random(15);
  for (int round = 0; round < 300; ++round) {
    const Scene scene = random_scene(random);
    const View view = scene.made.view();
    Fcfs::State state;
    const std::vector<Claim> accepted = propose(Fcfs{}, scene, state).claims;
    std::vector<Claim> chunked = accepted, first = accepted;
    Fcfs{}.settle(view, chunked);
    FcfsPrefillFirst{}.settle(view, first);
    const bool prompts = std::any_of(accepted.begin(), accepted.end(),
                                     [&](const Claim& claim) { return view.row(claim.slot).pending() > Tokens{1}; });
    for (std::size_t i = 0; i < accepted.size(); ++i) {
      CHECK(chunked[i].tokens == accepted[i].tokens);
      const bool decode = view.row(accepted[i].slot).pending() == Tokens{1};
      CHECK(first[i].tokens == (prompts && decode ? Tokens{0} : accepted[i].tokens));
    }
  }
}

TEST_CASE("Narrowed behaves like its base under the tighter limit") {
  Random random(16);
  for (int round = 0; round < 200; ++round) {
    Scene scene = random_scene(random);
    if (scene.made.running.size() > 3) scene.made.running.resize(3); // as many as it would have admitted
    Fcfs::State plain;
    typename Narrowed<Fcfs, 3>::State narrowed;
    const Proposal under = propose(Narrowed<Fcfs, 3>{}, scene, narrowed);
    check_limits<Fcfs>(scene, under, std::min(3, scene.made.limits.batch));
    scene.made.limits.batch = std::min(3, scene.made.limits.batch);
    const Proposal same = propose(Fcfs{}, scene, plain);
    REQUIRE(under.claims.size() == same.claims.size());
    for (std::size_t i = 0; i < same.claims.size(); ++i) CHECK(under.claims[i].slot == same.claims[i].slot);
  }
}
