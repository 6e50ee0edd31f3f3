// SPDX-License-Identifier: Apache-2.0
// KeepCopied, with an Admission that names who runs next: who gives up memory first, and whose KV returns first.
#include "sluice/engine/engine.hpp"
#include "sluice/policy/admission/skip_join_mlfq.hpp"
#include "sluice/policy/layout/all_layers.hpp"
#include "sluice/policy/retention/keep_copied.hpp"

#include "engine/trials.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace {

static_assert(Retention<KeepCopied> && CopiesAhead<KeepCopied>);

/// Quanta of an iteration, and the last answer for the test to read.
struct Noted : SkipJoinMlfq {
  std::vector<Slot>* next = nullptr;
  Noted() {
    queue.quantum = Seconds{1e-3};
    queue.starvation = Seconds{0.3};
  }
  void propose(const View& view, State& state, Proposal& proposal, const Estimate& estimate) const {
    SkipJoinMlfq::propose(view, state, proposal, estimate);
    if (next != nullptr) *next = proposal.next;
  }
};

/// Layers of the requests on the device, and whether they have KV at all.
struct AsideState {
  int layers = 0;
  bool empty = true;
  Tokens copied{0};
};

struct Orders {
  int gave = 0;     ///< steps in which a preempted request gave up layers
  int returned = 0; ///< steps in which KV of one that does not run came back
  int clean = 0;    ///< requests that stopped, were copied completely and stayed on the device
};

template <class L>
void check_orders(const Trial& trial, Lanes lanes, Orders& orders) {
  using E = Engine<Noted, KeepCopied, L, SmallCost, BasicSimulated<SmallCost>>;
  SmallCost world;
  world.rate = BytesPerSecond{2e7};
  world.lanes = lanes;
  std::vector<Slot> next;
  Noted admission;
  admission.next = &next;
  auto made = E::make({.limits = {.batch = trial.batch, .batch_tokens = Tokens{64}, .max_context = Tokens{256}},
                       .geometry = {trial.layers, Bytes{4096}, Bytes{1 << 20}},
                       .device_blocks = trial.device,
                       .host_blocks = LayerBlocks{100000},
                       .cost = world,
                       .backend = BasicSimulated<SmallCost>{world},
                       .admission = admission});
  REQUIRE(made.has_value());
  std::map<RequestId, AsideState> before;
  serve_arrivals(*made, trial, [&] {
    check_ledger(*made);
    const View view = made->view();
    std::map<RequestId, AsideState> after;
    std::vector<RequestId> order; // the preempted ones, by when they run next
    for (const Slot slot : view.preempted)
      after[view.row(slot).id] = {view.row(slot).resident_layers, view.row(slot).blocks.count() == 0,
                                  view.row(slot).holding.copied};
    for (const Slot slot : view.running) before.erase(view.row(slot).id); // only those that stay aside are compared
    for (const Slot slot : next)
      if (after.count(view.row(slot).id) == 1) order.push_back(view.row(slot).id);
    REQUIRE(order.size() == after.size());
    bool gave = false, returned = false;
    for (std::size_t i = 0; i < order.size(); ++i) {
      const auto was = before.find(order[i]);
      const AsideState is = after[order[i]];
      if (was == before.end() || was->second.empty) continue;
      if (is.empty || is.layers < was->second.layers) { // all behind it have given up everything
        gave = true;
        for (std::size_t k = i + 1; k < order.size(); ++k) {
          const AsideState& behind = after[order[k]];
          CHECK((behind.empty || behind.layers == 0));
        }
      } else if (is.layers > was->second.layers) { // all before it are back
        returned = true;
        for (std::size_t k = 0; k < i; ++k) {
          const AsideState& ahead = after[order[k]];
          CHECK((ahead.empty || ahead.layers == trial.layers));
        }
        CHECK(view.ledger->device().free().count() >= trial.batch * trial.layers);
      }
      if (was->second.copied < is.copied) ++orders.clean;
    }
    CHECK_FALSE((gave && returned)); // no request returns into the room that another one has just given up
    orders.gave += gave;
    orders.returned += returned;
    before = after;
    for (const Slot slot : view.running)
      before[view.row(slot).id] = {view.row(slot).resident_layers, false, view.row(slot).holding.copied};
  });
  CHECK(made->ledger().host().used().count() == 0);
  CHECK(made->ledger().device().used().count() == 0);
}

} // namespace

TEST_CASE("the request that runs last gives up its memory first, and the one that runs first returns first") {
  Random random(73);
  Orders layerwise, whole;
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    Trial trial = random_trial(random);
    trial.device = LayerBlocks{trial.layers * static_cast<std::int64_t>(18 + random.below(10))};
    const Lanes lanes = round % 2 == 0 ? Lanes::shared : Lanes::each_way;
    check_orders<PerLayer>(trial, lanes, layerwise);
    check_orders<AllLayers>(trial, lanes, whole);
  }
  for (const Orders& orders : {layerwise, whole}) {
    CHECK(orders.gave > 50);
    CHECK(orders.returned > 20);
    CHECK(orders.clean > 50); // copied while they do not run
  }
}
