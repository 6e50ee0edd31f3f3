// SPDX-License-Identifier: Apache-2.0
// MIRAGE's experiments (section 7): several tenants (7.2, 7.3), and one (7.4 to 7.6).
#include "compare/presets/papers.hpp"

#include <vector>

namespace compared {

namespace {

/// Section 7.1: OPT-13B on a GH200 of 96 GB, of which it has 35 % (Table 1, said to hold for 7.4 to 7.6), arrivals of
/// the Azure coding trace scaled in rate. Assumed: ShareGPT's and Alpaca's mean lengths as vLLM's paper has them,
/// lognormal with CV 1, within the 2,048 tokens of the model; an SLO of 100 ms, which no system here looks at.
std::vector<PresetFlag> setup(std::vector<PresetFlag> more) {
  std::vector<PresetFlag> flags{{"--model", "opt-13b"},     {"--device", "gh200-96"},
                                {"--memory-share", "0.35"}, {"--batch", "256"},
                                {"--plan-nodes", "100"},    {"--slo-tbt", "0.1"},
                                {"--slo-scale", "1"},       {"--deposit", "off"},
                                {"--table", "md"},          {"--trace", "data:traces/azure_llm_2023_code.csv"},
                                {"--format", "azure"},      {"--limit", "1000"}};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

/// Table 1's combinations, on the same device with the same arrivals, dealt to the tenants at random. Turns are taken
/// until a model has nothing to do: the text names round robin and no quantum. Its KV is gone then, as 7.4 says of
/// inactive models, and so is what it borrowed.
std::vector<PresetFlag> tenants(std::string_view who, std::vector<PresetFlag> more) {
  std::vector<PresetFlag> flags{
      {"--tenants", who},    {"--device", "gh200-96"}, {"--quantum", "100000"},
      {"--batch", "256"},    {"--slo-tbt", "0.1"},     {"--slo-scale", "1"},
      {"--deposit", "off"},  {"--table", "md"},        {"--trace", "data:traces/azure_llm_2023_code.csv"},
      {"--format", "azure"}, {"--limit", "600"}};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}
constexpr std::string_view c1 = "opt-13b@0.35,llama2-13b@0.35,llama3-8b@0.2";
constexpr std::string_view c2 = "opt-30b@0.65,opt-6.7b@0.15";

constexpr std::string_view sharegpt =
    "poisson:rate=1,requests=1,prompt=lognormal(161,1.0),output=lognormal(338,1.0),longest=1024";
constexpr std::string_view alpaca =
    "poisson:rate=1,requests=1,prompt=lognormal(19.3,1.0),output=lognormal(58.5,1.0),longest=1024";

// The trace's first 1,000 requests arrive at 1.917 a second.
const std::vector<PresetCase> loads{
    {"3/s", {{"--rate-scale", "1.565"}}}, {"5/s", {{"--rate-scale", "2.608"}}}, {"10/s", {{"--rate-scale", "5.217"}}}};
const std::vector<PresetCase> rates{{"1/s", {{"--rate-scale", "0.5217"}}},
                                    {"3/s", {{"--rate-scale", "1.565"}}},
                                    {"5/s", {{"--rate-scale", "2.608"}}},
                                    {"10/s", {{"--rate-scale", "5.217"}}}};
constexpr std::string_view columns = "case,system,p50-tbt,p99-tbt,gap,p99-ttft,tokens,parked,weights-share";

std::vector<PaperFigure> beside_vllm(double tbt, double ttft, double tokens) {
  return {{.what = "P99 TBT beside vLLM's",
           .paper = tbt,
           .form = Form::fall,
           .column = "p99-tbt",
           .system = "Mirage",
           .base = "VllmRecompute"},
          {.what = "P99 TTFT beside vLLM's",
           .paper = ttft,
           .form = Form::fall,
           .column = "p99-ttft",
           .system = "Mirage",
           .base = "VllmRecompute"},
          {.what = "throughput beside vLLM's",
           .paper = tokens,
           .form = Form::gain,
           .column = "tokens",
           .system = "Mirage",
           .base = "VllmRecompute"}};
}
std::vector<PaperFigure> beside_vllm(double tbt, double ttft, double tokens, const PaperFigure& more) {
  std::vector<PaperFigure> figures = beside_vllm(tbt, ttft, tokens);
  figures.push_back(more);
  return figures;
}

} // namespace

std::vector<Preset> mirage_presets() {
  return {
      {.name = "mirage",
       .what = "MIRAGE, Fig. 13 and 14 with ShareGPT's lengths: OPT-13B on a GH200, bursts of the Azure coding trace",
       .flags = setup({{"--lengths", sharegpt}, {"--systems", "VllmRecompute,Pie,Mirage"}, {"--columns", columns}}),
       .cases = rates,
       // Strict isolation, "a special case of single-model inference" (7.3): averages over models and loads. Pie: 7.4.
       .figures = beside_vllm(0.574, 0.348, 0.079,
                              {.what = "throughput beside Pie's",
                               .paper = 0.471,
                               .form = Form::gain,
                               .column = "tokens",
                               .system = "Mirage",
                               .base = "Pie"})},
      {.name = "mirage-alpaca",
       .what = "MIRAGE, Fig. 14 and 15: the same with Alpaca's lengths, and one slot always",
       .flags = setup(
           {{"--lengths", alpaca}, {"--systems", "VllmRecompute,Pie,Mirage,MirageOneSlot"}, {"--columns", columns}}),
       .cases = rates},
      {.name = "mirage-slots",
       .what = "MIRAGE, Fig. 15 with ShareGPT's lengths: one slot always, beside what the equations say",
       .flags = setup({{"--lengths", sharegpt}, {"--systems", "Mirage,MirageOneSlot"}, {"--columns", columns}}),
       .cases = rates,
       .figures = {{.what = "throughput with one slot always, at least",
                    .paper = -0.127,
                    .form = Form::gain,
                    .column = "tokens",
                    .system = "MirageOneSlot",
                    .base = "Mirage",
                    .over = Over::least}}},
      {.name = "mirage-reversion",
       .what = "MIRAGE, Fig. 16: with and without giving back what was lent",
       .flags = setup({{"--lengths", sharegpt}, {"--systems", "Mirage,MirageNoReversion"}, {"--columns", columns}}),
       .cases = rates,
       .figures = {{.what = "P50 TBT at 1/s, beside keeping it",
                    .paper = 0.49,
                    .form = Form::fall,
                    .column = "p50-tbt",
                    .system = "Mirage",
                    .base = "MirageNoReversion",
                    .where = "1/s"}}},
      {.name = "mirage-cap",
       .what = "MIRAGE, Fig. 17: a cap on the layers that are lent, 10 requests a second",
       .flags =
           setup({{"--lengths", sharegpt}, {"--systems", "Mirage"}, {"--columns", columns}, {"--rate-scale", "5.217"}}),
       .cases = {{"0 layers", {{"--remap-layers", "0"}}},
                 {"2 layers", {{"--remap-layers", "2"}}},
                 {"4 layers", {{"--remap-layers", "4"}}},
                 {"8 layers", {{"--remap-layers", "8"}}},
                 {"no cap", {}}}},
      {.name = "mirage-c1",
       .what = "MIRAGE, Fig. 8, temporal sharing: OPT-13B, Llama-2-13B and Llama-3-8B in turns on a GH200",
       .flags = tenants(c1, {{"--lengths", sharegpt}, {"--systems", "VllmRecompute,Mirage"}, {"--columns", columns}}),
       .cases = loads,
       .figures = beside_vllm(0.544, 0.967, 0.399)},
      {.name = "mirage-c2",
       .what = "MIRAGE, Fig. 8, temporal sharing: OPT-30B and OPT-6.7B in turns on a GH200",
       .flags = tenants(c2, {{"--lengths", sharegpt}, {"--systems", "VllmRecompute,Mirage"}, {"--columns", columns}}),
       .cases = loads,
       .figures = beside_vllm(0.448, 0.748, 0.453)},
      {.name = "mirage-order",
       .what = "MIRAGE, Fig. 11: memory first of the model that was active last, or longest ago",
       .flags = tenants(
           c1, {{"--lengths", sharegpt}, {"--systems", "Mirage"}, {"--columns", columns}, {"--rate-scale", "2.608"}}),
       .cases = {{"mru", {{"--remap-order", "mru"}}}, {"lru", {{"--remap-order", "lru"}}}}},
      {.name = "mirage-together",
       .what = "MIRAGE, Fig. 12, spatial sharing without isolation: the three models of mirage-c1 side by side",
       .flags = tenants(c1, {{"--lengths", sharegpt},
                             {"--systems", "VllmRecompute,Mirage"},
                             {"--columns", columns},
                             {"--sharing", "together"}}),
       .cases = loads,
       .figures = beside_vllm(0.655, 0.207, 0.066)},
  };
}

} // namespace compared
