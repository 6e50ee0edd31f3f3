// SPDX-License-Identifier: Apache-2.0
// Retention: what remains of a request that does not run, as the engine makes it happen.
#include "sluice/engine/engine.hpp"
#include "sluice/retention/hidden_states.hpp"
#include "sluice/retention/keep_until_needed.hpp"
#include "sluice/retention/keep_until_overwritten.hpp"
#include "sluice/retention/move_to_host.hpp"

#include "engine/trials.hpp"
#include "support/silent_observer.hpp"
#include <doctest/doctest.h>

#include <algorithm>

using namespace sluice;
using namespace sluice::testing;

namespace {

/// The least that is a Retention.
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

/// Adds up what was computed, preempted and moved.
struct Count : SilentObserver {
  struct State {
    Tokens computed{0};
    LayerBlocks to_device{0}, to_host{0};
    std::int64_t preempted = 0;
    std::int64_t nothing = 0, host = 0, device = 0, hidden = 0;
    Tokens least{0}; ///< of those who ended: what had to be computed at least
  };
  void preempted(State& state, const RequestRow&, Kept kept, Seconds) const {
    ++state.preempted;
    ++(kept == Kept::nothing  ? state.nothing
       : kept == Kept::host   ? state.host
       : kept == Kept::hidden ? state.hidden
                              : state.device);
  }
  void ended(State& state, const RequestRow& row, Seconds) const {
    state.least += row.spec.prompt + row.spec.output - Tokens{1}; // the last token's KV is never needed
  }
  template <class Replay>
  void iterated(State& state, const IterationRecord& record, const Replay&) const {
    state.computed += record.tokens;
    state.to_device += record.to_device;
    state.to_host += record.to_host;
  }
};

/// Many requests in little memory, one after the other of which must give way.
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

TEST_CASE("what is kept is not computed again, what is dropped is; what is not moved crosses no link") {
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
    CHECK(moved.to_device == moved.to_host); // all that went out came back

    const Count::State states = press<HiddenStates>(seed, plenty);
    CHECK(states.hidden == states.preempted);
    CHECK(states.computed == states.least);
    // All of a preempted request comes back; hidden states of those that are never preempted are written as well.
    CHECK(states.to_device <= states.to_host);
    // Hidden states are half of what K and V are here, and at least some layers are kept so.
    if (states.preempted == moved.preempted && moved.preempted > 0) CHECK(states.to_device < moved.to_device);

    const Count::State kept = press<KeepUntilNeeded>(seed, plenty);
    CHECK(kept.device == kept.preempted);
    CHECK(kept.computed == kept.least);
    CHECK(kept.to_device == kept.to_host);
    // Had it been moved at once, all of it would have gone.
    if (kept.preempted == moved.preempted) CHECK(kept.to_host <= moved.to_host);
  }
  CHECK(preempted > 50); // or the test tests little
}

TEST_CASE("what finds no room on the host is dropped, and said to be") {
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

TEST_CASE("HiddenStates: fetching and projecting end together, as nearly as whole layers let them") {
  Random random(5);
  for (int round = 0; round < 1000; ++round) {
    const int layers = 1 + static_cast<int>(random.below(80));
    const double projected = random.uniform(), states = random.uniform(), kv = random.uniform();
    const auto seconds = [&](int count) { return std::max(count * projected, count * states + (layers - count) * kv); };
    const int chosen = hidden_layer_count(layers, projected, states, kv);
    for (int count = 0; count <= layers; ++count) CHECK(seconds(chosen) <= seconds(count));
    // Where both kinds are used, the one does not wait for the other by more than a layer of each.
    if (chosen > 0 && chosen < layers && states < kv)
      CHECK(std::abs(chosen * projected - (chosen * states + (layers - chosen) * kv)) <= projected + kv);
  }
  CHECK(hidden_layer_count(40, 0.0, 1.0, 2.0) == 40); // projecting for nothing: the smaller of the two
  CHECK(hidden_layer_count(40, 1.0, 2.0, 1.0) == 0);  // larger than K and V: grouped queries
}
