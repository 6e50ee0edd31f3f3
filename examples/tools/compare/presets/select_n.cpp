// SPDX-License-Identifier: Apache-2.0
// Select-N's experiments (section 5) with one engine each; sharing a bus takes several.
#include "compare/presets/papers.hpp"

#include <vector>

namespace compared {

namespace select_n {
namespace {

/// Section 5.1: A10s of 24 GB at 24 GB/s (section 3), separate prefill and decode instances, DeepSpeed, FlexGen and a
/// naive vLLM. In its Fig. 2b a layer's transfer takes 13.8 times its compute in a decode, for which the A10 reaches
/// 55.3 % of its memory bandwidth; the roofline's 92 % would make it 22 times. Here one instance prefills all requests
/// in its first iteration and only decodes afterwards, so gaps are those of the paper's decode instance. Prompts have
/// 64 tokens as in 5.4; the text does not give the number of generated tokens (assumed: 64). Experiments that need
/// exact intervals, or a prefill instance, are in bench_select_n_paper, on the same setup.
std::vector<PresetFlag> setup(std::vector<PresetFlag> more) {
  std::vector<PresetFlag> flags{{"--device", "a10"},
                                {"--bandwidth-fraction", "0.553"},
                                {"--deposit", "off"},
                                {"--slo-base", "batch"},
                                {"--slo-ttft", "60"},
                                {"--table", "md"},
                                {"--max-batch-tokens", "32768"}};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

constexpr std::string_view four = "VllmRecompute,DeepSpeedWeights,FlexGenWeights,SelectN";
constexpr std::string_view batch128 = "even:rate=10000,requests=128,prompt=64,output=64";

} // namespace
} // namespace select_n

std::vector<Preset> select_n_presets() {
  using namespace select_n;
  return {
      {.name = "select-n",
       .what = "Select-N, Fig. 9: latency under SLOs 20 to 50 % above the unoffloaded step, two models, batch 128",
       // Memory for the KV of all 128 requests, at 0.96 of the device; the SLOs are multiples of the naive step (5.2).
       .flags = setup(
           {{"--generate", batch128},
            {"--batch", "128"},
            {"--memory-share", "0.96"},
            {"--slo-scale", "1.2,1.3,1.4,1.5"},
            {"--systems", four},
            {"--columns", "case,system,scale,slo,p50-tbt,tbt-of-slo,per-token,tokens,weights-host,host-layers,stall"}}),
       .cases = {{"OPT-6.7B", {{"--model", "opt-6.7b"}}}, {"Qwen1.5-7B", {{"--model", "qwen1.5-7b"}}}},
       .figures =
           {
               {.what = "Select-N's TPOT / SLO, at most",
                .paper = 1,
                .column = "tbt-of-slo",
                .system = "SelectN",
                .over = Over::most},
               {.what = "DeepSpeed's TPOT / SLO, at most",
                .paper = 8.08,
                .column = "tbt-of-slo",
                .system = "DeepSpeedWeights",
                .over = Over::most},
               {.what = "Select-N's throughput over DeepSpeed's, at least",
                .paper = 6.8,
                .form = Form::ratio,
                .column = "tokens",
                .system = "SelectN",
                .base = "DeepSpeedWeights",
                .over = Over::least},
               {.what = "the same, at most",
                .paper = 8.23,
                .form = Form::ratio,
                .column = "tokens",
                .system = "SelectN",
                .base = "DeepSpeedWeights",
                .over = Over::most},
           }},
      {.name = "select-n-memory",
       .what = "Select-N, Fig. 10: weights on the host and throughput beside FlexGen, OPT-13B, batch 4 to 32",
       // OPT-13B's weights leave no room for KV on the device. Its KV blocks are given, and both systems must offload;
       // 32 GB are assumed for VllmRecompute, which offloads nothing. The text does not give the SLO (assumed: 1.5, as
       // in 5.4).
       .flags = setup({{"--model", "opt-13b"},
                       {"--kv-blocks", "256"},
                       {"--device-memory", "32GB"},
                       {"--slo-scale", "1.5"},
                       {"--systems", four},
                       {"--columns", "case,system,slo,p50-tbt,tbt-of-slo,tokens,weights-host,weights-share,stall"}}),
       .cases = {{"batch 4", {{"--batch", "4"}, {"--generate", "even:rate=10000,requests=4,prompt=64,output=64"}}},
                 {"batch 8", {{"--batch", "8"}, {"--generate", "even:rate=10000,requests=8,prompt=64,output=64"}}},
                 {"batch 16", {{"--batch", "16"}, {"--generate", "even:rate=10000,requests=16,prompt=64,output=64"}}},
                 {"batch 32", {{"--batch", "32"}, {"--generate", "even:rate=10000,requests=32,prompt=64,output=64"}}}},
       .figures =
           {
               {.what = "weights on the host, over FlexGen's",
                .paper = 2.37,
                .form = Form::ratio,
                .column = "weights-host",
                .system = "SelectN",
                .base = "FlexGenWeights"},
               {.what = "throughput over FlexGen's, at most",
                .paper = 1.85,
                .form = Form::ratio,
                .column = "tokens",
                .system = "SelectN",
                .base = "FlexGenWeights",
                .over = Over::most},
           }},
      {.name = "select-n-interval",
       .what = "Select-N, Fig. 11: the interval that it picks beside all others, OPT-6.7B, batch 128",
       .flags = setup({{"--model", "opt-6.7b"}, // as in 5.4, with its SLO of 50 %
                       {"--generate", batch128},
                       {"--batch", "128"},
                       {"--memory-share", "0.96"},
                       {"--slo-scale", "1.5"},
                       {"--systems", "DeepSpeedWeights"},
                       {"--columns", "case,system,slo,p50-tbt,tbt-of-slo,tokens,weights-host,host-layers,stall"}}),
       .cases = {{"its choice", {{"--systems", "SelectN"}}},
                 {"interval 1", {{"--interval", "1"}}},
                 {"interval 2", {{"--interval", "2"}}},
                 {"interval 4", {{"--interval", "4"}}},
                 {"interval 6", {{"--interval", "6"}}},
                 {"interval 7", {{"--interval", "7"}}},
                 {"interval 8", {{"--interval", "8"}}},
                 {"interval 9", {{"--interval", "9"}}},
                 {"interval 10", {{"--interval", "10"}}},
                 {"interval 12", {{"--interval", "12"}}},
                 {"interval 16", {{"--interval", "16"}}}},
       .figures = {{.what = "layers of 32 on the host (its interval of 8: 4)",
                    .paper = 4,
                    .column = "host-layers",
                    .system = "SelectN",
                    .where = "its choice"}}},
      {.name = "select-n-length",
       .what = "Select-N, Fig. 14: tokens of KV that an interval makes room for, Qwen1.5-7B",
       .flags = setup({{"--model", "qwen1.5-7b"},
                       {"--generate", "even:rate=10000,requests=4,prompt=256,output=32"},
                       {"--batch", "4"},
                       {"--slo-scale", "1.5"},
                       {"--systems", "DeepSpeedWeights"},
                       {"--columns", "case,system,kv-room,weights-host,p50-tbt"}}),
       .cases = {{"naive", {{"--systems", "VllmRecompute"}}},
                 {"interval 1", {{"--interval", "1"}}},
                 {"interval 2", {{"--interval", "2"}}},
                 {"interval 4", {{"--interval", "4"}}},
                 {"interval 8", {{"--interval", "8"}}},
                 {"interval 16", {{"--interval", "16"}}}}},
      {.name = "select-n-bus",
       .what = "Select-N, Fig. 12: OPT-13B and Llama-2-13B on two A10 that share a bus, length 64, by batch",
       // The paper's SLO of 100 ms is impossible: at least 2.4 GB of the 26 GB of weights must cross a 25 GB/s link for
       // every token, even if the card stored nothing else. 400 ms is enough for each model alone, but not for both
       // together.
       .flags = setup({{"--tenants", "opt-13b@0.96,llama2-13b@0.96"},
                       {"--sharing", "devices"},
                       {"--slo-tbt", "0.4"},
                       {"--slo-ttft", "600"},
                       {"--slo-scale", "1"},
                       {"--systems", "DeepSpeedWeights,FlexGenWeights,SelectN"},
                       {"--columns", "case,system,slo,p50-tbt,p99-tbt,per-token,tokens,weights-host,served,refused"}}),
       .cases = {{"batch 8", {{"--batch", "8"}, {"--generate", "even:rate=10000,requests=32,prompt=64,output=64"}}},
                 {"batch 16", {{"--batch", "16"}, {"--generate", "even:rate=10000,requests=64,prompt=64,output=64"}}},
                 {"batch 32", {{"--batch", "32"}, {"--generate", "even:rate=10000,requests=128,prompt=64,output=64"}}}},
       .figures = {{.what = "OPT-13B's throughput over FlexGen's, at most",
                    .paper = 2.9,
                    .form = Form::ratio,
                    .column = "tokens",
                    .system = "SelectN/opt-13b",
                    .base = "FlexGenWeights/opt-13b",
                    .over = Over::most}}},
  };
}

} // namespace compared
