// SPDX-License-Identifier: Apache-2.0
// Audit: an observer that checks what every engine must guarantee, for any policies.
#pragma once

#include "sluice/policy/layout/layout.hpp"
#include "sluice/policy/layout/per_layer.hpp"
#include "sluice/report/observer/observer.hpp"

#include "engine/reckoning.hpp"
#include "support/stored_states.hpp"
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <type_traits>
#include <vector>

namespace sluice::testing {

/// Counts what happens to every request, and fails the test on an impossible sequence of events.
struct Audit {
  using role = roles::Observer;
  using hears = Events<events::Submitted, events::Refused, events::Preempted, events::Resumed, events::Ended,
                       events::Cancelled, events::Delivered, events::Planned, events::Iterated>;
  static constexpr bool wants_timeline = false;

  struct Life {
    Tokens output{0};
    Tokens delivered{0};
    Seconds last{-1};
    std::vector<Seconds> exists; ///< when each token was generated
    bool ended = false;
    bool refused = false;
    bool cancelled = false;
    bool preempted = false;
  };
  struct State {
    std::map<RequestId, Life> lives;
    Seconds now{0};
    std::int64_t iterations = 0;
    std::int64_t plans = 0;
    std::int64_t preempts = 0;
    std::int64_t broken_promises = 0; ///< requests accepted at submission and refused later
    LayerBlocks to_device{0}, to_host{0};
    Seconds stall{0};
    Reckoning reckoning;
  };
  static constexpr Seconds rounding{1e-9};

  void on(State& state, const events::Submitted& event) const {
    const RequestRow& row = event.row;
    CHECK_MESSAGE(state.lives.count(row.id) == 0, "an id is used once");
    state.lives[row.id].output = row.output(not_a_policy);
  }
  void on(State& state, const events::Refused& event) const {
    const RequestId id = event.id;
    happened(state, event.now);
    CHECK_FALSE(event.reason.empty());
    if (state.lives.count(id) == 1) ++state.broken_promises;
    CHECK_FALSE(state.lives[id].refused);
    CHECK_FALSE(state.lives[id].ended);
    state.lives[id].refused = true;
  }
  void on(State& state, const events::Preempted& event) const {
    const RequestRow& row = event.row;
    happened(state, event.now);
    ++state.preempts;
    CHECK_FALSE(state.lives[row.id].preempted);
    state.lives[row.id].preempted = true;
    if (event.kept == Kept::nothing) CHECK(row.computed.count() == 0);
    if (event.kept == Kept::host) CHECK(row.resident_layers == 0);
    if (event.kept == Kept::hidden) {
      CHECK(row.resident_layers == 0);
      CHECK_FALSE(row.holding.hidden.empty());
      CHECK(row.holding.hidden == row.holding.nowhere);
    }
  }
  void on(State& state, const events::Resumed& event) const {
    happened(state, event.now);
    CHECK(state.lives[event.row.id].preempted);
    state.lives[event.row.id].preempted = false;
  }
  void on(State& state, const events::Ended& event) const {
    const RequestRow& row = event.row;
    happened(state, event.now);
    Life& life = state.lives[row.id];
    CHECK_FALSE(life.refused);
    CHECK(life.exists.size() == static_cast<std::size_t>(row.output(not_a_policy).count()));
    CHECK(row.generated == row.output(not_a_policy));
    CHECK_MESSAGE(life.delivered == row.output(not_a_policy), "every token is delivered by the end");
    CHECK_FALSE(life.ended);
    life.ended = true;
  }
  void on(State& state, const events::Cancelled& event) const {
    const RequestRow& row = event.row;
    happened(state, event.now);
    REQUIRE_MESSAGE(state.lives.count(row.id) == 1, "a cancelled request was submitted");
    Life& life = state.lives[row.id];
    CHECK_FALSE((life.ended || life.refused || life.cancelled));
    CHECK(row.delivered == life.delivered);
    CHECK(life.preempted == (row.phase == Phase::preempted));
    life.cancelled = true;
  }
  void on(State& state, const events::Delivered& event) const {
    const Seconds when = event.when;
    Life& life = state.lives[event.row.id];
    CHECK_FALSE((life.ended || life.cancelled));
    life.delivered += event.count;
    REQUIRE_MESSAGE(life.delivered.count() <= static_cast<std::int64_t>(life.exists.size()), "no token twice");
    if (event.count.count() > 0) { // of tokens delivered together, the newest is the youngest
      const Seconds newest = life.exists[static_cast<std::size_t>(life.delivered.count() - 1)];
      CHECK_MESSAGE(when >= newest - rounding, "no token is delivered before it exists");
    }
    CHECK_MESSAGE(when >= life.last, "tokens of a request are delivered in order");
    CHECK(event.row.delivered == life.delivered);
    life.last = when;
  }
  void on(State& state, const events::Planned& event) const {
    const View& view = event.view;
    ++state.plans;
    CHECK(event.virtual_time.count() >= 0);
    CHECK(event.plan.in_flight.count() >= 0);
    CHECK(view.ledger->device().used() <= view.ledger->device().capacity());
    CHECK(view.ledger->host().used() <= view.ledger->host().capacity());
    state.reckoning.know(view);
  }
  void on(State& state, const events::Iterated& event) const {
    const IterationRecord& record = event.record;
    ++state.iterations;
    CHECK_MESSAGE(record.start >= state.now - rounding, "time never runs backwards");
    CHECK(record.duration.count() > 0);
    CHECK(record.stall.count() >= 0);
    CHECK_MESSAGE(record.device_used <= record.device_capacity, "no plan uses memory that does not exist");
    state.now = record.start + record.duration;
    state.to_device += record.to_device;
    state.to_host += record.to_host;
    state.stall += record.stall;
    state.reckoning.check(record);
    for (const Claim& claim : record.batch) {
      const RequestRow& row = record.rows[index(claim.slot)];
      CHECK_MESSAGE(!state.lives[row.id].cancelled, "a cancelled request runs no more");
      if (claim.tokens.count() > 0 && claim.tokens == row.spec.prompt + row.generated - row.computed)
        state.lives[row.id].exists.push_back(state.now);
    }
  }

 private:
  static void happened(const State& state, Seconds now) {
    CHECK_MESSAGE(now >= state.now - rounding, "events are in the order of time");
  }
};

/// The room of a request, by the layout's rule.
template <class E>
Footprint held_by(const View& view, const RequestRow& row) {
  const Geometry& geometry = view.geometry;
  const Tokens block_tokens = view.limits.block_tokens;
  if (!geometry.alike()) return footprint_of(geometry.kv(), row.holding, row.blocks, block_tokens, geometry.layers);
  return footprint<typename E::layout_type>(row.holding, row.blocks, block_tokens, geometry.layers,
                                            geometry.hidden_size());
}

/// Counts the ledger's use again from the rows: by the layout's rule, and layer by layer.
template <class E>
void check_ledger(const E& engine, bool between_iterations = true) {
  const View view = engine.view();
  Footprint counted;
  std::int64_t on_device = 0, on_host = 0, states = 0, states_here = 0, rounded_up = 0;
  for (const auto& list : {view.running, view.preempted})
    for (const Slot slot : list) {
      const RequestRow& row = view.row(slot);
      counted = counted + held_by<E>(view, row);
      // During an iteration there is memory for what it computes; a request that reuses cached blocks takes them when
      // it joins.
      const bool caches = Caches<typename E::caching_type>;
      const bool found =
          row.phase != Phase::running && (E::retention_type::finds_released || (caches && row.blocks.count() == 0));
      if (between_iterations && !found) {
        const Tokens held = row.computed + row.awaited();
        // A load that lost blocks of its tier on the way leaves their room to what is computed instead.
        if constexpr (Caches<typename E::caching_type>)
          CHECK(row.blocks >= blocks_for(held, view.limits.block_tokens));
        else
          CHECK(row.blocks == blocks_for(held, view.limits.block_tokens));
        CHECK(row.slack.count() == row.blocks.count() * view.limits.block_tokens.count() - held.count());
      }
      CHECK(row.resident_layers == view.geometry.layers - row.holding.away().count());
      for (int layer = 0; layer < view.geometry.layers; ++layer) {
        std::int64_t here = 0;
        for (std::int64_t block = 0; block < row.blocks.count(); ++block) {
          const Place place = place_of(row.holding, layer, block, view.limits.block_tokens.count());
          const std::int64_t size = size_of(view.geometry, layer, block, row.blocks.count());
          on_device += place.device ? size : 0;
          on_host += place.host ? size : 0;
          states += place.states ? 1 : 0;
          here += place.states_here ? 1 : 0;
        }
        states_here += stored_states(here, view.geometry.hidden_size(), view.limits.block_tokens);
      }
      rounded_up += (row.holding.hidden | row.holding.saved).empty() ? 0 : 1;
      CHECK_MESSAGE((row.holding.saved & row.holding.away()).empty(), "saved states are those of resident layers");
      if (!E::composition::retention_type::keeps_hidden) CHECK(row.holding.saved.empty());
    }
  CHECK(counted.device + engine.pinned() == engine.ledger().device().used());
  CHECK(counted.host == engine.ledger().host().used());
  const double states_blocks = view.geometry.hidden_size().blocks(static_cast<double>(states));
  const double with_states = static_cast<double>(on_host) + states_blocks;
  const std::int64_t with_states_here = on_device + states_here;
  if constexpr (std::is_same_v<typename E::layout_type, PerLayer>) {
    CHECK(counted.device.count() == with_states_here);
    CHECK(std::abs(static_cast<double>(counted.host.count()) - with_states) <= static_cast<double>(rounded_up));
  } else { // in whole units: at least as much
    CHECK(with_states_here <= counted.device.count());
    CHECK(with_states <= static_cast<double>(counted.host.count()));
  }
  CHECK(counted.device <= engine.ledger().device().capacity());
  CHECK(counted.host <= engine.ledger().host().capacity());
  if constexpr (Caches<typename E::caching_type> && !E::retention_type::finds_released)
    CHECK_MESSAGE(counted.host + across_layers(TokenBlocks{static_cast<std::int64_t>(engine.tiers().store().size())},
                                               view.geometry.layers) <=
                      engine.ledger().host().capacity(),
                  "KV of live requests and of ended ones share the host's memory");
  // KV has its own memory plus the memory of streamed layers, less the slots.
  const WeightsPlan& weights = engine.plan().weights;
  const double given = weights.share * (weights.streamed.count() - weights.slots) *
                       static_cast<double>(view.geometry.layer_weight_bytes.count());
  const LayerBlocks more = engine.ledger().device().capacity() - engine.port().own_blocks() - engine.port().borrowed();
  if (engine.ledger().device().capacity().count() > 0)
    CHECK(static_cast<double>(more.count()) * static_cast<double>(view.geometry.layer_block_bytes.count()) <=
          given + 1);
}

} // namespace sluice::testing
