// SPDX-License-Identifier: Apache-2.0
// Conservation for a model with KV in groups, of the engines that move whole requests or single layers that only grow;
// and the refusal of the others.
#include "sluice/engine/systems/apt_serve.hpp"
#include "sluice/engine/systems/confluence.hpp"
#include "sluice/engine/systems/ellm.hpp"
#include "sluice/engine/systems/fastserve.hpp"
#include "sluice/engine/systems/hcache.hpp"
#include "sluice/engine/systems/kvpr.hpp"
#include "sluice/engine/systems/neo.hpp"
#include "sluice/engine/systems/orbitflow.hpp"
#include "sluice/engine/systems/orbitflow_baselines.hpp"
#include "sluice/engine/systems/other_admissions.hpp"
#include "sluice/engine/systems/pie.hpp"
#include "sluice/engine/systems/prefix_tiers.hpp"
#include "sluice/engine/systems/scorpio.hpp"
#include "sluice/engine/systems/streamed_weights.hpp"
#include "sluice/engine/systems/superinfer.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/policy/lookahead/one_step_ahead.hpp"
#include "sluice/policy/placement/all_resident.hpp"
#include "sluice/policy/replan/every_step.hpp"
#include "sluice/policy/retention/keep_until_needed.hpp"

#include "../../examples/tools/engines/variants.hpp"
#include "engine/restless.hpp"
#include "engine/trials.hpp"
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <string>

namespace {
using namespace sluice;
using namespace engines;
using sluice::testing::Trial;

using sluice::testing::Restless;
using sluice::testing::ShortQuanta;
using Impatient = With<FastServe, ShortQuanta>;
using Copying = With<SuperInfer, Restless>;
using CopyingPerLayer = Engine<Restless, EagerCopy>;
using Keeping = Engine<AllResident, KeepUntilNeeded, EveryStep>;
using FoundAhead = With<VllmPrefixCaching, OneStepAhead>;
using SwapAhead = Engine<OneStepAhead, MoveToHost, EveryStep>;
using SwappedDistance = With<OrbitFlow, MoveToHost>;
using EveryStateFound = With<VllmRecompute, KeepUntilOverwrittenAt<EveryBlock>>;
using PartingStatesFound = With<VllmRecompute, KeepUntilOverwrittenAt<BranchPoints>>;
using SelectNEvaluated = With<SelectN, SloInterval>;
using SelectNDistance = With<SelectN, DistancePlacement, PauseResume>;
using Loaded = With<VllmSwap, LoadAware>;
using CopiedDistance = Engine<DistancePlacement, EagerCopy>;

SLUICE_CONSERVES_GROUPS(VllmRecompute)
SLUICE_CONSERVES_GROUPS(VllmSwap)
SLUICE_CONSERVES_GROUPS(VllmPrefixCaching)
SLUICE_CONSERVES_GROUPS(EveryStateFound)
SLUICE_CONSERVES_GROUPS(PartingStatesFound)
SLUICE_CONSERVES_GROUPS(SwapAhead)
SLUICE_CONSERVES_GROUPS(OneAtATime)
SLUICE_CONSERVES_GROUPS(SjfOracle)
SLUICE_CONSERVES_GROUPS(Scorpio)
SLUICE_CONSERVES_GROUPS(FastServe)
SLUICE_CONSERVES_GROUPS(Impatient)
SLUICE_CONSERVES_GROUPS(SuperInfer)
SLUICE_CONSERVES_GROUPS(Copying)
SLUICE_CONSERVES_GROUPS(CopyingPerLayer)
SLUICE_CONSERVES_GROUPS(Keeping)
SLUICE_CONSERVES_GROUPS(OrbitFlow)
SLUICE_CONSERVES_GROUPS(OrbitFlowPool)
SLUICE_CONSERVES_GROUPS(OrbitFlowUniform)
SLUICE_CONSERVES_GROUPS(SwappedDistance)
SLUICE_CONSERVES_GROUPS(FlexGen)
SLUICE_CONSERVES_GROUPS(SloAware)
SLUICE_CONSERVES_GROUPS(DynamicHeuristic)
SLUICE_CONSERVES_GROUPS(DeepSpeedInference)
SLUICE_CONSERVES_GROUPS(Pie)
SLUICE_CONSERVES_GROUPS(FlexGenFixed)
SLUICE_CONSERVES_GROUPS(FlexGenPlus)
SLUICE_CONSERVES_GROUPS(LengthRanked)
SLUICE_CONSERVES_GROUPS(OrbitFlowEven)
SLUICE_CONSERVES_GROUPS(OrbitFlowPauseRandom)
SLUICE_CONSERVES_GROUPS(OrbitFlowPauseShortest)
SLUICE_CONSERVES_GROUPS(OrbitFlowRequestWise)
SLUICE_CONSERVES_GROUPS(OrbitFlowSrtf)
SLUICE_CONSERVES_GROUPS(VllmPrefillFirst)
SLUICE_CONSERVES_GROUPS(VllmPriority)
SLUICE_CONSERVES_GROUPS(VllmPriorityPreempts)
SLUICE_CONSERVES_GROUPS(WaitingFirst)
SLUICE_CONSERVES_GROUPS(FoundAhead)
SLUICE_CONSERVES_GROUPS(DeepSpeedWeights)
SLUICE_CONSERVES_GROUPS(FlexGenWeights)
SLUICE_CONSERVES_GROUPS(SelectN)
SLUICE_CONSERVES_GROUPS(SelectNEvaluated)
SLUICE_CONSERVES_GROUPS(SelectNDistance)
SLUICE_CONSERVES_GROUPS(Mirage)
SLUICE_CONSERVES_GROUPS(MirageOneSlot)
SLUICE_CONSERVES_GROUPS(MirageNoReversion)
SLUICE_CONSERVES_GROUPS(MiragePrefillFirst)
SLUICE_CONSERVES_GROUPS(Confluence)
SLUICE_CONSERVES_GROUPS(FutureMemory)
SLUICE_CONSERVES_GROUPS(VllmRecomputeSized)
SLUICE_CONSERVES_GROUPS(VllmSwapSized)
SLUICE_CONSERVES_GROUPS(Loaded)

/// Whether it serves some model whose layers are not alike, as sluice-compare asks (`System::equal_layers`).
template <class System>
bool takes_groups() {
  const typename System::placement_type placement{};
  using C = typename System::composition;
  return needs_equal_layers<C>(placement, LayerSet::all(2), 2) == nullptr ||
         needs_equal_layers<C>(placement, LayerSet{}, 2) == nullptr;
}

std::set<std::string> names_in(const std::filesystem::path& path, const char* pattern) {
  std::ifstream file(path);
  REQUIRE_MESSAGE(file.good(), path.string());
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::regex regex(pattern);
  std::set<std::string> names;
  for (std::sregex_iterator it(text.begin(), text.end(), regex), end; it != end; ++it) names.insert((*it)[1]);
  return names;
}

TEST_CASE("every system of sluice-compare that serves models in groups has its trials") {
  std::map<std::string, bool> takes;
#define SLUICE_TAKES(System) takes.emplace(#System, takes_groups<System>());
  SLUICE_TAKES(AdaptiveOffload)
  SLUICE_TAKES(AptServe)
  SLUICE_TAKES(CachedAttention)
  SLUICE_TAKES(Cake)
  SLUICE_TAKES(Confluence)
  SLUICE_TAKES(Continuum)
  SLUICE_TAKES(DeepSpeedInference)
  SLUICE_TAKES(DeepSpeedWeights)
  SLUICE_TAKES(DynamicHeuristic)
  SLUICE_TAKES(Ellm)
  SLUICE_TAKES(FastServe)
  SLUICE_TAKES(FlexGen)
  SLUICE_TAKES(FlexGenFixed)
  SLUICE_TAKES(FlexGenPlus)
  SLUICE_TAKES(FlexGenWeights)
  SLUICE_TAKES(FutureMemory)
  SLUICE_TAKES(HCache)
  SLUICE_TAKES(HiCache)
  SLUICE_TAKES(HiCacheBack)
  SLUICE_TAKES(HiCacheHints)
  SLUICE_TAKES(HiCacheIfFaster)
  SLUICE_TAKES(HiCacheWithinSlos)
  SLUICE_TAKES(InferCept)
  SLUICE_TAKES(KvFlow)
  SLUICE_TAKES(Kvbm)
  SLUICE_TAKES(Kvpr)
  SLUICE_TAKES(LengthRanked)
  SLUICE_TAKES(Lmcache)
  SLUICE_TAKES(Mirage)
  SLUICE_TAKES(MirageNoReversion)
  SLUICE_TAKES(MirageOneSlot)
  SLUICE_TAKES(MiragePrefillFirst)
  SLUICE_TAKES(MooncakeStore)
  SLUICE_TAKES(Neo)
  SLUICE_TAKES(OneAtATime)
  SLUICE_TAKES(OrbitFlow)
  SLUICE_TAKES(OrbitFlowCached)
  SLUICE_TAKES(OrbitFlowEven)
  SLUICE_TAKES(OrbitFlowPauseRandom)
  SLUICE_TAKES(OrbitFlowPauseShortest)
  SLUICE_TAKES(OrbitFlowPool)
  SLUICE_TAKES(OrbitFlowRequestWise)
  SLUICE_TAKES(OrbitFlowSrtf)
  SLUICE_TAKES(OrbitFlowUniform)
  SLUICE_TAKES(Pie)
  SLUICE_TAKES(Scorpio)
  SLUICE_TAKES(SelectN)
  SLUICE_TAKES(SjfOracle)
  SLUICE_TAKES(SloAware)
  SLUICE_TAKES(SuperInfer)
  SLUICE_TAKES(VllmOffload)
  SLUICE_TAKES(VllmPrefillFirst)
  SLUICE_TAKES(VllmPrefixCaching)
  SLUICE_TAKES(VllmPriority)
  SLUICE_TAKES(VllmPriorityPreempts)
  SLUICE_TAKES(VllmRecompute)
  SLUICE_TAKES(VllmRecomputeSized)
  SLUICE_TAKES(VllmSwap)
  SLUICE_TAKES(VllmSwapSized)
  SLUICE_TAKES(WaitingFirst)
#undef SLUICE_TAKES
  const std::set<std::string> tried =
      names_in("tests/engine/conservation_groups_test.cpp", "SLUICE_CONSERVES_GROUPS\\((\\w+)\\)");
  std::size_t listed = 0;
  for (const auto& entry : std::filesystem::directory_iterator("examples/tools/engines/families")) {
    if (entry.path().extension() != ".cpp") continue;
    for (const std::string& name : names_in(entry.path(), "entry<(?:sluice::)?(\\w+)")) {
      ++listed;
      CHECK_MESSAGE(takes.count(name) == 1, name, " is not in this test's list: give it a SLUICE_TAKES");
    }
  }
  CHECK(listed > 50);
  for (const auto& one : takes)
    CHECK_MESSAGE((!one.second || tried.count(one.first) == 1), one.first,
                  " has no trials: give it a SLUICE_CONSERVES_GROUPS");
  CHECK(takes.at("FlexGenPlus"));
  CHECK_FALSE(takes.at("Ellm"));
}

template <class System>
std::string refusal_of(const Trial& trial) {
  using E = With<System, testing::SmallCost, BasicSimulated<testing::SmallCost>>;
  const auto made = E::make(testing::trial_config<E>(trial, {}));
  return made ? std::string{} : made.error().line();
}

TEST_CASE("a composition that needs equal layers is refused by naming its part and the groups") {
  Trial trial;
  trial.layers = 3;
  trial.batch = 2;
  trial.device = trial.host = LayerBlocks{10'000};
  KvGroups kv;
  REQUIRE(kv.add(0, {.entry = 64}));
  REQUIRE(kv.add(1, {.kind = KvKind::sliding, .entry = 64, .window = 64}));
  REQUIRE(kv.add(2, {.kind = KvKind::state, .entry = 2048}));
  trial.kv = {KvBlocks(kv, Tokens{16}), ReadLimits{kv}, LayerSet::all(trial.layers)};
  CHECK(refusal_of<VllmSwap>(trial).empty());
  CHECK(refusal_of<VllmPrefixCaching>(trial).empty());
  CHECK(refusal_of<OrbitFlow>(trial).empty());
  CHECK(refusal_of<DeepSpeedInference>(trial).empty());
  CHECK(refusal_of<Confluence>(trial).empty());
  std::string groups = ", and this model's layers are not alike: 1 of 3 layers keep all blocks, 1 at most 5 blocks, 1 "
                       "the newest block of a request";
  const auto says = [&](const std::string& line, const char* part) {
    CHECK_MESSAGE(line.find(part + groups) != std::string::npos, line);
  };
  says(refusal_of<CopiedDistance>(trial), "its Retention policy copies the blocks of all layers alike");
  says(refusal_of<Neo>(trial), "its Placement policy counts layers of one size");
  says(refusal_of<AptServe>(trial), "its Admission policy counts blocks of one size");
  says(refusal_of<Ellm>(trial), "its Placement policy rebuilds layers");
  says(refusal_of<HCache>(trial), "its Retention policy keeps hidden states of single layers");
  CHECK(refusal_of<DeepSpeedWeights>(trial).empty());
  says(refusal_of<With<VllmSwap, MostPendingFirst>>(trial), "its Admission policy counts blocks of one size");
  says(refusal_of<HiCache>(trial), "its Caching policy stores token blocks of all layers");
  says(refusal_of<KvFlow>(trial), "its Retention policy parts with token blocks of all layers");
  KvGroups bounded; // no layer only grows
  REQUIRE(bounded.add(0, {.entry = 64}));
  for (int layer = 0; layer < 3; ++layer)
    REQUIRE(bounded.add(layer, {.kind = KvKind::sliding, .entry = 64, .window = 64}));
  trial.kv = {KvBlocks(bounded, Tokens{16}), ReadLimits{bounded}, LayerSet::all(3)};
  CHECK(refusal_of<VllmSwap>(trial).empty());
  groups = ", and this model's layers are not alike: 1 of 3 layers keep all blocks, 3 at most 5 blocks of a request";
  says(refusal_of<OrbitFlow>(trial), "its Placement policy moves single layers, and none here keeps only what grows");
  says(refusal_of<DeepSpeedInference>(trial),
       "its Placement policy moves single layers, and none here keeps only what grows");
  trial.kv = {};
  CHECK(refusal_of<OrbitFlow>(trial).empty());
}

TEST_CASE_TEMPLATE("one group of all tokens in all layers is the model without groups", System, VllmSwap,
                   VllmPrefixCaching, Keeping, OrbitFlow, OrbitFlowPool, DynamicHeuristic, Pie) {
  using E = With<System, testing::SmallCost, BasicSimulated<testing::SmallCost>, Summary>;
  Random random(17);
  for (int round = 0; round < 20; ++round) {
    Trial trial = testing::random_trial(random);
    auto plain = E::make(testing::trial_config<E>(trial, {}));
    KvGroups kv;
    for (int layer = 0; layer < trial.layers; ++layer) REQUIRE(kv.add(layer, {.entry = 256}));
    trial.kv = {KvBlocks(kv, Tokens{16}), ReadLimits{kv}, LayerSet::all(trial.layers)};
    REQUIRE(trial.kv.blocks.quantum() == Bytes{4096});
    auto grouped = E::make(testing::trial_config<E>(trial, {}));
    REQUIRE((plain && grouped));
    testing::serve_arrivals(*plain, trial, [] {});
    testing::serve_arrivals(*grouped, trial, [] {});
    CHECK(plain->now() == grouped->now());
    CHECK(plain->steps() == grouped->steps());
    CHECK(plain->ledger().device().peak() == grouped->ledger().device().peak());
    CHECK(plain->ledger().host().peak() == grouped->ledger().host().peak());
  }
}

} // namespace
