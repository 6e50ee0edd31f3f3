// SPDX-License-Identifier: Apache-2.0
// Retention: which blocks of a stopped request remain, as the engine carries it out.
#include "sluice/engine/engine.hpp"
#include "sluice/policy/retention/hidden_states.hpp"
#include "sluice/policy/retention/keep_until_needed.hpp"
#include "sluice/policy/retention/keep_until_overwritten.hpp"
#include "sluice/policy/retention/move_to_host.hpp"

#include "engine/trials.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

using namespace sluice;
using namespace sluice::testing;

namespace {

/// A minimal Retention.
struct Forgets {
  using role = roles::Retention;
  static constexpr bool returns_layerwise = true;
  static constexpr bool finds_released = false;
  static constexpr bool keeps_hidden = false;
  static constexpr bool copies_ahead = false;
  Kept on_preempt(const View&, const RequestRow&) const { return Kept::nothing; }
  Kept on_reclaim(const View&, const RequestRow&) const { return Kept::nothing; }
};
struct KeepsByBool : Forgets {
  bool on_preempt(const View&, const RequestRow&) const { return false; }
};
struct NeverYields : Forgets {
  void on_reclaim() const {}
};
struct SaysNotHow : Forgets {
  struct returns_layerwise {};
};

static_assert(Retention<Forgets> && Retention<Drop> && Retention<MoveToHost> && Retention<BasicMoveToHost<true>>);
static_assert(Retention<KeepUntilNeeded> && Retention<KeepUntilOverwritten>);
static_assert(!Retention<KeepsByBool> && !Retention<NeverYields> && !Retention<SaysNotHow>);

/// Sums what was computed, preempted and moved.
struct Count {
  using role = roles::Observer;
  using hears = Events<events::Preempted, events::Ended, events::Iterated>;
  static constexpr bool wants_timeline = false;
  struct State {
    Tokens computed{0};
    LayerBlocks to_device{0}, to_host{0};
    std::int64_t preempted = 0;
    std::int64_t nothing = 0, host = 0, device = 0, hidden = 0;
    Tokens least{0}; ///< tokens that the ended requests had to compute at least
  };
  void on(State& state, const events::Preempted& event) const {
    ++state.preempted;
    ++(event.kept == Kept::nothing  ? state.nothing
       : event.kept == Kept::host   ? state.host
       : event.kept == Kept::hidden ? state.hidden
                                    : state.device);
  }
  void on(State& state, const events::Ended& event) const {
    state.least +=
        event.row.spec.prompt + event.row.output(not_a_policy) - Tokens{1}; // the last token's KV is never needed
  }
  void on(State& state, const events::Iterated& event) const {
    const IterationRecord& record = event.record;
    state.computed += record.tokens;
    state.to_device += record.to_device;
    state.to_host += record.to_host;
  }
};

/// Many requests in so little memory that they must be preempted in turn.
template <class Retains>
Count::State press(std::uint64_t seed, LayerBlocks host) {
  using E = Engine<Retains, SmallCost, BasicSimulated<SmallCost>, Count>;
  auto made = E::make({.limits = {.batch = 8, .batch_tokens = Tokens{64}, .max_context = Tokens{256}},
                       .geometry = {4, Bytes{4096}, Bytes{1 << 20}, Bytes{2048}},
                       .device_blocks = LayerBlocks{4 * 18},
                       .host_blocks = host,
                       .cost = SmallCost{},
                       .backend = BasicSimulated<SmallCost>{SmallCost{}}});
  REQUIRE(made.has_value());
  Random random(seed);
  for (int i = 0; i < 20; ++i)
    REQUIRE(made->submit({Seconds{0}, Tokens{1 + random.below(100)}, Tokens{1 + random.below(100)}, {}}).has_value());
  while (made->step() == Stepped::ran) check_ledger(*made);
  REQUIRE(made->alive() == 0);
  return made->template observed<Count>();
}

constexpr LayerBlocks plenty{100'000};

} // namespace

TEST_CASE("kept KV is not recomputed, dropped KV is, and KV that stays crosses no link") {
  std::int64_t preempted = 0;
  for (std::uint64_t seed = 1; seed <= 15; ++seed) {
    CAPTURE(seed);
    const Count::State dropped = press<Drop>(seed, plenty);
    CHECK(dropped.nothing == dropped.preempted);
    CHECK((dropped.computed > dropped.least) == (dropped.preempted > 0));
    CHECK(dropped.to_device + dropped.to_host == LayerBlocks{0});
    preempted += dropped.preempted;

    const Count::State moved = press<MoveToHost>(seed, plenty);
    CHECK(moved.host == moved.preempted);
    CHECK(moved.computed == moved.least);
    CHECK(moved.to_device == moved.to_host); // everything that left returned

    const Count::State states = press<HiddenStates>(seed, plenty);
    CHECK(states.hidden == states.preempted);
    CHECK(states.computed == states.least);
    // All KV of a preempted request returns; hidden states of requests that are never preempted are written too.
    CHECK(states.to_device <= states.to_host);
    // Hidden states are half as large as K and V here, and are kept for at least some layers.
    if (states.preempted == moved.preempted && moved.preempted > 0) CHECK(states.to_device < moved.to_device);

    const Count::State kept = press<KeepUntilNeeded>(seed, plenty);
    CHECK(kept.device == kept.preempted);
    CHECK(kept.computed == kept.least);
    CHECK(kept.to_device == kept.to_host);
    // Moved at once, all of it would have left.
    if (kept.preempted == moved.preempted) CHECK(kept.to_host <= moved.to_host);
  }
  CHECK(preempted > 50); // otherwise the test would check little
}

TEST_CASE("KV that does not fit on the host is dropped, and reported as dropped") {
  std::int64_t nothing = 0, host = 0;
  for (std::uint64_t seed = 1; seed <= 15; ++seed) {
    const Count::State none = press<MoveToHost>(seed, LayerBlocks{0});
    CHECK(none.nothing == none.preempted);
    CHECK(none.to_host == LayerBlocks{0});
    const Count::State little = press<MoveToHost>(seed, LayerBlocks{24});
    nothing += little.nothing;
    host += little.host;
  }
  CHECK(nothing > 0);
  CHECK(host > 0);
}

TEST_CASE("HiddenStates: fetching and projecting end together, to within whole layers") {
  Random random(5);
  for (int round = 0; round < 1000; ++round) {
    const int layers = 1 + static_cast<int>(random.below(80));
    const double projected = random.uniform(), states = random.uniform(), kv = random.uniform();
    const auto seconds = [&](int count) { return std::max(count * projected, count * states + (layers - count) * kv); };
    const int chosen = hidden_layer_count(layers, projected, states, kv);
    for (int count = 0; count <= layers; ++count) CHECK(seconds(chosen) <= seconds(count));
    // If both kinds are used, neither waits for the other by more than one layer of each.
    if (chosen > 0 && chosen < layers && states < kv)
      CHECK(std::abs(chosen * projected - (chosen * states + (layers - chosen) * kv)) <= projected + kv);
  }
  CHECK(hidden_layer_count(40, 0.0, 1.0, 2.0) == 40); // projecting is free: the smaller of the two
  CHECK(hidden_layer_count(40, 1.0, 2.0, 1.0) == 0);  // larger than K and V: grouped queries
}
