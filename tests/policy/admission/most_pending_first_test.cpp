// SPDX-License-Identifier: Apache-2.0
// MostPendingFirst: whose turn it is, who gets which memory, and who leaves.
#include "sluice/policy/admission/most_pending_first.hpp"

#include "support/hand_made.hpp"
#include "support/plain_estimate.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace pending {
namespace {

struct Scene {
  HandMade made;
  MostPendingFirst policy;
  MostPendingFirst::State state;
  PlainEstimate costs; // rebuilding takes no time by it

  Scene() {
    made.limits = {.batch = 100, .batch_tokens = Tokens{100'000}};
    made.geometry = {8, Bytes{4096}, Bytes{1 << 20}, Bytes{2048}};
    costs.geometry = made.geometry;
  }
  /// Device memory for this many blocks of all layers.
  void memory(std::int64_t blocks) { made.ledger = Ledger{LayerBlocks{8 * blocks}, LayerBlocks{0}}; }
  Slot wait(std::int64_t prompt, double since_s, double ttft_s = 10) {
    const Slot slot = made.add(Tokens{prompt}, Tokens{1000}, Tokens{0}, Tokens{0}, Phase::waiting);
    RequestRow& row = made.rows[index(slot)];
    row.spec.arrival = made.now - Seconds{since_s};
    row.spec.slo = {Seconds{ttft_s}, Seconds{1}};
    policy.enter(state, slot, row);
    return slot;
  }
  Slot decode(std::int64_t context, double since_s, bool states = false) {
    const Slot slot = made.decoding(Tokens{context - 1}, Tokens{1}, Tokens{1000});
    RequestRow& row = made.rows[index(slot)];
    row.last_token = made.now - Seconds{since_s};
    row.spec.slo = {Seconds{10}, Seconds{1}};
    if (states) {
      row.holding.nowhere = row.holding.hidden = LayerSet::all(8);
      row.holding.states_on_device = true;
      row.resident_layers = 0;
    }
    return slot;
  }
  Proposal propose() {
    Proposal proposal;
    policy.propose(made.view(), state, proposal, costs.estimate());
    return proposal;
  }
};

std::vector<Slot> joined(const Proposal& proposal) {
  std::vector<Slot> slots;
  for (const Claim& claim : proposal.claims)
    if (!claim.required) slots.push_back(claim.slot);
  return slots;
}

} // namespace
} // namespace pending

TEST_CASE("prompts are computed if the waiting requests have waited at least as long as the running ones") {
  pending::Scene scene;
  scene.memory(100);
  scene.decode(40, 0.5);
  const Slot waits = scene.wait(40, 0.4);
  CHECK(pending::joined(scene.propose()).empty());
  scene.wait(40, 0.2);
  CHECK(pending::joined(scene.propose()).size() == 2);
  // Right after a token nobody who runs has waited.
  scene.made.rows[0].last_token = scene.made.now;
  CHECK(pending::joined(scene.propose()).front() == waits);
}

TEST_CASE("waiting requests get the free memory by pending time per block, late ones what is left") {
  pending::Scene scene;
  scene.costs.token_s = 0;
  scene.memory(10);
  const Slot late = scene.wait(64, 20);                 // 4 blocks
  const Slot large = scene.wait(96, 3);                 // 6 blocks
  const Slot small = scene.wait(32, 2);                 // 2 blocks: the most per block
  scene.made.geometry.layer_hidden_bytes = Bytes{4096}; // no smaller: nobody has hidden states
  const std::vector<Slot> expected{small, large};
  CHECK(pending::joined(scene.propose()) == expected);
  scene.memory(12);
  const std::vector<Slot> all{small, large, late};
  CHECK(pending::joined(scene.propose()) == all);
}

TEST_CASE("hidden states let more requests join, K and V what remains, and a late request never has them") {
  pending::Scene scene;
  scene.memory(10);
  for (int i = 0; i < 4; ++i) scene.wait(64, 2); // 32 layer blocks, or 16 + 4 as hidden states
  const Proposal proposal = scene.propose();
  CHECK(pending::joined(proposal).size() == 4);
  std::int64_t used = 0;
  for (const Claim& claim : proposal.claims) used += claim.as_states ? 20 : 32;
  CHECK(used <= 80);
  CHECK(std::count_if(proposal.claims.begin(), proposal.claims.end(), [](const Claim& c) { return c.as_states; }) == 4);
  for (int i = 0; i < 4; ++i) scene.made.rows[static_cast<std::size_t>(i)].spec.slo.ttft = Seconds{1};
  scene.state = {};
  for (int i = 0; i < 4; ++i)
    scene.policy.enter(scene.state, static_cast<Slot>(i), scene.made.rows[static_cast<std::size_t>(i)]);
  const Proposal late = scene.propose();
  CHECK(pending::joined(late).size() == 2);
  for (const Claim& claim : late.claims) CHECK_FALSE(claim.as_states);
}

TEST_CASE("requests that decode keep their form, change to K and V where memory allows, and leave where it is short") {
  pending::Scene scene;
  scene.memory(10);
  const Slot kv = scene.decode(64, 0.1);
  const Slot states = scene.decode(64, 0.1, true);
  Proposal proposal = scene.propose();
  CHECK(proposal.leaving.empty());
  for (const Claim& claim : proposal.claims) CHECK_FALSE(claim.as_states); // 64 of 80 layer blocks
  scene.memory(7);
  proposal = scene.propose();
  REQUIRE(proposal.claims.size() == 2);
  CHECK(proposal.claims[0].slot == kv);
  CHECK_FALSE(proposal.claims[0].as_states);
  CHECK(proposal.claims[1].slot == states);
  CHECK(proposal.claims[1].as_states); // 32 + 20 of 56
  scene.memory(4);
  proposal = scene.propose();
  CHECK(proposal.claims.size() == 1);
  CHECK(proposal.leaving.size() == 1);
  // One that is late for its next token counts next to nothing.
  scene.made.rows[index(states)].last_token = scene.made.now - Seconds{5};
  proposal = scene.propose();
  REQUIRE(proposal.leaving.size() == 1);
  CHECK(proposal.leaving.front() == states);
}

TEST_CASE("hidden states stay until they have delayed as long as computing the request again, and then leave") {
  pending::Scene scene;
  scene.costs.token_s = 1e-3;
  scene.costs.rebuilt_s = 2.5e-4; // a fourth of computing a token
  scene.memory(6);
  const Slot kv = scene.decode(64, 0);
  const Slot starts = scene.wait(64, 3); // two blocks are free: 16 layer blocks, and its states take 16 + 4
  CHECK(pending::joined(scene.propose()).empty());
  scene.memory(7);
  Proposal proposal = scene.propose();
  REQUIRE(pending::joined(proposal).size() == 1);
  CHECK(proposal.claims.back().as_states);

  // It decodes. There is room for its states as they grow, but not for K and V.
  RequestRow& row = scene.made.rows[index(starts)];
  scene.policy.leave(scene.state, starts, row);
  scene.made.running.push_back(starts);
  scene.memory(8);
  row.phase = Phase::running;
  row.holding.nowhere = row.holding.hidden = LayerSet::all(8);
  row.holding.states_on_device = true;
  int kept = 0;
  for (; kept < 100; ++kept) {
    row.computed = row.context();
    row.blocks = blocks_for(row.computed, scene.made.limits.block_tokens);
    row.slack = Tokens{row.blocks.count() * 16} - row.computed;
    row.generated += Tokens{1};
    row.last_token = scene.made.now;
    scene.made.rows[index(kv)].last_token = scene.made.now;
    proposal = scene.propose();
    if (!proposal.leaving.empty()) break;
    REQUIRE(proposal.claims.size() == 2);
    CHECK(proposal.claims.back().as_states);
  }
  CHECK(kept == 3); // each rebuilds 80 tokens; computing some 66 tokens again takes as long as rebuilding 264
  CHECK(proposal.leaving.front() == starts);
}

TEST_CASE(
    "a burst on an idle device gets K and V: a full token budget ends the joining and not the change to K and V") {
  pending::Scene scene;
  scene.made.limits.batch_tokens = Tokens{2048};
  scene.memory(763);
  for (int i = 0; i < 30; ++i) scene.wait(161, 0.5);
  const auto has_states = [](const Claim& claim) { return claim.as_states; };
  Proposal proposal = scene.propose();
  CHECK(pending::joined(proposal).size() == 12); // 2,048 / 161
  CHECK(std::none_of(proposal.claims.begin(), proposal.claims.end(), has_states));
  scene.memory(8 * 12); // of 12 x 11 blocks: K and V of a few, hidden states of the others
  proposal = scene.propose();
  CHECK(pending::joined(proposal).size() == 12);
  CHECK(std::any_of(proposal.claims.begin(), proposal.claims.end(), has_states));
  // A full batch is no other limit than a full token budget.
  scene.made.limits.batch = 3;
  proposal = scene.propose();
  CHECK(pending::joined(proposal).size() == 3);
  CHECK(std::none_of(proposal.claims.begin(), proposal.claims.end(), has_states));
}

TEST_CASE("a prompt in chunks keeps its memory until its last chunk, late or not") {
  pending::Scene scene;
  scene.made.limits.batch_tokens = Tokens{2048};
  const Slot decodes = scene.decode(64, 0.1);
  const Slot late = scene.made.add(Tokens{3000}, Tokens{10}, Tokens{0}, Tokens{2048}, Phase::running);
  scene.made.running.push_back(late);
  scene.made.rows[index(late)].spec.arrival = scene.made.now - Seconds{60};
  scene.made.rows[index(late)].spec.slo = {Seconds{1}, Seconds{1}};
  scene.memory(188 + 3); // 3,000 tokens take 188 blocks
  Proposal proposal = scene.propose();
  REQUIRE(proposal.claims.size() == 1);
  CHECK(proposal.claims.front().slot == late);
  CHECK(proposal.claims.front().tokens == Tokens{952});
  REQUIRE(proposal.leaving.size() == 1);
  CHECK(proposal.leaving.front() == decodes);
  scene.memory(188 + 4);
  proposal = scene.propose();
  CHECK(proposal.claims.size() == 2);
  CHECK(proposal.leaving.empty());
  // Beside it a prompt may join only within the rest of the budget.
  scene.memory(1000);
  scene.wait(1096, 100, 1000);
  CHECK(pending::joined(scene.propose()).size() == 1);
  const Slot more = scene.wait(1097, 100, 1000);
  CHECK(pending::joined(scene.propose()).size() == 1);
  scene.policy.leave(scene.state, static_cast<Slot>(index(more) - 1), scene.made.rows[index(more) - 1]);
  CHECK(pending::joined(scene.propose()).empty());
}
