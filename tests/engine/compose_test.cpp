// SPDX-License-Identifier: Apache-2.0
// Composition: by role and not by position; the same policies are the same engine; every choice has a name.
#include "sluice/device/named.hpp"
#include "sluice/engine/engine.hpp"
#include "sluice/layout/all_layers.hpp"
#include "sluice/model/named.hpp"
#include "sluice/observer/series.hpp"
#include "sluice/observer/summary.hpp"
#include "sluice/placement/fixed_distance.hpp"
#include "sluice/systems/orbitflow.hpp"
#include "sluice/systems/vllm.hpp"

#include <doctest/doctest.h>

#include <type_traits>

using namespace sluice;

namespace {

// As the README has it.
using MyEngine = Engine<DistancePlacement, TokenDeposit, PauseResume>;

template <class A, class B>
constexpr bool same = std::is_same_v<A, B>;

// Every choice, those not made included.
static_assert(same<MyEngine::admission_type, Fcfs>);
static_assert(same<MyEngine::placement_type, DistancePlacement>);
static_assert(same<MyEngine::weights_type, ResidentWeights>);
static_assert(same<MyEngine::cost_type, Roofline>);
static_assert(same<MyEngine::transfer_type, DeadlinePool>);
static_assert(same<MyEngine::replan_type, OnBatchChange>);
static_assert(same<MyEngine::relief_type, PauseLargest>);
static_assert(same<MyEngine::retention_type, KeepUntilNeeded>);
static_assert(same<MyEngine::delivery_type, TokenDeposit>);
static_assert(same<MyEngine::lookahead_type, InStep>);
static_assert(same<MyEngine::layout_type, PerLayer>);
static_assert(same<MyEngine::backend_type, Simulated>);
static_assert(same<MyEngine::observer_types, Parts<>>);

// The order does not matter, nor whether a default is named.
static_assert(same<MyEngine, Engine<DistancePlacement, PauseResume, TokenDeposit>>);
static_assert(same<MyEngine, Engine<TokenDeposit, DistancePlacement, PauseResume>>);
static_assert(same<MyEngine, Engine<TokenDeposit, PauseResume, DistancePlacement>>);
static_assert(same<MyEngine, Engine<PauseResume, DistancePlacement, TokenDeposit>>);
static_assert(same<MyEngine, Engine<PauseResume, TokenDeposit, DistancePlacement>>);
static_assert(same<MyEngine, Engine<Simulated, PauseResume, PerLayer, TokenDeposit, InStep, DistancePlacement,
                                    OnBatchChange, DeadlinePool, Roofline, ResidentWeights, Fcfs>>);
static_assert(same<Engine<>, Engine<Fcfs, AllResident, ResidentWeights, Roofline, DeadlinePool, OnBatchChange,
                                    PreemptNewest, Drop, Immediate, InStep, PerLayer, Simulated>>);

// A bundle is its parts, also within a bundle, and an empty one is nothing.
struct Nothing {
  using parts = Parts<>;
};
struct Inner {
  using parts = Parts<PauseResume, Nothing>;
};
struct Outer {
  using parts = Parts<TokenDeposit, Inner, DistancePlacement>;
};
static_assert(same<MyEngine, Engine<DistancePlacement, TokenDeposit, PauseLargest, KeepUntilNeeded>>);
static_assert(same<MyEngine, Engine<Outer>>);
static_assert(same<Engine<Nothing>, Engine<>>);

// Observers are any number, and their order is theirs.
using Watched = Engine<Summary, DistancePlacement, Series>;
static_assert(same<Watched::observer_types, Parts<Summary, Series>>);
static_assert(same<Engine<Series, Summary>::observer_types, Parts<Series, Summary>>);
static_assert(!same<Engine<Series, Summary>, Engine<Summary, Series>>);

// With<> replaces the roles that it names and keeps the others, the observers too.
static_assert(same<With<Engine<>, DistancePlacement, TokenDeposit, PauseResume>, MyEngine>);
static_assert(same<With<MyEngine, PreemptNewest, Drop, Immediate, AllResident>, Engine<>>);
static_assert(same<With<MyEngine, Outer>, MyEngine>);
static_assert(same<With<MyEngine>, MyEngine>);
static_assert(same<With<VllmRecompute, MoveToHost>, VllmSwap>);
static_assert(same<OrbitFlowPool::transfer_type, DeadlinePool>);
static_assert(same<With<OrbitFlowPool, FairShare>, OrbitFlow>);
static_assert(same<With<Engine<Summary>, TokenDeposit>, Engine<TokenDeposit, Summary>>);
static_assert(same<With<With<Engine<>, FairShare>, DeadlinePool>, Engine<>>);

// Whatever is wrong with a composition is told as sentences (tests/compile_fail), from a question that can be asked:
struct OfNoRole {};
static_assert(detail::WorksTogether<Parts<DistancePlacement, PerLayer>>);
static_assert(detail::WorksTogether<Parts<AllResident, AllLayers>>);
static_assert(detail::WorksTogether<Parts<OffloadAll, AllLayers>>); // all layers, or none
static_assert(!detail::WorksTogether<Parts<DistancePlacement, AllLayers>>);
static_assert(!detail::WorksTogether<Parts<AllResident, DistancePlacement>>);
static_assert(!detail::WorksTogether<Parts<OfNoRole>>);

} // namespace

// All of an engine, used or not.
template class sluice::BasicEngine<MyEngine::composition>;

TEST_CASE("an engine composed of three names runs, and remembers what it was made of") {
  const ModelShape shape = llama3_8b();
  const Roofline cost{shape, a5000()};
  const Limits limits{.batch = 4};
  auto made = MyEngine::make({.limits = limits,
                              .geometry = {shape.layers, shape.layer_block_bytes(limits.block_tokens), Bytes{0}},
                              .device_blocks = LayerBlocks{32 * 20},
                              .host_blocks = LayerBlocks{32 * 1000},
                              .cost = cost,
                              .backend = Simulated{cost}});
  REQUIRE(made.has_value());
  REQUIRE(made->submit({.prompt = Tokens{20}, .output = Tokens{3}, .slo = {}}).has_value());
  int steps = 0;
  while (made->step() == Stepped::ran) ++steps;
  CHECK(steps == 3);
  CHECK(made->alive() == 0);
  CHECK(made->now().count() > 0);
}
