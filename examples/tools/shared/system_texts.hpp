// SPDX-License-Identifier: Apache-2.0
// system_text: one line on each system, the same in every program that lists them.
#pragma once

#include <array>
#include <string_view>

struct SystemText {
  std::string_view name, what;
};

/// In the order of the programs' tables: some refer to the one before.
inline constexpr std::array system_texts{
    SystemText{"OneAtATime", "one request at a time, all resident: the control row"},
    SystemText{"VllmRecompute", "vLLM: preempt the newest, compute it again"},
    SystemText{"VllmSwap", "vLLM: preempt the newest, swap it out and in"},
    SystemText{"SwappedFirst", "who was swapped out returns before newcomers"},
    SystemText{"WaitingFirst", "newcomers before who was swapped out"},
    SystemText{"SjfOracle", "the shortest first, by known lengths"},
    SystemText{"LengthRanked", "LTR: the shortest first, by predicted lengths"},
    SystemText{"FutureMemory", "LightLLM: whom the memory expected to be needed has room for"},
    SystemText{"SuperInfer", "the largest virtual lag first, rotated through the host, copied ahead"},
    SystemText{"DeepSpeedInference", "every layer's KV on the host, fetched a layer ahead"},
    SystemText{"FlexGen", "one even placement for good, for the worst batch"},
    SystemText{"FlexGenPlus", "the same, for each batch's worst lengths"},
    SystemText{"SloAware", "the smallest uniform distance that meets the SLO"},
    SystemText{"DynamicHeuristic", "every step the fewest even layers that fit"},
    SystemText{"VllmRecomputeSized", "vLLM with its batch sized to the SLO, as eLLM compares with it"},
    SystemText{"VllmSwapSized", "the same, swapping"},
    SystemText{"HCache", "the same, moving hidden states of some layers"},
    SystemText{"Ellm", "the oldest tokens without KV, swapped and recomputed"},
    SystemText{"DeepSpeedWeights", "every layer's weights on the host, fetched a layer ahead"},
    SystemText{"FlexGenWeights", "a part of every layer's weights on the host, sized by peak rates"},
    SystemText{"SelectN", "weights of one layer in every few on the host, as the SLO has time"},
    SystemText{"Pie", "KV of the fewest layers swapped in and out in every step, as long as that is hidden"},
    SystemText{"Mirage", "weights' memory becomes KV when KV runs out, an inactive tenant's first"},
    SystemText{"MirageOneSlot", "ablation: one slot also where it delays the computation"},
    SystemText{"MirageNoReversion", "ablation: memory that was lent once stays KV"},
    SystemText{"OrbitFlowUniform", "ablation: the best single distance"},
    SystemText{"OrbitFlowRequestWise", "ablation: + a distance for each request"},
    SystemText{"OrbitFlowPause", "ablation: + pause and resume; with the deposit it is OrbitFlow"},
    SystemText{"OrbitFlow", "per-request distances, pause and resume, token deposit"},
    SystemText{"OrbitFlowPool", "OrbitFlow on the pooled transfer rule"},
    SystemText{"OrbitFlowSrtf", "variant: the shortest remaining first"},
    SystemText{"OrbitFlowPauseShortest", "variant: the shortest context is paused"},
    SystemText{"OrbitFlowPauseRandom", "variant: anybody is paused"},
    SystemText{"OrbitFlowEven", "variant: any number of layers evenly spaced, besides distances"},
};

/// A name that is not there does not compile.
consteval std::string_view system_text(std::string_view name) {
  for (const SystemText& text : system_texts)
    if (text.name == name) return text.what;
  throw "a system has no line here: add it to system_texts, in examples/tools/shared/system_texts.hpp";
}
