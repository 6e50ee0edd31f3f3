// SPDX-License-Identifier: Apache-2.0
// Composition is by role, not by position: the same policies give the same engine, and every choice has a name.
#include "sluice/engine/engine.hpp"
#include "sluice/engine/systems/orbitflow.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/policy/layout/all_layers.hpp"
#include "sluice/policy/placement/fixed_distance.hpp"
#include "sluice/policy/placement/hybrid_cache.hpp"
#include "sluice/policy/replan/every_step.hpp"
#include "sluice/policy/retention/keep_until_overwritten.hpp"
#include "sluice/report/observer/series.hpp"
#include "sluice/report/observer/summary.hpp"
#include "sluice/world/real/paced.hpp"

#include <doctest/doctest.h>

#include <type_traits>

using namespace sluice;

namespace {

// The README's example.
using MyEngine = Engine<DistancePlacement, TokenDeposit, PauseResume>;

template <class A, class B>
constexpr bool same = std::is_same_v<A, B>;

// All roles, including those that take their defaults.
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

// Neither the order nor naming a default matters.
static_assert(same<MyEngine, Engine<DistancePlacement, PauseResume, TokenDeposit>>);
static_assert(same<MyEngine, Engine<TokenDeposit, DistancePlacement, PauseResume>>);
static_assert(same<MyEngine, Engine<TokenDeposit, PauseResume, DistancePlacement>>);
static_assert(same<MyEngine, Engine<PauseResume, DistancePlacement, TokenDeposit>>);
static_assert(same<MyEngine, Engine<PauseResume, TokenDeposit, DistancePlacement>>);
static_assert(same<MyEngine, Engine<Simulated, PauseResume, PerLayer, TokenDeposit, InStep, DistancePlacement,
                                    OnBatchChange, DeadlinePool, Roofline, ResidentWeights, Fcfs>>);
static_assert(same<Engine<>, Engine<Fcfs, AllResident, ResidentWeights, Roofline, DeadlinePool, OnBatchChange,
                                    PreemptNewest, Drop, Immediate, InStep, PerLayer, Simulated>>);

// A bundle stands for its parts, even within a bundle; an empty bundle adds nothing.
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

// Any number of observers, in their order.
using Watched = Engine<Summary, DistancePlacement, Series>;
static_assert(same<Watched::observer_types, Parts<Summary, Series>>);
static_assert(same<Engine<Series, Summary>::observer_types, Parts<Series, Summary>>);
static_assert(!same<Engine<Series, Summary>, Engine<Summary, Series>>);

// With<> replaces the named roles and keeps the others and the observers.
static_assert(same<With<Engine<>, DistancePlacement, TokenDeposit, PauseResume>, MyEngine>);
static_assert(same<With<MyEngine, PreemptNewest, Drop, Immediate, AllResident>, Engine<>>);
static_assert(same<With<MyEngine, Outer>, MyEngine>);
static_assert(same<With<MyEngine>, MyEngine>);
static_assert(same<With<VllmRecompute, MoveToHost>, VllmSwap>);
static_assert(same<OrbitFlowPool::transfer_type, DeadlinePool>);
static_assert(same<With<OrbitFlowPool, FairShare>, OrbitFlow>);
static_assert(same<With<Engine<Summary>, TokenDeposit>, Engine<TokenDeposit, Summary>>);
static_assert(same<With<With<Engine<>, FairShare>, DeadlinePool>, Engine<>>);

// A constraint detects every composition error and reports it in sentences (tests/compile_fail); the constraint can be
// tested:
struct OfNoRole {};
static_assert(detail::WorksTogether<Parts<DistancePlacement, PerLayer>>);
static_assert(detail::WorksTogether<Parts<AllResident, AllLayers>>);
static_assert(detail::WorksTogether<Parts<OffloadAll, AllLayers>>); // all layers or none
static_assert(!detail::WorksTogether<Parts<DistancePlacement, AllLayers>>);
static_assert(!detail::WorksTogether<Parts<AllResident, DistancePlacement>>);
static_assert(!detail::WorksTogether<Parts<OfNoRole>>);
static_assert(detail::WorksTogether<Parts<HybridCache, EveryStep>>);
static_assert(!detail::WorksTogether<Parts<HybridCache>>); // plans that are only applied
static_assert(!detail::WorksTogether<Parts<HybridCache, EveryStep, OneStepAhead>>);
static_assert(!detail::WorksTogether<Parts<HybridCache, EveryStep, KeepUntilOverwritten>>);
static_assert(detail::WorksTogether<Parts<HybridCache, EveryStep, Paced<Simulated>>>); // real time, too

} // namespace

// All members of an engine, used or not.
template class sluice::BasicEngine<MyEngine::composition>;

TEST_CASE("an engine composed of three policies runs, and exposes them") {
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
