// SPDX-License-Identifier: Apache-2.0
// The systems of sluice-compare.
#include "sluice/transfer/deadline_pool.hpp"

#include "compare/run.hpp"
#include "shared/system_texts.hpp"

#include <array>

namespace compared {

// One engine family each, defined in its own generated translation unit.
sluice::Status run_OneAtATime(const Request&, Outcome&);
sluice::Status run_VllmRecompute(const Request&, Outcome&);
sluice::Status run_VllmSwap(const Request&, Outcome&);
sluice::Status run_WaitingFirst(const Request&, Outcome&);
sluice::Status run_SjfOracle(const Request&, Outcome&);
sluice::Status run_LengthRanked(const Request&, Outcome&);
sluice::Status run_FutureMemory(const Request&, Outcome&);
sluice::Status run_SuperInfer(const Request&, Outcome&);
sluice::Status run_DeepSpeedInference(const Request&, Outcome&);
sluice::Status run_FlexGen(const Request&, Outcome&);
sluice::Status run_FlexGenPlus(const Request&, Outcome&);
sluice::Status run_SloAware(const Request&, Outcome&);
sluice::Status run_DynamicHeuristic(const Request&, Outcome&);
sluice::Status run_VllmRecomputeSized(const Request&, Outcome&);
sluice::Status run_VllmSwapSized(const Request&, Outcome&);
sluice::Status run_HCache(const Request&, Outcome&);
sluice::Status run_Ellm(const Request&, Outcome&);
sluice::Status run_DeepSpeedWeights(const Request&, Outcome&);
sluice::Status run_FlexGenWeights(const Request&, Outcome&);
sluice::Status run_SelectN(const Request&, Outcome&);
sluice::Status run_Pie(const Request&, Outcome&);
sluice::Status run_Mirage(const Request&, Outcome&);
sluice::Status run_MirageOneSlot(const Request&, Outcome&);
sluice::Status run_MirageNoReversion(const Request&, Outcome&);
sluice::Status run_OrbitFlowUniform(const Request&, Outcome&);
sluice::Status run_OrbitFlowRequestWise(const Request&, Outcome&);
sluice::Status run_OrbitFlow(const Request&, Outcome&);
sluice::Status run_OrbitFlowSrtf(const Request&, Outcome&);
sluice::Status run_OrbitFlowPauseShortest(const Request&, Outcome&);
sluice::Status run_OrbitFlowPauseRandom(const Request&, Outcome&);
sluice::Status run_OrbitFlowEven(const Request&, Outcome&);

std::span<const System> systems() {
  // OrbitFlowPause is OrbitFlow without its deposit, and OrbitFlowPool is OrbitFlow on another rule: the same engine
  // types, so the same translation unit; and SwappedFirst is VllmSwap.
  static const std::array table{
      System{.name = "OneAtATime",
             .what = system_text("OneAtATime"),
             .run = run_OneAtATime,
             .control = true,
             .tenants = true},
      System{.name = "VllmRecompute", .what = system_text("VllmRecompute"), .run = run_VllmRecompute, .tenants = true},
      System{.name = "VllmSwap", .what = system_text("VllmSwap"), .run = run_VllmSwap, .tenants = true},
      System{.name = "SwappedFirst", .what = system_text("SwappedFirst"), .run = run_VllmSwap},
      System{.name = "WaitingFirst", .what = system_text("WaitingFirst"), .run = run_WaitingFirst},
      System{.name = "SjfOracle", .what = system_text("SjfOracle"), .run = run_SjfOracle},
      System{.name = "LengthRanked", .what = system_text("LengthRanked"), .run = run_LengthRanked},
      System{.name = "FutureMemory", .what = system_text("FutureMemory"), .run = run_FutureMemory},
      System{.name = "SuperInfer", .what = system_text("SuperInfer"), .run = run_SuperInfer},
      System{.name = "DeepSpeedInference", .what = system_text("DeepSpeedInference"), .run = run_DeepSpeedInference},
      System{.name = "FlexGen", .what = system_text("FlexGen"), .run = run_FlexGen},
      System{.name = "FlexGenPlus", .what = system_text("FlexGenPlus"), .run = run_FlexGenPlus},
      System{.name = "SloAware", .what = system_text("SloAware"), .run = run_SloAware},
      System{.name = "DynamicHeuristic", .what = system_text("DynamicHeuristic"), .run = run_DynamicHeuristic},
      System{.name = "VllmRecomputeSized", .what = system_text("VllmRecomputeSized"), .run = run_VllmRecomputeSized},
      System{.name = "VllmSwapSized", .what = system_text("VllmSwapSized"), .run = run_VllmSwapSized},
      System{.name = "HCache", .what = system_text("HCache"), .run = run_HCache},
      System{.name = "Ellm", .what = system_text("Ellm"), .run = run_Ellm},
      System{.name = "DeepSpeedWeights",
             .what = system_text("DeepSpeedWeights"),
             .run = run_DeepSpeedWeights,
             .streams_weights = true,
             .tenants = true},
      System{.name = "FlexGenWeights",
             .what = system_text("FlexGenWeights"),
             .run = run_FlexGenWeights,
             .streams_weights = true,
             .tenants = true},
      System{.name = "SelectN",
             .what = system_text("SelectN"),
             .run = run_SelectN,
             .streams_weights = true,
             .tenants = true},
      System{.name = "Pie", .what = system_text("Pie"), .run = run_Pie},
      System{.name = "Mirage", .what = system_text("Mirage"), .run = run_Mirage, .tenants = true},
      System{.name = "MirageOneSlot", .what = system_text("MirageOneSlot"), .run = run_MirageOneSlot},
      System{.name = "MirageNoReversion", .what = system_text("MirageNoReversion"), .run = run_MirageNoReversion},
      System{.name = "OrbitFlowUniform", .what = system_text("OrbitFlowUniform"), .run = run_OrbitFlowUniform},
      System{
          .name = "OrbitFlowRequestWise", .what = system_text("OrbitFlowRequestWise"), .run = run_OrbitFlowRequestWise},
      System{
          .name = "OrbitFlowPause", .what = system_text("OrbitFlowPause"), .run = run_OrbitFlow, .deposit_never = true},
      System{.name = "OrbitFlow", .what = system_text("OrbitFlow"), .run = run_OrbitFlow},
      System{.name = "OrbitFlowPool",
             .what = system_text("OrbitFlowPool"),
             .run = run_OrbitFlow,
             .rule = sluice::DeadlinePool::name},
      System{.name = "OrbitFlowSrtf", .what = system_text("OrbitFlowSrtf"), .run = run_OrbitFlowSrtf, .variant = true},
      System{.name = "OrbitFlowPauseShortest",
             .what = system_text("OrbitFlowPauseShortest"),
             .run = run_OrbitFlowPauseShortest,
             .variant = true},
      System{.name = "OrbitFlowPauseRandom",
             .what = system_text("OrbitFlowPauseRandom"),
             .run = run_OrbitFlowPauseRandom,
             .variant = true},
      System{.name = "OrbitFlowEven", .what = system_text("OrbitFlowEven"), .run = run_OrbitFlowEven, .variant = true},
  };
  return table;
}

} // namespace compared
