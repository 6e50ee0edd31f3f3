// SPDX-License-Identifier: Apache-2.0
// SuperInfer's experiments; only the paper's abstract and its figures' captions are available.
#include "compare/presets/papers.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace compared {

namespace superinfer {
namespace {

/// Qwen2.5-32B on a GH200 of 144 GB, 5 s to the first token, 100 ms per token, ShareGPT at 5 to 20 requests per second
/// (Fig. 16, 21). Assumed: ShareGPT's mean lengths from vLLM's paper (161 and 338), lognormal with CV 1; at most 1,024
/// requests in a batch, so that memory is the limit.
/// OrbitFlow, which these papers do not compare with, evaluates one placement per plan: with such batches, `--systems
/// all` would spend minutes in its planner.
std::vector<PresetFlag> setup(std::vector<PresetFlag> more) {
  std::vector<PresetFlag> flags{{"--model", "qwen2.5-32b"}, {"--device", "gh200-144"}, {"--batch", "1024"},
                                {"--plan-nodes", "1"},      {"--slo-tbt", "0.1"},      {"--slo-scale", "1"},
                                {"--slo-ttft", "5"},        {"--deposit", "off"},      {"--table", "md"}};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

/// Returns the flag for this rate in requests per second.
PresetFlag at(int rate, int requests) {
  // Never freed: presets are views.
  static std::vector<std::string*> kept;
  kept.push_back(new std::string("poisson:rate=" + std::to_string(rate) + ",requests=" + std::to_string(requests) +
                                 ",prompt=lognormal(161,1.0),output=lognormal(338,1.0)"));
  return {"--generate", *kept.back()};
}

constexpr std::string_view baselines =
    "SuperInfer,VllmRecompute,VllmSwap,WaitingFirst,SjfOracle,LengthRanked,FutureMemory,Neo";
/// For Neo, whose host attends. Assumed: 400 of the 512 GB/s of the data sheet.
constexpr PresetFlag neo_host{"--host-attention", "400GB/s"};
constexpr std::string_view service = "case,system,ttft,tbt,per-token,p99-ttft,p99-tbt,gap,tokens";

/// The abstract: TTFT attainment "up to 74.7 %" higher, "comparable" TBT and throughput.
std::vector<PaperFigure> beside_vllm() {
  const auto figure = [](std::string_view what, double paper, Form form, std::string_view column, Over over) {
    return PaperFigure{.what = what,
                       .paper = paper,
                       .form = form,
                       .column = column,
                       .system = "SuperInfer",
                       .base = "VllmRecompute",
                       .over = over};
  };
  return {figure("TTFT attainment above vLLM's, at most", 0.747, Form::points, "ttft", Over::most),
          figure("TBT attainment (per token) beside vLLM's (\"comparable\"), at least", 1, Form::ratio, "per-token",
                 Over::least),
          figure("throughput beside vLLM's (\"comparable\"), at least", 1, Form::ratio, "tokens", Over::least)};
}

} // namespace
} // namespace superinfer

std::vector<Preset> superinfer_presets() {
  using namespace superinfer;
  // A GH200 of 96 GB has 6,500 token blocks left next to the weights.
  const PresetFlag scarce{"--kv-blocks", "6500"};
  const PresetFlag alone{"--systems", "SuperInfer"};
  return {
      {.name = "superinfer",
       .what =
           "SuperInfer, Fig. 16 and 22: Qwen2.5-32B on a GH200, requests a second up to and beyond what it can serve",
       .flags = setup({{"--systems", baselines}, neo_host, {"--columns", service}}),
       .cases = {{"15/s", {at(15, 3000)}}, {"20/s", {at(20, 3000)}}, {"22/s", {at(22, 3000)}}},
       .figures = beside_vllm()},
      {.name = "superinfer-96",
       .what = "the same with the KV memory of a GH200 of 96 GB",
       .flags = setup({scarce, {"--systems", baselines}, neo_host, {"--columns", service}}),
       .cases = {{"18/s", {at(18, 3000)}}, {"20/s", {at(20, 3000)}}},
       .figures = beside_vllm()},
      {.name = "superinfer-16384",
       .what = "SuperInfer, Fig. 16, with all 16,384 sequences of the release's runs",
       .flags = setup({{"--systems", "SuperInfer,VllmRecompute,WaitingFirst"}, {"--columns", service}}),
       .cases = {{"15/s", {at(15, 16384)}}, {"18/s", {at(18, 16384)}}, {"20/s", {at(20, 16384)}}},
       .figures = beside_vllm()},
      {.name = "superinfer-models",
       .what = "SuperInfer, Fig. 16 and 22: its other two models, within and beyond what a GH200 can serve",
       // The release also has LMSYS-Chat, whose lengths we do not have.
       .flags = setup({{"--systems", "SuperInfer,VllmRecompute"}, {"--columns", service}}),
       .cases = {{"Mixtral-8x7B, 20/s", {{"--model", "mixtral-8x7b"}, at(20, 3000)}},
                 {"Mixtral-8x7B, 40/s", {{"--model", "mixtral-8x7b"}, at(40, 3000)}},
                 {"Llama-3-8B, 50/s", {{"--model", "llama3-8b"}, at(50, 3000)}},
                 {"Llama-3-8B, 100/s", {{"--model", "llama3-8b"}, at(100, 3000)}}},
       .figures = beside_vllm()},
      {.name = "superinfer-rotation",
       .what = "SuperInfer, Fig. 21: blocks that a decision may move, 20 requests a second",
       .flags =
           setup({alone, at(20, 3000), {"--columns", "case,ttft,per-token,p99-ttft,p99-tbt,gap,stall,gb-in,tokens"}}),
       .cases = {{"100", {{"--rotation-blocks", "100"}}},
                 {"300", {{"--rotation-blocks", "300"}}},
                 {"600", {{"--rotation-blocks", "600"}}},
                 {"1200", {{"--rotation-blocks", "1200"}}},
                 {"2400", {{"--rotation-blocks", "2400"}}},
                 {"4800", {{"--rotation-blocks", "4800"}}}}},
      {.name = "superinfer-alpha",
       .what = "SuperInfer, Fig. 18: weight of a rotated request's lag, the others' shares at 0",
       .flags = setup({alone,
                       scarce,
                       at(18, 2000),
                       {"--lag-first", "0"},
                       {"--lag-next", "0"},
                       {"--columns", "case,ttft,tbt,per-token,p99-ttft,p99-tbt,gap,tokens"}}),
       .cases = {{"alpha 1", {{"--lag-alpha", "1"}}},
                 {"alpha 2", {{"--lag-alpha", "2"}}},
                 {"alpha 3", {{"--lag-alpha", "3"}}},
                 {"alpha 5", {{"--lag-alpha", "5"}}},
                 {"alpha 10", {{"--lag-alpha", "10"}}}}},
      {.name = "superinfer-beta-first",
       .what = "SuperInfer, Fig. 19: share of the first token's SLO before waiting counts",
       .flags =
           setup({alone, scarce, at(18, 2000), {"--columns", "case,ttft,tbt,per-token,p99-ttft,p99-tbt,gap,tokens"}}),
       .cases = {{"beta_F 0", {{"--lag-first", "0"}}},
                 {"beta_F 0.2", {{"--lag-first", "0.2"}}},
                 {"beta_F 0.6", {{"--lag-first", "0.6"}}},
                 {"beta_F 1", {{"--lag-first", "1"}}},
                 {"beta_F 5", {{"--lag-first", "5"}}},
                 {"beta_F 10", {{"--lag-first", "10"}}}}},
      {.name = "superinfer-beta-next",
       .what = "SuperInfer, Fig. 20: share of the next token's SLO before a rotated request lags",
       .flags =
           setup({alone, scarce, at(18, 2000), {"--columns", "case,ttft,tbt,per-token,p99-ttft,p99-tbt,gap,tokens"}}),
       .cases = {{"beta_B 0", {{"--lag-next", "0"}}},
                 {"beta_B 1", {{"--lag-next", "1"}}},
                 {"beta_B 5", {{"--lag-next", "5"}}},
                 {"beta_B 20", {{"--lag-next", "20"}}}}},
      {.name = "superinfer-link",
       .what = "SuperInfer, Fig. 2: what the link's rate does to vLLM with swapping, 20 requests a second",
       .flags =
           setup({scarce, at(20, 2000), {"--systems", "VllmSwap,WaitingFirst,SuperInfer"}, {"--columns", service}}),
       .cases = {{"10 GB/s", {{"--link", "10GB/s"}}},
                 {"32 GB/s", {{"--link", "32GB/s"}}},
                 {"64 GB/s", {{"--link", "64GB/s"}}},
                 {"256 GB/s", {{"--link", "256GB/s"}}}}},
  };
}

} // namespace compared
