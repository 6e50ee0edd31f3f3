// SPDX-License-Identifier: Apache-2.0
// eLLM's experiments (section 6). Experiments that change the planner or the units are in bench_ellm_paper.
#include "compare/presets/papers.hpp"

#include <array>
#include <string_view>
#include <vector>

namespace compared {

namespace ellm {
namespace {

/// Section 6.1: Llama2-13B on one A100 of 80 GB, 40 GB of host memory for KV, PCIe 4.0 x16. Table 1
/// states the TPOT SLOs: 50 ms (13B) and 500 ms (70B) for ShareGPT, 60 and 200 ms for L-Eval. The batch limit of 512 is
/// from 6.7. TTFT has no SLO. OrbitFlow, which these papers do not compare with, evaluates one placement per plan: with
/// such batches, `--systems all` would spend minutes in its planner.
std::vector<PresetFlag> setup(std::vector<PresetFlag> more) {
  std::vector<PresetFlag> flags{
      {"--model", "llama2-13b"},
      {"--device", "a100-80"},
      {"--host-memory", "40GB"},
      {"--batch", "512"},
      {"--plan-nodes", "1"},
      {"--slo-tbt", "0.05"},
      {"--slo-scale", "1"},
      {"--deposit", "off"},
      {"--table", "md"},
      {"--systems", "VllmRecomputeSized,VllmSwapSized,HCache,Ellm"},
      {"--columns", "case,system,tokens,mean-ttft,mean-tpot,tpot,per-token,step,batch,gb-in-step,preempted,refused"}};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

PaperFigure over(std::string_view what, double paper, std::string_view column, std::string_view base) {
  return {.what = what, .paper = paper, .form = Form::ratio, .column = column, .system = "Ellm", .base = base};
}
/// Returns the base's latency divided by eLLM's.
PaperFigure under(std::string_view what, double paper, std::string_view column, std::string_view base) {
  return {.what = what, .paper = paper, .form = Form::ratio, .column = column, .system = base, .base = "Ellm"};
}

/// The paper's comparison of eLLM with vLLM-Recompute, vLLM-Swap and HCache.
struct Headline {
  std::array<double, 3> throughput, ttft;
  double tpot_met;
};
std::vector<PaperFigure> headline(const Headline& paper, const std::vector<PaperFigure>& more = {}) {
  std::vector<PaperFigure> figures{
      over("throughput over vLLM-Recompute", paper.throughput[0], "tokens", "VllmRecomputeSized"),
      over("throughput over vLLM-Swap", paper.throughput[1], "tokens", "VllmSwapSized"),
      over("throughput over HCache", paper.throughput[2], "tokens", "HCache"),
      under("TTFT of vLLM-Recompute over eLLM's", paper.ttft[0], "mean-ttft", "VllmRecomputeSized"),
      under("TTFT of vLLM-Swap over eLLM's", paper.ttft[1], "mean-ttft", "VllmSwapSized"),
      under("TTFT of HCache over eLLM's", paper.ttft[2], "mean-ttft", "HCache"),
      {.what = "TPOT met by eLLM", .paper = paper.tpot_met, .column = "tpot", .system = "Ellm"}};
  figures.insert(figures.end(), more.begin(), more.end());
  return figures;
}

constexpr std::string_view load = "case,system,tpot,per-token,ttft,mean-ttft,tokens,gb-in-step,preempted";

} // namespace
} // namespace ellm

std::vector<Preset> ellm_presets() {
  using namespace ellm;
  return {
      {.name = "ellm",
       .what = "eLLM, Fig. 10: Llama2-13B on an A100, ShareGPT's lengths at 50 requests a second",
       // From 6.1: means of the lengths and of the intervals, and the intervals' deviation (37.49 with a mean of 22.15
       // ms), and "the first 3000 time-interval samples". Assumed: lognormal lengths up to 3,600 tokens.
       .flags = setup({{"--generate", "sharegpt:rate=50,requests=3000,cv=1.69,longest=3600"}}),
       .figures = headline(
           {.throughput = {2.64, 2.61, 1.91}, .ttft = {2.63, 2.59, 1.7}, .tpot_met = 0.973},
           {{.what = "TPOT met by HCache", .paper = 0.928, .column = "tpot", .system = "HCache"},
            {.what = "mean TPOT of eLLM, ms", .paper = 0.04839, .column = "mean-tpot", .system = "Ellm"},
            {.what = "mean TPOT of vLLM-Recompute, ms",
             .paper = 0.06391,
             .column = "mean-tpot",
             .system = "VllmRecomputeSized"},
            {.what = "mean TPOT of HCache, ms", .paper = 0.05454, .column = "mean-tpot", .system = "HCache"}})},
      {.name = "ellm-long",
       .what = "eLLM, Fig. 12: the same with L-Eval's lengths at 12.5 requests a second",
       .flags = setup({{"--slo-tbt", "0.06"}, {"--generate", "leval:rate=12.5,requests=40,cv=1.69,longest=56000"}}),
       .figures = headline({.throughput = {2.73, 3.03, 1.61}, .ttft = {1.76, 1.71, 1.37}, .tpot_met = 0.966})},
      {.name = "ellm-70b",
       .what = "eLLM, Fig. 10: Llama2-70B on four A100 without NVLink, ShareGPT's lengths at 50 requests a second",
       .flags =
           setup({{"--model", "llama2-70b"},
                  {"--tp", "4"},
                  {"--host-memory", "160GB"},
                  {"--slo-tbt", "0.5"},
                  {"--columns", "case,system,tokens,mean-ttft,mean-tpot,tpot,per-token,step,batch,busy,device-mean,"
                                "gb-in-step,preempted,refused"},
                  {"--generate", "sharegpt:rate=50,requests=3000,cv=1.69,longest=3600"}}),
       .figures = headline(
           {.throughput = {2.0, 2.0, 1.6}, .ttft = {1.62, 1.61, 1.21}, .tpot_met = 0.986},
           // 6.2, Fig. 11: 254.64 requests at 501.74 ms a token, vLLM 223.16 at 680.82 ms.
           {over("by the paper's own Fig. 11 and TPOTs, over vLLM-Recompute", 1.55, "tokens", "VllmRecomputeSized"),
            {.what = "requests in an iteration, eLLM", .paper = 254.64, .column = "batch", .system = "Ellm"},
            {.what = "requests in an iteration, vLLM-Recompute",
             .paper = 223.16,
             .column = "batch",
             .system = "VllmRecomputeSized"},
            // Fig. 11b: SM utilisation by nvidia-smi dmon, the share of a second in which a kernel runs.
            {.what = "SM utilisation, eLLM (a kernel runs)", .paper = 0.6702, .column = "busy", .system = "Ellm"},
            {.what = "SM utilisation, vLLM-Recompute",
             .paper = 0.5865,
             .column = "busy",
             .system = "VllmRecomputeSized"},
            {.what = "SM utilisation, HCache", .paper = 0.612, .column = "busy", .system = "HCache"}})},
      {.name = "ellm-70b-long",
       .what = "eLLM, Fig. 12: Llama2-70B on four A100, L-Eval's lengths at 12.5 requests a second",
       .flags = setup({{"--model", "llama2-70b"},
                       {"--tp", "4"},
                       {"--host-memory", "160GB"},
                       {"--slo-tbt", "0.2"},
                       {"--generate", "leval:rate=12.5,requests=40,cv=1.69,longest=56000"}}),
       // The text's factors for L-Eval do not say of which model; of 70B it has the attainment alone.
       .figures = {{.what = "TPOT met by eLLM", .paper = 0.974, .column = "tpot", .system = "Ellm"}}},
      {.name = "ellm-load",
       .what = "eLLM, Fig. 15's goodput with ShareGPT's lengths: attainment at rates about what one A100 can serve",
       .flags = setup({{"--columns", load}, {"--slo-ttft", "5"}}),
       .cases = {{"0.5/s", {{"--generate", "sharegpt:rate=0.5,requests=300,cv=1.69,longest=3600"}}},
                 {"1/s", {{"--generate", "sharegpt:rate=1,requests=300,cv=1.69,longest=3600"}}},
                 {"1.1/s", {{"--generate", "sharegpt:rate=1.1,requests=300,cv=1.69,longest=3600"}}},
                 {"1.2/s", {{"--generate", "sharegpt:rate=1.2,requests=300,cv=1.69,longest=3600"}}},
                 {"1.3/s", {{"--generate", "sharegpt:rate=1.3,requests=300,cv=1.69,longest=3600"}}},
                 {"1.4/s", {{"--generate", "sharegpt:rate=1.4,requests=300,cv=1.69,longest=3600"}}},
                 {"1.5/s", {{"--generate", "sharegpt:rate=1.5,requests=300,cv=1.69,longest=3600"}}}}},
      {.name = "ellm-load-long",
       .what = "eLLM, Fig. 14 and 15: TTFT and attainment over the load, L-Eval's lengths",
       // The text loads one A100 with 6 to 38 requests per second of 36K tokens each. Their prefills alone need 20 to
       // 110 times its peak rate. This preset reproduces the shape of the figures, around the rate that the machine can
       // serve, which is one request at a time.
       .flags = setup({{"--columns", load}, {"--slo-tbt", "0.06"}, {"--slo-ttft", "60"}}),
       .cases = {{"0.002/s", {{"--generate", "leval:rate=0.002,requests=40,cv=1.69,longest=56000"}}},
                 {"0.004/s", {{"--generate", "leval:rate=0.004,requests=40,cv=1.69,longest=56000"}}},
                 {"0.006/s", {{"--generate", "leval:rate=0.006,requests=40,cv=1.69,longest=56000"}}},
                 {"0.008/s", {{"--generate", "leval:rate=0.008,requests=40,cv=1.69,longest=56000"}}},
                 {"0.012/s", {{"--generate", "leval:rate=0.012,requests=40,cv=1.69,longest=56000"}}}}},
  };
}

} // namespace compared
