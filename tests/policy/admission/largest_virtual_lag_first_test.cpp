// SPDX-License-Identifier: Apache-2.0
// LargestVirtualLagFirst against a transcription of the rule, on random queues.
#include "sluice/policy/admission/largest_virtual_lag_first.hpp"

#include "support/hand_made.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace {

struct Crowd {
  HandMade made;
  std::vector<Slot> queue; ///< by arrival
};

/// Requests of every kind on a device that is full, nearly full or roomy.
Crowd random_crowd(Random& random) {
  Crowd crowd;
  HandMade& made = crowd.made;
  made.limits.batch = static_cast<int>(between(random, 2, 12));
  made.limits.batch_tokens = Tokens{1'000'000}; // the rule is about memory
  const auto tokens = [&](std::int64_t most) { return Tokens{between(random, 1, most)}; };
  const auto ago = [&](double most) { return made.now - Seconds{most * random.uniform()}; };
  std::int64_t used = 0;
  for (std::int64_t i = between(random, 0, made.limits.batch); i > 0; --i) {
    const Tokens generated = tokens(20);
    const Slot slot = made.decoding(tokens(300), generated, generated + tokens(50));
    RequestRow& row = made.rows[index(slot)];
    row.running_since = random.below(8) == 0 ? made.now : ago(30);
    used += row.blocks.count() * made.geometry.layers;
  }
  for (std::int64_t i = between(random, 0, 6); i > 0; --i) {
    const bool started = random.below(5) != 0;
    const Tokens generated = started ? tokens(20) : Tokens{0};
    const Tokens prompt = tokens(300);
    const Slot slot = made.add(prompt, generated + tokens(50), generated,
                               started ? prompt + generated - Tokens{1} : Tokens{0}, Phase::preempted);
    RequestRow& row = made.rows[index(slot)];
    row.spec.arrival = ago(60);
    row.last_token = ago(20);
    row.resident_layers = 0; // on the host
    row.may_return = random.below(6) != 0;
    made.preempted.push_back(slot);
  }
  for (std::int64_t i = between(random, 0, 15); i > 0; --i)
    crowd.queue.push_back(made.add(tokens(300), tokens(50), Tokens{0}, Tokens{0}, Phase::waiting));
  Seconds arrival = made.now - Seconds{30};
  for (const Slot slot : crowd.queue) made.rows[index(slot)].spec.arrival = arrival += Seconds{3 * random.uniform()};
  const std::int64_t growth = made.geometry.layers * static_cast<std::int64_t>(made.running.size());
  made.ledger =
      Ledger{LayerBlocks{used + growth + between(random, 0, 100) * made.geometry.layers}, LayerBlocks{1 << 20}};
  made.ledger.grow({LayerBlocks{used}, LayerBlocks{0}});
  return crowd;
}

struct Decision {
  std::vector<Slot> in;  ///< in order
  std::vector<Slot> out; ///< in order
};

/// The rule as written: one list and one sort.
Decision transcribed(const Crowd& crowd, const LargestVirtualLagFirst& rule) {
  const View view = crowd.made.view();
  const std::int64_t layers = view.geometry.layers;
  const auto blocks = [&](Slot slot) {
    const RequestRow& row = view.row(slot);
    return blocks_for(row.context(), view.limits.block_tokens).count() * layers;
  };
  std::int64_t free = view.ledger->device().free().count();
  for (const Slot slot : view.running) free -= blocks(slot) - view.row(slot).blocks.count() * layers;
  free = std::max<std::int64_t>(free, 0);

  std::vector<Slot> outside;
  for (const Slot slot : view.preempted)
    if (view.row(slot).may_return) outside.push_back(slot);
  outside.insert(outside.end(), crowd.queue.begin(), crowd.queue.end());
  std::int64_t wanted = 0;
  for (const Slot slot : outside) wanted += blocks(slot);
  Decision decision;
  if (wanted <= free) {
    decision.in = outside;
    return decision;
  }
  struct Ranked {
    double lag;
    Slot slot;
    bool runs;
  };
  std::vector<Ranked> all;
  std::stable_sort(outside.begin(), outside.end(), [&](Slot a, Slot b) { // equal lag: preempted first, by id
    const bool pa = view.row(a).phase == Phase::preempted, pb = view.row(b).phase == Phase::preempted;
    return pa != pb ? pa : pa && view.row(a).id < view.row(b).id;
  });
  for (const Slot slot : outside) {
    const RequestRow& row = view.row(slot);
    const double wait = (view.now - row.spec.arrival).count() - rule.beta_first * rule.first_token.count();
    const double gap = (view.now - row.last_token).count() - rule.beta_next * rule.next_token.count();
    const bool started = row.phase == Phase::preempted && row.generated > Tokens{0};
    all.push_back({started ? rule.alpha * std::max(0.0, gap) : std::max(0.0, wait), slot, false});
  }
  std::vector<Slot> running(view.running.begin(), view.running.end());
  std::sort(running.begin(), running.end(), [&](Slot a, Slot b) { return view.row(a).id < view.row(b).id; });
  for (const Slot slot : running) all.push_back({-(view.now - view.row(slot).running_since).count(), slot, true});
  std::stable_sort(all.begin(), all.end(), [](const Ranked& a, const Ranked& b) { return a.lag > b.lag; });

  std::int64_t left = free + rule.rotation.count() * layers;
  std::int64_t taken = 0;
  for (const Ranked& next : all) {
    if (next.runs || next.lag < 0 || static_cast<int>(decision.in.size()) == view.limits.batch) continue;
    if (blocks(next.slot) > left) continue;
    left -= blocks(next.slot);
    taken += blocks(next.slot);
    decision.in.push_back(next.slot);
  }
  std::int64_t places = static_cast<std::int64_t>(decision.in.size() + running.size()) - view.limits.batch;
  for (std::size_t i = all.size(); i-- > 0 && (taken > free || places > 0);) {
    if (!all[i].runs || all[i].lag >= 0) continue;
    free += blocks(all[i].slot);
    --places;
    decision.out.push_back(all[i].slot);
  }
  return decision;
}

} // namespace

TEST_CASE("LargestVirtualLagFirst decides by its rule") {
  Random random(31);
  int rotated = 0;
  int plain = 0;
  for (int round = 0; round < 5000; ++round) {
    CAPTURE(round);
    const Crowd crowd = random_crowd(random);
    LargestVirtualLagFirst rule;
    rule.rotation = TokenBlocks{between(random, 0, 60)};
    rule.beta_next = random.below(2) == 0 ? 0.0 : 20 * random.uniform();
    LargestVirtualLagFirst::State state;
    for (const Slot slot : crowd.queue) rule.enter(state, slot, crowd.made.rows[index(slot)]);
    Proposal proposal;
    rule.propose(crowd.made.view(), state, proposal);
    const Decision expected = transcribed(crowd, rule);
    CHECK(proposal.leaving == expected.out);

    std::vector<Slot> kept, joined;
    for (const Claim& claim : proposal.claims) (claim.required ? kept : joined).push_back(claim.slot);
    CHECK(kept.size() + proposal.leaving.size() == crowd.made.running.size());
    // The end of the order is cut off at the limits.
    const std::size_t places = static_cast<std::size_t>(crowd.made.limits.batch) - kept.size();
    REQUIRE(joined.size() == std::min(places, expected.in.size()));
    CHECK(std::equal(joined.begin(), joined.end(), expected.in.begin()));
    rotated += !expected.out.empty();
    plain += expected.out.empty() && !expected.in.empty();
  }
  CHECK(rotated > 500); // otherwise the test would check little
  CHECK(plain > 500);
}

TEST_CASE("the rotation budget follows link, memory, blocks and SLO, and is the paper's on the paper's machine") {
  const auto within = [](double tbt, double rate, std::int64_t mebibytes, std::int64_t blocks) {
    return LargestVirtualLagFirst::rotation_within(Seconds{tbt}, BytesPerSecond{rate}, Bytes{mebibytes << 20},
                                                   TokenBlocks{blocks})
        .count();
  };
  constexpr double none = std::numeric_limits<double>::infinity();
  constexpr std::int64_t paper = 2400;
  CHECK(LargestVirtualLagFirst{}.rotation == TokenBlocks{paper});
  CHECK(within(0.1, 255e9, 4, 17'000) == paper); // Qwen2.5-32B: 64 layers of 8 KV heads of 128, 16 tokens
  CHECK(within(0.1, 255e9, 4, 6'500) == paper);
  // A quarter of the SLO, of the rate or blocks four times as large quarter it; beyond the paper's it does not grow.
  const std::int64_t on_pcie = within(0.1, 25e9, 4, 17'000);
  CHECK(on_pcie < 300);
  CHECK(within(0.025, 25e9, 4, 17'000) == on_pcie / 4);
  CHECK(within(0.1, 25e9 / 4, 4, 17'000) == on_pcie / 4);
  CHECK(within(0.1, 25e9, 16, 17'000) == on_pcie / 4);
  CHECK(within(none, 25e9, 4, 17'000) == paper);
  CHECK(within(0.1, none, 4, 600) == 240);
  CHECK(within(none, 0, 4, 17'000) == 1);
  CHECK(within(0.001, 1e6, 4, 17'000) == 1);
}
