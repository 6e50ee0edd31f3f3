// SPDX-License-Identifier: Apache-2.0
// HiddenStates: the iteration that computes states saves them, and they are available when their request is preempted.
#include "sluice/engine/engine.hpp"
#include "sluice/policy/retention/hidden_states.hpp"

#include "engine/trials.hpp"
#include <doctest/doctest.h>

#include <map>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace {

/// Computes, using only the rows, the blocks that each iteration must have moved to the host: every request is resident
/// or preempted.
struct ReckonStates {
  using role = roles::Observer;
  using hears = Events<events::Preempted, events::Ended, events::Iterated>;
  static constexpr bool wants_timeline = false;
  struct Seen {
    LayerSet saved;
    std::int64_t blocks = 0;
    bool away = false; ///< preempted, with states on the host
  };
  struct State {
    std::map<RequestId, Seen> seen;
    std::int64_t due = 0;                            ///< layer blocks of requests preempted since the last iteration
    std::int64_t hidden = 0, whole = 0, dropped = 0; ///< preempted requests, by their remaining blocks
    std::int64_t saving = 0, unsaved = 0,
                 given_up = 0;            ///< requests that started to save, or not; that lost their states
    std::int64_t returned_without = 0;    ///< of the last: requests that lost them when they returned
    std::vector<std::int64_t> iterations; ///< layer blocks that each iteration moved out, and that the host then had
    Seconds end{0};
  };
  int layers = 0;
  HiddenSize size;

  void on(State& state, const events::Preempted& event) const {
    const RequestRow& row = event.row;
    Seen& seen = state.seen[row.id];
    if (event.kept == Kept::nothing) {
      ++state.dropped;
      seen = {};
      return;
    }
    CHECK(row.holding.saved.empty()); // no part is resident
    if (event.kept == Kept::hidden) {
      ++state.hidden;
      CHECK_MESSAGE(row.holding.hidden == seen.saved, "the host has the states that were saved, and no others");
      // K and V of the other layers move, those of the saved layers do not.
      state.due += seen.blocks * (layers - seen.saved.count());
    } else {
      ++state.whole;
      CHECK(row.holding.host == LayerSet::all(layers));
      state.due += seen.blocks * layers;
    }
    seen.saved = row.holding.hidden;
    seen.away = true;
  }
  void on(State& state, const events::Ended& event) const { state.seen.erase(event.row.id); }
  void on(State& state, const events::Iterated& event) const {
    const IterationRecord& record = event.record;
    for (const Claim& claim : record.batch) {
      const RequestRow& row = record.rows[index(claim.slot)];
      const LayerSet saved = row.holding.saved;
      Seen& seen = state.seen[row.id];
      if (row.computed.count() == 0 && claim.tokens.count() > 0) { // it starts
        ++(saved.empty() ? state.unsaved : state.saving);
        seen.blocks = 0;
      } else {
        CHECK_MESSAGE((saved.empty() || saved == seen.saved), "all saved states remain, or none");
        state.given_up += !seen.saved.empty() && saved.empty() ? 1 : 0;
        state.returned_without += seen.away && !seen.saved.empty() && saved.empty() ? 1 : 0;
      }
      state.due += size.room((row.blocks.count() - seen.blocks) * saved.count()).count();
      seen = {saved, row.blocks.count(), false};
    }
    CHECK(record.to_host.count() == state.due);
    state.iterations.push_back(record.to_host.count());
    state.iterations.push_back(record.host_used.count());
    state.due = 0;
    state.end = record.start + record.duration;
  }
};

/// The engine asks every policy in every step.
struct Asked : Fcfs {
  static constexpr bool steady = false;
};

template <class Admits>
ReckonStates::State run(const Trial& trial, Bytes states, const SmallCost& world) {
  using E = Engine<Admits, HiddenStates, SmallCost, BasicSimulated<SmallCost>, ReckonStates>;
  auto config = trial_config<E>(trial, world, Bytes{1 << 20}, world);
  config.geometry.layer_hidden_bytes = states;
  config.observers = {ReckonStates{trial.layers, config.geometry.hidden_size()}};
  auto made = E::make(config);
  REQUIRE(made.has_value());
  serve_arrivals(*made, trial, [&] {
    check_ledger(*made);
    CHECK(made->ledger().host().used() <= trial.host);
  });
  CHECK(made->ledger().host().used().count() == 0);
  return made->template observed<ReckonStates>();
}

} // namespace

TEST_CASE(
    "an iteration moves to the host the states that it computes, and K and V of preempted requests' other layers") {
  Random random(73);
  std::int64_t hidden = 0, whole = 0, given_up = 0, unsaved = 0, returned_without = 0;
  for (int round = 0; round < (all_rounds ? 400 : 60); ++round) {
    CAPTURE(round);
    Trial trial = random_trial(random);
    trial.device = LayerBlocks{trial.layers * static_cast<std::int64_t>(16 + random.below(10))};
    SmallCost world;
    world.rate = BytesPerSecond{2e6 + 2e7 * random.uniform()};
    world.per_token =
        Seconds{random.below(3) == 0 ? 1e-6 : 3e-4 * random.uniform()}; // projecting pays off for few layers or many
    const Bytes states{1000 + static_cast<std::int64_t>(random.below(4000))};
    trial.host = LayerBlocks{100000};
    const ReckonStates::State roomy = run<Fcfs>(trial, states, world);
    CHECK(roomy.given_up + roomy.returned_without == 0);
    CHECK(roomy.dropped == 0);
    CHECK((roomy.hidden == 0 || roomy.saving > 0));
    hidden += roomy.hidden;
    trial.host = LayerBlocks{static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(40 * trial.layers)))};
    const ReckonStates::State tight = run<Fcfs>(trial, states, world);
    whole += tight.whole;
    given_up += tight.given_up;
    unsaved += tight.unsaved;
    returned_without += tight.returned_without;
  }
  if (!all_rounds) return;
  CHECK(hidden > 100); // otherwise the test would check little
  CHECK(whole > 10);
  CHECK(given_up > 10);
  CHECK(unsaved > 10);
  CHECK(returned_without > 0);
}

TEST_CASE("a steady step saves as much as a step that asks every policy") {
  Random random(74);
  for (int round = 0; round < 30; ++round) {
    CAPTURE(round);
    Trial trial = random_trial(random);
    if (round % 2 == 0) trial.host = LayerBlocks{trial.layers * static_cast<std::int64_t>(random.below(40))};
    SmallCost world;
    world.rate = BytesPerSecond{2e7};
    const ReckonStates::State steady = run<Fcfs>(trial, Bytes{3000}, world);
    const ReckonStates::State asked = run<Asked>(trial, Bytes{3000}, world);
    CHECK(steady.iterations == asked.iterations);
    CHECK(steady.end == asked.end);
  }
}
