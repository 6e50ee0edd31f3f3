// SPDX-License-Identifier: Apache-2.0
// EagerCopy: blocks copied ahead need not move when their request stops, and are dropped first.
#include "sluice/engine/engine.hpp"
#include "sluice/policy/admission/largest_virtual_lag_first.hpp"
#include "sluice/policy/layout/all_layers.hpp"
#include "sluice/policy/retention/eager_copy.hpp"
#include "sluice/policy/retention/move_to_host.hpp"

#include "engine/trials.hpp"
#include <doctest/doctest.h>

#include <map>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace {

struct WrongAnswer : EagerCopy {
  int copy_ahead(const View&, LayerBlocks) const { return 0; }
};
static_assert(Retention<EagerCopy> && CopiesAhead<EagerCopy>);
static_assert(!Retention<WrongAnswer>);
static_assert(Retention<MoveToHost> && !CopiesAhead<MoveToHost>);

struct Restless : LargestVirtualLagFirst {
  Restless() {
    first_token = Seconds{0.02};
    rotation = TokenBlocks{12};
  }
};

/// Computes, using only the rows, the blocks that each iteration must have moved to the host.
struct Reckon {
  using role = roles::Observer;
  using hears = Events<events::Preempted, events::Ended, events::Iterated>;
  static constexpr bool wants_timeline = false;
  struct Seen {
    Tokens copied{0};
    bool preempted = false;
  };
  struct State {
    std::map<RequestId, Seen> seen;
    std::int64_t due = 0; ///< of requests preempted since the last iteration
    std::int64_t preempts = 0, clean = 0, dirty = 0, to_host = 0;
  };
  int layers = 0;
  void on(State& state, const events::Preempted& event) const {
    const RequestRow& row = event.row;
    REQUIRE(event.kept != Kept::device);
    if (event.kept == Kept::nothing) return; // it had not started
    Seen& seen = state.seen[row.id];
    seen.preempted = true;
    const std::int64_t clean = seen.copied.count() / 16;
    REQUIRE(clean <= row.computed.count() / 16);
    ++state.preempts;
    state.clean += clean;
    state.dirty += row.blocks.count() - clean;
    state.due += row.blocks.count() - clean;
  }
  void on(State& state, const events::Ended& event) const { state.seen.erase(event.row.id); }
  void on(State& state, const events::Iterated& event) const {
    const IterationRecord& record = event.record;
    for (const Claim& claim : record.batch) {
      const RequestRow& row = record.rows[index(claim.slot)];
      Seen& seen = state.seen[row.id];
      const std::int64_t before = seen.preempted ? row.holding.copied.count() : seen.copied.count();
      REQUIRE(row.holding.copied.count() >= before); // the host has enough memory, so nothing is dropped
      state.due += (row.holding.copied.count() - before) / 16;
      seen = {row.holding.copied, false};
    }
    CHECK(record.to_host.count() == state.due * layers);
    state.to_host += record.to_host.count();
    state.due = 0;
  }
};

template <class R>
Reckon::State run(const Trial& trial, Lanes lanes) {
  using E = Engine<Restless, R, AllLayers, SmallCost, BasicSimulated<SmallCost>, Reckon>;
  SmallCost world;
  world.rate = BytesPerSecond{2e7};
  world.lanes = lanes;
  auto made = E::make({.limits = {.batch = trial.batch, .batch_tokens = Tokens{64}, .max_context = Tokens{256}},
                       .geometry = {trial.layers, Bytes{4096}, Bytes{1 << 20}},
                       .device_blocks = trial.device,
                       .host_blocks = LayerBlocks{100000},
                       .cost = world,
                       .backend = BasicSimulated<SmallCost>{world},
                       .observers = {Reckon{trial.layers}}});
  REQUIRE(made.has_value());
  serve_to_end(*made, trial);
  CHECK(made->ledger().host().used().count() == 0);
  return made->template observed<Reckon>();
}

} // namespace

TEST_CASE("an iteration moves to the host the dirty blocks of stopped requests, and the new copies") {
  Random random(71);
  std::int64_t preempts = 0, clean = 0, dirty = 0, copied = 0, moved = 0;
  for (int round = 0; round < 40; ++round) {
    Trial trial = random_trial(random);
    trial.device = LayerBlocks{trial.layers * static_cast<std::int64_t>(18 + random.below(10))};
    const Lanes lanes = round % 2 == 0 ? Lanes::shared : Lanes::each_way;
    const Reckon::State eager = run<EagerCopy>(trial, lanes);
    const Reckon::State plain = run<BasicMoveToHost<true>>(trial, lanes);
    CHECK(plain.clean == 0);
    preempts += eager.preempts;
    clean += eager.clean;
    dirty += eager.dirty;
    copied += eager.to_host;
    moved += plain.to_host;
  }
  CHECK(preempts > 500);
  CHECK(clean > dirty);         // the link has time for most of it
  CHECK(dirty <= 2 * preempts); // the block being filled, and one that has just become full
  CHECK(copied > 0);
  CHECK(moved > 0);
}
