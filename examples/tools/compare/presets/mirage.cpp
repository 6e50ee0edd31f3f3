// SPDX-License-Identifier: Apache-2.0
// MIRAGE's experiments (section 7): several tenants (7.2, 7.3), and one tenant (7.4 to 7.6).
#include "compare/presets/papers.hpp"

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace compared {

namespace mirage {
namespace {

constexpr std::string_view columns = "case,system,p50-tbt,p99-tbt,gap,p99-ttft,tokens,preempted,weights-share";
constexpr std::string_view sharegpt =
    "poisson:rate=1,requests=1,prompt=lognormal(161,1.0),output=lognormal(338,1.0),longest=1024";
constexpr std::string_view alpaca =
    "poisson:rate=1,requests=1,prompt=lognormal(19.3,1.0),output=lognormal(58.5,1.0),longest=1024";
constexpr std::string_view until_empty = "100000"; // seconds, longer than any queue lasts

/// Section 7.1: OPT-13B on a GH200 of 96 GB, of which it has 35 % (Table 1; the text applies this share to 7.4 to 7.6),
/// arrivals of the Azure coding trace at a scaled rate. Assumed: ShareGPT's and Alpaca's mean lengths from vLLM's
/// paper, lognormal with CV 1, within the model's 2,048 tokens; an SLO of 100 ms, which no system here uses. OrbitFlow,
/// which these papers do not compare with, evaluates one placement per plan: with such batches, `--systems all` would
/// spend minutes in its planner.
std::vector<PresetFlag> setup(std::vector<PresetFlag> more) {
  std::vector<PresetFlag> flags{{"--model", "opt-13b"},     {"--device", "gh200-96"},
                                {"--memory-share", "0.35"}, {"--batch", "256"},
                                {"--plan-nodes", "1"},      {"--slo-tbt", "0.1"},
                                {"--slo-scale", "1"},       {"--deposit", "off"},
                                {"--table", "md"},          {"--trace", "data:traces/azure_llm_2023_code.csv"},
                                {"--format", "azure"},      {"--limit", "1000"}};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

/// Table 1's combinations, on the same device. A turn lasts until the model has no work: the text says round robin and
/// gives no quantum (`mirage-c1` and `mirage-c2` also have turns of 1 s). The model then releases its KV, as 7.4 says
/// about inactive models, and returns the memory that it borrowed.
std::vector<PresetFlag> tenants(std::string_view who, std::vector<PresetFlag> more) {
  std::vector<PresetFlag> flags{{"--tenants", who},         {"--device", "gh200-96"},
                                {"--quantum", until_empty}, {"--batch", "256"},
                                {"--slo-tbt", "0.1"},       {"--slo-scale", "1"},
                                {"--deposit", "off"},       {"--table", "md"},
                                {"--columns", columns},     {"--systems", "VllmRecompute,Mirage"}};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}
/// The same arrivals as above, assigned to the tenants at random.
std::vector<PresetFlag> dealt(std::string_view who, std::vector<PresetFlag> more) {
  std::vector<PresetFlag> flags = tenants(who, {{"--trace", "data:traces/azure_llm_2023_code.csv"},
                                                {"--format", "azure"},
                                                {"--limit", "1000"},
                                                {"--lengths", sharegpt}});
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}
/// vLLM 0.7.3, on which the paper builds, computes whole prompts before any decode; today's chunks them.
constexpr PresetFlag both_orders{"--systems", "VllmRecompute,Mirage,VllmPrefillFirst,MiragePrefillFirst"};
constexpr std::string_view c1 = "opt-13b@0.35,llama2-13b@0.35,llama3-8b@0.2";
constexpr std::string_view c2 = "opt-30b@0.65,opt-6.7b@0.15";

/// Fig. 9 and 10: each tenant's own requests, for three minutes. One trace cannot be scaled to two rates. The bursts
/// are milder than the trace's (the CV of its gaps is 11), because a few hundred gaps with that CV have no meaningful
/// rate.
std::string loads_of(int rate_a, const std::string& lengths_a, int rate_b, const std::string& lengths_b) {
  const auto load = [](int rate, const std::string& lengths) {
    return "gamma:cv=4,rate=" + std::to_string(rate) + ",requests=" + std::to_string(180 * rate) + "," + lengths;
  };
  return load(rate_a, lengths_a) + " " + load(rate_b, lengths_b);
}
const std::string chats = "prompt=lognormal(161,1.0),output=lognormal(338,1.0),longest=1024"; // like `sharegpt`
/// 1,734 and 634 tokens on average. The text does not give the generated share (assumed: a fifth) or the spread
/// (assumed: a CV of 0.1, so that no request exceeds the models' 2,048 tokens).
const std::string long_requests = "prompt=lognormal(1387,0.1),output=lognormal(347,0.1)";
const std::string short_requests = "prompt=lognormal(507,0.1),output=lognormal(127,0.1)";
const std::string at_1_and_5 = loads_of(1, chats, 5, chats); // presets are views
const std::string at_3_and_3 = loads_of(3, chats, 3, chats);
const std::string at_5_and_1 = loads_of(5, chats, 1, chats);
const std::string long_and_short = loads_of(2, long_requests, 2, short_requests);
const std::string short_and_long = loads_of(2, short_requests, 2, long_requests);

// The text gives no rates (its figures' axes do). The trace's first 1,000 requests arrive at 1.917 per second.
const std::vector<PresetCase> rates{{"0.2/s", {{"--rate-scale", "0.1043"}}}, {"0.5/s", {{"--rate-scale", "0.2608"}}},
                                    {"1/s", {{"--rate-scale", "0.5217"}}},   {"3/s", {{"--rate-scale", "1.565"}}},
                                    {"5/s", {{"--rate-scale", "2.608"}}},    {"10/s", {{"--rate-scale", "5.217"}}}};
/// The same rates, each with turns of 1 s and with turns that last until a model has nothing to do.
const std::vector<std::string> labels_in_turns = [] {
  std::vector<std::string> labels; // presets are views
  for (const PresetCase& one : rates)
    for (const char* const turns : {", turns of 1 s", ", until empty"})
      labels.push_back(std::string{one.label} + turns);
  return labels;
}();
std::vector<PresetCase> in_turns() {
  std::vector<PresetCase> cases;
  for (std::size_t i = 0; i < labels_in_turns.size(); ++i) {
    PresetCase one{labels_in_turns[i], rates[i / 2].flags};
    one.flags.push_back({"--quantum", i % 2 == 0 ? "1" : until_empty});
    cases.push_back(std::move(one));
  }
  return cases;
}

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
/// The same for turns of 1 s and until a model has nothing to do, on vLLM's order of today and of 0.7.
std::vector<PaperFigure> in_turns_beside_vllm(double tbt, double ttft, double tokens) {
  struct Way {
    std::string_view where;
    bool prefill_first;
    std::array<std::string_view, 3> what;
  };
  static constexpr std::array<Way, 4> ways{
      {{"turns of 1 s",
        false,
        {"turns of 1 s: P99 TBT beside vLLM's", "turns of 1 s: P99 TTFT", "turns of 1 s: throughput"}},
       {"until empty",
        false,
        {"until empty: P99 TBT beside vLLM's", "until empty: P99 TTFT", "until empty: throughput"}},
       {"turns of 1 s",
        true,
        {"prefill first, turns of 1 s: P99 TBT", "prefill first, turns of 1 s: P99 TTFT",
         "prefill first, turns of 1 s: throughput"}},
       {"until empty",
        true,
        {"prefill first, until empty: P99 TBT", "prefill first, until empty: P99 TTFT",
         "prefill first, until empty: throughput"}}}};
  std::vector<PaperFigure> figures;
  for (const Way& way : ways)
    for (PaperFigure figure : beside_vllm(tbt, ttft, tokens)) {
      figure.what = way.what[figures.size() % 3];
      figure.where = way.where;
      if (way.prefill_first) {
        figure.system = "MiragePrefillFirst";
        figure.base = "VllmPrefillFirst";
      }
      figures.push_back(figure);
    }
  return figures;
}
/// Section 7.4.
std::vector<PaperFigure> beside_pie() {
  return {{.what = "throughput beside Pie's",
           .paper = 0.471,
           .form = Form::gain,
           .column = "tokens",
           .system = "Mirage",
           .base = "Pie"},
          {.what = "P99 TTFT beside Pie's",
           .paper = 0.936,
           .form = Form::fall,
           .column = "p99-ttft",
           .system = "Mirage",
           .base = "Pie"},
          {.what = "P99 TBT beside Pie's (\"similar\")",
           .paper = 1,
           .form = Form::ratio,
           .column = "p99-tbt",
           .system = "Mirage",
           .base = "Pie"}};
}

} // namespace
} // namespace mirage

std::vector<Preset> mirage_presets() {
  using namespace mirage;
  return {
      {.name = "mirage",
       .what = "MIRAGE, Fig. 14 with ShareGPT's lengths: OPT-13B on a GH200, bursts of the Azure coding trace",
       .flags = setup({{"--lengths", sharegpt}, {"--systems", "VllmRecompute,Pie,Mirage"}, {"--columns", columns}}),
       .cases = rates,
       .figures = beside_pie()},
      {.name = "mirage-alpaca",
       .what = "MIRAGE, Fig. 14 and 15: the same with Alpaca's lengths, and one slot always",
       .flags = setup(
           {{"--lengths", alpaca}, {"--systems", "VllmRecompute,Pie,Mirage,MirageOneSlot"}, {"--columns", columns}}),
       .cases = rates,
       .figures = beside_pie()},
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
       .flags = dealt(c1, {both_orders}),
       .cases = in_turns(),
       .figures = in_turns_beside_vllm(0.544, 0.967, 0.399)},
      {.name = "mirage-c2",
       .what = "MIRAGE, Fig. 8, temporal sharing: OPT-30B and OPT-6.7B in turns on a GH200",
       .flags = dealt(c2, {both_orders}),
       .cases = in_turns(),
       .figures = in_turns_beside_vllm(0.448, 0.748, 0.453)},
      {.name = "mirage-rates",
       .what = "MIRAGE, Fig. 9: OPT-30B (A) and OPT-6.7B (B) in turns at different rates",
       .flags = tenants(c2, {}),
       .cases = {{"A 1/s, B 5/s", {{"--tenant-load", at_1_and_5}}},
                 {"A 3/s, B 3/s", {{"--tenant-load", at_3_and_3}}},
                 {"A 5/s, B 1/s", {{"--tenant-load", at_5_and_1}}}},
       .figures = beside_vllm(0.825, 0.993, 0.867)},
      {.name = "mirage-inputs",
       .what =
           "MIRAGE, Fig. 10: OPT-30B (A) and OPT-6.7B (B) in turns, long requests for one and short ones for the other",
       .flags = tenants(c2, {}),
       .cases = {{"A long, B short", {{"--tenant-load", long_and_short}}},
                 {"A short, B long", {{"--tenant-load", short_and_long}}}},
       .figures = beside_vllm(0.571, 0.981, 0.656)},
      {.name = "mirage-order",
       .what = "MIRAGE, Fig. 11: memory first of the model that was active last, or longest ago",
       .flags = dealt(c1, {{"--systems", "Mirage"}, {"--rate-scale", "2.608"}}),
       .cases = {{"mru", {{"--remap-order", "mru"}}}, {"lru", {{"--remap-order", "lru"}}}},
       .figures = {{.what = "P99 TBT, of most recent first beside least, at most (\"up to 22 %\" of a tail)",
                    .paper = 0.22,
                    .form = Form::fall,
                    .column = "p99-tbt",
                    .system = "Mirage",
                    .base = "Mirage",
                    .where = "mru",
                    .base_where = "lru"},
                   {.what = "P99 TTFT",
                    .paper = 0.22,
                    .form = Form::fall,
                    .column = "p99-ttft",
                    .system = "Mirage",
                    .base = "Mirage",
                    .where = "mru",
                    .base_where = "lru"}}},
      {.name = "mirage-together",
       .what = "MIRAGE, Fig. 12, spatial sharing without isolation: the three models of mirage-c1 side by side",
       .flags = dealt(c1, {{"--sharing", "together"}}),
       .cases = rates,
       .figures = beside_vllm(0.655, 0.207, 0.066)},
      {.name = "mirage-parts",
       .what =
           "MIRAGE, Fig. 13, spatial sharing with strict isolation: each model of mirage-c1 on its part of the device",
       .flags = dealt(c1, {{"--sharing", "parts"}}),
       .cases = rates,
       .figures = beside_vllm(0.574, 0.348, 0.079)},
  };
}

} // namespace compared
