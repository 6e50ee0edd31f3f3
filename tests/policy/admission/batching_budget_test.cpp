// SPDX-License-Identifier: Apache-2.0
// The tokens that a prompt may claim beside a decoding batch.
#include "sluice/policy/admission/fcfs.hpp"

#include "support/hand_made.hpp"
#include <doctest/doctest.h>

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
