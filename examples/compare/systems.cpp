// SPDX-License-Identifier: Apache-2.0
// The systems of sluice-compare.
#include "sluice/transfer/deadline_pool.hpp"

#include "compare/run.hpp"

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
             .what = "one request at a time, all resident: the control row",
             .run = run_OneAtATime,
             .control = true,
             .tenants = true},
      System{.name = "VllmRecompute",
             .what = "vLLM: preempt the newest, compute it again",
             .run = run_VllmRecompute,
             .tenants = true},
      System{.name = "VllmSwap",
             .what = "vLLM: preempt the newest, swap it out and in",
             .run = run_VllmSwap,
             .tenants = true},
      System{.name = "SwappedFirst", .what = "who was swapped out returns before newcomers", .run = run_VllmSwap},
      System{.name = "WaitingFirst", .what = "newcomers before who was swapped out", .run = run_WaitingFirst},
      System{.name = "SjfOracle", .what = "the shortest first, by known lengths", .run = run_SjfOracle},
      System{.name = "LengthRanked", .what = "LTR: the shortest first, by predicted lengths", .run = run_LengthRanked},
      System{.name = "FutureMemory",
             .what = "LightLLM: whom the memory expected to be needed has room for",
             .run = run_FutureMemory},
      System{.name = "SuperInfer",
             .what = "the largest virtual lag first, rotated through the host, copied ahead",
             .run = run_SuperInfer},
      System{.name = "DeepSpeedInference",
             .what = "every layer's KV on the host, fetched a layer ahead",
             .run = run_DeepSpeedInference},
      System{.name = "FlexGen", .what = "one even placement for good, for the worst batch", .run = run_FlexGen},
      System{.name = "FlexGenPlus", .what = "the same, for each batch's worst lengths", .run = run_FlexGenPlus},
      System{.name = "SloAware", .what = "the smallest uniform distance that meets the SLO", .run = run_SloAware},
      System{.name = "DynamicHeuristic",
             .what = "every step the fewest even layers that fit",
             .run = run_DynamicHeuristic},
      System{.name = "VllmRecomputeSized",
             .what = "vLLM with its batch sized to the SLO, as eLLM compares with it",
             .run = run_VllmRecomputeSized},
      System{.name = "VllmSwapSized", .what = "the same, swapping", .run = run_VllmSwapSized},
      System{.name = "HCache", .what = "the same, moving hidden states of some layers", .run = run_HCache},
      System{.name = "Ellm", .what = "the oldest tokens without KV, swapped and recomputed", .run = run_Ellm},
      System{.name = "DeepSpeedWeights",
             .what = "every layer's weights on the host, fetched a layer ahead",
             .run = run_DeepSpeedWeights,
             .streams_weights = true,
             .tenants = true},
      System{.name = "FlexGenWeights",
             .what = "a part of every layer's weights on the host, sized by peak rates",
             .run = run_FlexGenWeights,
             .streams_weights = true,
             .tenants = true},
      System{.name = "SelectN",
             .what = "weights of one layer in every few on the host, as the SLO has time",
             .run = run_SelectN,
             .streams_weights = true,
             .tenants = true},
      System{.name = "Pie",
             .what = "KV of the fewest layers swapped in and out in every step, as long as that is hidden",
             .run = run_Pie},
      System{.name = "Mirage",
             .what = "weights' memory becomes KV when KV runs out, an inactive tenant's first",
             .run = run_Mirage,
             .tenants = true},
      System{.name = "MirageOneSlot",
             .what = "ablation: one slot also where it delays the computation",
             .run = run_MirageOneSlot},
      System{.name = "MirageNoReversion",
             .what = "ablation: memory that was lent once stays KV",
             .run = run_MirageNoReversion},
      System{.name = "OrbitFlowUniform", .what = "ablation: the best single distance", .run = run_OrbitFlowUniform},
      System{.name = "OrbitFlowRequestWise",
             .what = "ablation: + a distance for each request",
             .run = run_OrbitFlowRequestWise},
      System{.name = "OrbitFlowPause",
             .what = "ablation: + pause and resume; with the deposit it is OrbitFlow",
             .run = run_OrbitFlow,
             .deposit_never = true},
      System{
          .name = "OrbitFlow", .what = "per-request distances, pause and resume, token deposit", .run = run_OrbitFlow},
      System{.name = "OrbitFlowPool",
             .what = "OrbitFlow on the pooled transfer rule",
             .run = run_OrbitFlow,
             .rule = sluice::DeadlinePool::name},
      System{.name = "OrbitFlowSrtf",
             .what = "variant: the shortest remaining first",
             .run = run_OrbitFlowSrtf,
             .variant = true},
      System{.name = "OrbitFlowPauseShortest",
             .what = "variant: the shortest context is paused",
             .run = run_OrbitFlowPauseShortest,
             .variant = true},
      System{.name = "OrbitFlowPauseRandom",
             .what = "variant: anybody is paused",
             .run = run_OrbitFlowPauseRandom,
             .variant = true},
      System{.name = "OrbitFlowEven",
             .what = "variant: any number of layers evenly spaced, besides distances",
             .run = run_OrbitFlowEven,
             .variant = true},
  };
  return table;
}

} // namespace compared
