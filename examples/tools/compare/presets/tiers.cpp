// SPDX-License-Identifier: Apache-2.0
// KV that outlives its request: Continuum's experiment with agents, and all systems with tiers on four workloads.
#include "compare/presets/papers.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace compared {

namespace {

/// Llama-3.1-8B on an H200, agents of eight turns (54,685 prompt tokens of which 13,200 are new: 332 and 1,838 more a
/// turn; 20 tokens out a turn; tool 0.5 s), 868,000 KV tokens on the device, 400 GB of host memory. The mean times of
/// FCFS grow with the rate as those of arrivals that last a fixed time do. Assumed: 45 s, which fits FCFS best, and
/// 8,192 tokens a step (vLLM's default on this device).
constexpr std::string_view agents = ",turns=8,first=332,growth=1838,output=20,tool=0.5,tools=1";

PresetCase at(int rate) {
  // Never freed: presets are views.
  static std::vector<std::string*> kept;
  const auto keep = [](std::string text) -> std::string_view {
    kept.push_back(new std::string(std::move(text)));
    return *kept.back();
  };
  return {keep(std::to_string(rate) + "/s"),
          {{"--generate", keep("sessions:rate=" + std::to_string(rate) + ",sessions=" + std::to_string(45 * rate) +
                               std::string{agents})}}};
}

PaperFigure job(std::string_view what, double paper, std::string_view system, std::string_view where) {
  return {.what = what, .paper = paper, .column = "job", .system = system, .where = where};
}

} // namespace

std::vector<Preset> tiers_presets() {
  return {
      {.name = "agents-h200",
       .what = "Continuum's agents on an H200: mean seconds of a job by jobs a second",
       .flags = {{"--model", "llama3-8b"},
                 {"--device", "h200"},
                 {"--kv-blocks", "54250"},
                 {"--host-memory", "400GB"},
                 {"--batch", "256"},
                 {"--max-batch-tokens", "8192"},
                 {"--slo-tbt", "0.1"},
                 {"--slo-scale", "1"},
                 {"--deposit", "off"},
                 {"--table", "md"},
                 {"--systems", "VllmPrefixCaching,Continuum,Lmcache"},
                 {"--columns", "case,system,job,p95-job,ttft-later,found-device,found-host"}},
       .cases = {at(1), at(3), at(6), at(10), at(15)},
       .figures = {job("FCFS, 1/s: mean job, s", 8.6, "VllmPrefixCaching", "1/s"),
                   job("FCFS, 3/s", 28, "VllmPrefixCaching", "3/s"), job("FCFS, 6/s", 192, "VllmPrefixCaching", "6/s"),
                   job("FCFS, 10/s", 417, "VllmPrefixCaching", "10/s"),
                   job("FCFS, 15/s", 703, "VllmPrefixCaching", "15/s"), job("Continuum, 1/s", 8.7, "Continuum", "1/s"),
                   job("Continuum, 3/s", 21, "Continuum", "3/s"), job("Continuum, 6/s", 66, "Continuum", "6/s"),
                   job("Continuum, 10/s", 119, "Continuum", "10/s"), job("Continuum, 15/s", 185, "Continuum", "15/s"),
                   job("LMCache, 1/s", 9.8, "Lmcache", "1/s"), job("LMCache, 3/s", 24, "Lmcache", "3/s"),
                   job("LMCache, 6/s", 63, "Lmcache", "6/s"), job("LMCache, 10/s", 159, "Lmcache", "10/s"),
                   job("LMCache, 15/s", 685, "Lmcache", "15/s")}},
      // No paper's: the table of docs/tiers.md. Rates and lengths keep a single A100 busy and not overloaded.
      {.name = "tiers",
       .what = "all systems that cache prefixes below the device, on chats, agents and Mooncake's traces",
       .flags = {{"--model", "llama3-8b"},
                 {"--device", "a100-80"},
                 {"--kv-blocks", "26674"},
                 {"--host-memory", "128GB"},
                 {"--lower-tiers", "2TB@6GB/s@100us"},
                 {"--seeds", "1..8"},
                 {"--slo-tbt", "0.1"},
                 {"--slo-scale", "1"},
                 {"--deposit", "off"},
                 {"--table", "md"},
                 {"--baseline", "VllmPrefixCaching"},
                 {"--systems", "VllmPrefixCaching,VllmOffload,Lmcache,HiCache,HiCacheBack,Kvbm,MooncakeStore,"
                               "CachedAttention,AdaptiveOffload,Cake,Continuum,InferCept,HiCacheWithinSlos,"
                               "OrbitFlowCached"},
                 {"--columns", "case,system,e2e,judged-e2e,mean-ttft,ttft-later,found,found-possible,found-device,"
                               "found-host,found-lower,gb-out"}},
       .cases = {
           {"chat", {{"--generate", "chat"}}},
           {"agents",
            {{"--generate", "agents:sessions=40,rate=0.2,turns=lognormal(20,1.2),"
                            "first=lognormal(30000,1.5),longest=65536"}}},
           {"conversation",
            {{"--trace", "data:traces/mooncake_conversation.jsonl"}, {"--limit", "1000"}, {"--rate-scale", "0.05"}}},
           {"synthetic",
            {{"--trace", "data:traces/mooncake_synthetic.jsonl"}, {"--limit", "1000"}, {"--rate-scale", "0.05"}}}}}};
}

} // namespace compared
