// SPDX-License-Identifier: Apache-2.0
// The tokens that a prompt may claim beside a decoding batch.
#include "sluice/policy/admission/batching.hpp"
#include "sluice/policy/admission/fcfs.hpp"

#include "support/hand_made.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

using namespace sluice;

TEST_CASE("with prefill first, decodes take nothing from the budget of prompts; in chunks they do") {
  std::vector<RequestRow> rows(9);
  std::vector<Slot> running;
  for (std::uint32_t i = 0; i < 8; ++i) {
    rows[i].phase = Phase::running;
    rows[i].spec.prompt = rows[i].computed = Tokens{50};
    rows[i].generated = Tokens{1};
    running.push_back(Slot{i});
  }
  View view;
  view.limits.batch = 16;
  view.limits.batch_tokens = Tokens{100};
  view.running = running;
  for (const std::int64_t prompt : {92, 93, 99, 100, 101, 250}) {
    rows[8].spec.prompt = Tokens{prompt};
    view.rows = rows;
    const auto claimed = [&view, &rows](const auto& policy) {
      typename std::remove_cvref_t<decltype(policy)>::State state;
      policy.enter(state, Slot{8}, rows[8]);
      Proposal proposal;
      policy.propose(view, state, proposal);
      REQUIRE(proposal.claims.size() == 9);
      CHECK(proposal.claims.back().reserve == rows[8].spec.prompt);
      return proposal.claims.back().tokens.count();
    };
    CHECK(claimed(FcfsPrefillFirst{}) == std::min<std::int64_t>(prompt, 100));
    CHECK(claimed(Fcfs{}) == std::min<std::int64_t>(prompt, 100 - 8));
  }
}

TEST_CASE("a request that waits for a tier's blocks makes no pressing claim, and none of another's") {
  for (const bool waits : {false, true}) {
    CAPTURE(waits);
    testing::HandMade made;
    const Slot runs = made.decoding(Tokens{10}, Tokens{5}, Tokens{50});
    const Slot newcomer = made.add(Tokens{10}, Tokens{5}, Tokens{0}, Tokens{0}, Phase::waiting);
    made.rows[index(newcomer)].waits = waits;
    const View view = made.view();
    Proposal proposal;
    ClaimBuilder<Batching::chunked, Newcomers::optional> claims(view, proposal);
    claims.keep(runs);
    CHECK(claims.press(newcomer, runs) == !waits);
    REQUIRE(proposal.claims.size() == (waits ? 1 : 2));
    CHECK_FALSE(proposal.claims.front().presses());
    if (!waits) CHECK(proposal.claims.back().presses());
  }
}

namespace {

/// Running requests that decode or have prompts left, then one that would press on any of them, under limits that are
/// often all taken.
template <Batching B>
void press_under_any_limits(std::uint64_t seed, int& joined, int& instead, int& refused) {
  Random random(seed);
  for (int round = 0; round < 2000; ++round) {
    CAPTURE(round);
    testing::HandMade made;
    const std::int64_t running = testing::between(random, 1, 5);
    made.limits.batch = static_cast<int>(running + testing::between(random, 0, 1));
    made.limits.batch_tokens = Tokens{testing::between(random, 1, 40)};
    for (std::int64_t i = 0; i < running; ++i) {
      if (random.below(3) > 0)
        made.decoding(Tokens{10}, Tokens{5}, Tokens{50});
      else
        made.running.push_back(
            made.add(Tokens{testing::between(random, 2, 30)}, Tokens{50}, Tokens{0}, Tokens{0}, Phase::running));
    }
    const Slot comes =
        made.add(Tokens{testing::between(random, 1, 60)}, Tokens{5}, Tokens{0}, Tokens{0}, Phase::waiting);
    const Slot next = made.add(Tokens{1}, Tokens{5}, Tokens{0}, Tokens{0}, Phase::waiting);
    const Slot pays = made.running[random.below(static_cast<std::uint64_t>(running))];
    const View view = made.view();
    Proposal proposal;
    ClaimBuilder<B, Newcomers::optional> claims(view, proposal);
    for (const Slot slot : view.running) claims.keep(slot);
    const bool full = running == made.limits.batch;
    const std::vector<Claim> kept = proposal.claims;
    std::int64_t left = made.limits.batch_tokens.count();
    for (const Claim& one : kept) left -= one.tokens.count();
    const bool pressed = claims.press(comes, pays);
    REQUIRE(proposal.claims.size() == kept.size() + (pressed ? 1 : 0));
    ++(!pressed ? refused : full ? instead : joined);
    if (B == Batching::chunked) CHECK(pressed == (left > 0));
    if (!pressed) continue;
    const Claim claim = proposal.claims.back();
    CHECK(claim.at_cost_of == pays);
    CHECK(claim.required);
    CHECK(claim.instead == full);
    if (!full) continue;
    CHECK_FALSE(claims.join(next, false));
    CHECK_FALSE(claims.press(next, pays));
    // With either of the two the batch is as large as before, and the claims of both keep to the budget.
    CHECK(static_cast<int>(kept.size()) == view.limits.batch);
    std::int64_t prompts = 0, decodes = 0;
    for (const Claim& one : proposal.claims)
      (B == Batching::chunked || view.row(one.slot).pending().count() > 1 ? prompts : decodes) += one.tokens.count();
    CHECK(std::max(prompts, decodes) <= view.limits.batch_tokens.count());
  }
}

} // namespace

TEST_CASE("in a full batch, a pressing claim takes the place of the request that pays, within the budget") {
  int joined = 0, instead = 0, refused = 0;
  SUBCASE("prompts in chunks") { press_under_any_limits<Batching::chunked>(21, joined, instead, refused); }
  SUBCASE("prefill first") { press_under_any_limits<Batching::prefill_first>(22, joined, instead, refused); }
  CHECK(joined > 100);
  CHECK(instead > 100);
  CHECK(refused > 100);
}
