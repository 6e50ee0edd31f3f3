// SPDX-License-Identifier: Apache-2.0
// Audit: an observer that holds an engine to what every engine owes, whatever its policies.
#pragma once

#include "sluice/observer/observer.hpp"

#include <doctest/doctest.h>

#include <map>

namespace sluice::testing {

/// Counts what happens to every request, and fails the test where it could not have happened.
struct Audit {
  using role = roles::Observer;
  static constexpr bool wants_timeline = false;

  struct Life {
    Tokens output{0};
    Tokens delivered{0};
    Seconds last{-1};
    bool ended = false;
    bool refused = false;
    bool parked = false;
  };
  struct State {
    std::map<RequestId, Life> lives;
    Seconds now{0};
    std::int64_t iterations = 0;
    std::int64_t plans = 0;
    std::int64_t parks = 0;
    std::int64_t broken_promises = 0; ///< accepted at submission, refused later
    LayerBlocks to_device{0}, to_host{0};
    Seconds stall{0};
  };

  void submitted(State& state, const RequestRow& row) const {
    CHECK_MESSAGE(state.lives.count(row.id) == 0, "an id is used once");
    state.lives[row.id].output = row.spec.output;
  }
  void refused(State& state, RequestId id, const RequestSpec&, Seconds, std::string_view reason) const {
    CHECK_FALSE(reason.empty());
    if (state.lives.count(id) == 1) ++state.broken_promises;
    state.lives[id].refused = true;
  }
  void parked(State& state, const RequestRow& row, Kept kept, Seconds) const {
    ++state.parks;
    CHECK_FALSE(state.lives[row.id].parked);
    state.lives[row.id].parked = true;
    if (kept == Kept::nothing) CHECK(row.computed.count() == 0);
    if (kept == Kept::host) CHECK(row.resident_layers == 0);
  }
  void resumed(State& state, const RequestRow& row, Seconds) const {
    CHECK(state.lives[row.id].parked);
    state.lives[row.id].parked = false;
  }
  void ended(State& state, const RequestRow& row, Seconds) const {
    Life& life = state.lives[row.id];
    CHECK(row.generated == row.spec.output);
    CHECK_MESSAGE(life.delivered == row.spec.output, "every token is delivered by the end");
    CHECK_FALSE(life.ended);
    life.ended = true;
  }
  void delivered(State& state, const RequestRow& row, Tokens count, Seconds when) const {
    Life& life = state.lives[row.id];
    life.delivered += count;
    CHECK_MESSAGE(life.delivered <= row.generated, "no token is delivered before it exists");
    CHECK_MESSAGE(when >= life.last, "tokens of a request come in order");
    CHECK(row.delivered == life.delivered);
    life.last = when;
  }
  void planned(State& state, const View&, const Plan& plan, Seconds virtual_time, Seconds) const {
    ++state.plans;
    CHECK(virtual_time.count() >= 0);
    CHECK(plan.in_flight.count() >= 0);
  }
  template <class Replay>
  void iterated(State& state, const IterationRecord& record, const Replay&) const {
    ++state.iterations;
    CHECK_MESSAGE(record.start >= state.now - Seconds{1e-9}, "time never runs backwards");
    CHECK(record.duration.count() > 0);
    CHECK(record.stall.count() >= 0);
    CHECK_MESSAGE(record.device_used <= record.device_capacity, "no plan uses memory that does not exist");
    state.now = record.start + record.duration;
    state.to_device += record.to_device;
    state.to_host += record.to_host;
    state.stall += record.stall;
  }
};

/// Counts again, from the rows, what the ledger says is taken.
template <class E>
void check_ledger(const E& engine) {
  const View view = engine.view();
  Footprint counted;
  for (const auto& list : {view.running, view.parked})
    for (const Slot slot : list) {
      const RequestRow& row = view.row(slot);
      counted = counted + footprint<typename E::layout_type>(row.holding, row.blocks, view.limits.block_tokens,
                                                             view.geometry.layers, view.geometry.hidden_size());
      CHECK(row.blocks == blocks_for(row.computed, view.limits.block_tokens));
      CHECK(row.slack.count() == row.blocks.count() * view.limits.block_tokens.count() - row.computed.count());
      CHECK(row.resident_layers == view.geometry.layers - row.holding.away().count());
    }
  CHECK(counted.device == engine.ledger().device().used());
  CHECK(counted.host == engine.ledger().host().used());
}

} // namespace sluice::testing
