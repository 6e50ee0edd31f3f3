// SPDX-License-Identifier: Apache-2.0
#include "fleet/ladder.hpp"

#include "sluice/report/number_text.hpp"
#include "sluice/report/observer/json_writer.hpp"
#include "sluice/report/observer/measure.hpp"
#include "sluice/report/observer/quantile.hpp"

#include "fleet/table_rows.hpp"
#include "shared/version.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <utility>
#include <vector>

namespace fleets {

using namespace sluice;

namespace {

/// llm-d-kv-cache, benchmarking/73-capacity (Apache-2.0): 8 pods of two H100 each serve Qwen3-32B. What the report does
/// not have is stated from elsewhere; `inputs_73` says from where.
void set_73(Options& options) {
  const auto unless = [&options](const char* flag, auto& place, auto value) {
    if (!options.gave(flag)) place = std::move(value);
  };
  if (!options.gave("--prefill")) unless("--engines", options.engines, std::int64_t{8});
  unless("--router", options.routers, std::string{"precise,estimated,random,load"});
  unless("--every", options.every, 0.05);
  unless("--host-step", options.host_step, 0.0055);
  unless("--model", options.machine.model, std::string{"qwen3-32b"});
  unless("--device", options.machine.device, std::string{"h100"});
  unless("--tp", options.machine.tp, 2);
  unless("--kv-blocks", options.machine.kv_blocks, std::int64_t{307'328 / 16});
  unless("--batch", options.machine.batch, std::int64_t{1024});
  unless("--max-batch-tokens", options.machine.batch_tokens, std::int64_t{8192});
  Ladder& ladder = options.ladder;
  ladder.first_warms = true;
  unless("--stages", ladder.stages,
         std::vector<Stage>{{15, 50},
                            {3, 20},
                            {10, 20},
                            {15, 20},
                            {20, 38},
                            {22, 34},
                            {25, 30},
                            {30, 25},
                            {35, 21},
                            {40, 38},
                            {43, 36},
                            {46, 33},
                            {49, 30},
                            {52, 29},
                            {55, 27},
                            {57, 26},
                            {60, 25}});
  unless("--in-flight", ladder.in_flight, std::int64_t{800});
  ladder.groups = 150;
  ladder.users = 5;
  ladder.shared = Tokens{6000};
  ladder.own = Tokens{1200};
  ladder.output = Tokens{1000};
}

std::vector<LadderInput> inputs_73(const Options& options) {
  using Flags = std::initializer_list<const char*>;
  const auto given = [&options](Flags flags) {
    std::string names;
    for (const char* flag : flags)
      if (options.gave(flag)) names += (names.empty() ? "" : ", ") + std::string{flag};
    return names;
  };
  /// Where values are from, of which these flags replace some.
  const auto from = [&given](std::string source, Flags flags) {
    const std::string names = given(flags);
    return names.empty() ? source : source + "; given: " + names;
  };
  const Ladder& ladder = options.ladder;
  const compared::MachineOptions& machine = options.machine;
  std::vector<LadderInput> inputs{
      {fmt::format("{} pods of {} {}, {}, {} tokens of KV a pod, {}",
                   options.prefill ? fmt::format("{} + {}", *options.prefill, *options.decode)
                                   : fmt::format("{}", options.engines),
                   machine.tp, machine.device, *machine.model, *machine.kv_blocks * 16, options.system),
       from("published: the report", {"--engines", "--prefill", "--decode", "--tp", "--device", "--model",
                                      "--kv-blocks", "--kv-dtype", "--system", "--decode-system"})},
      {fmt::format("{} stages of {} arrivals, each after the last answer of the one before", ladder.stages.size(),
                   ladder.arrivals == Arrivals::poisson  ? "Poisson"
                   : ladder.arrivals == Arrivals::scaled ? "scaled Poisson"
                                                         : "even"),
       from("published: the report, and its generator's source (inference-perf, September 2025)",
            {"--stages", "--arrivals"})},
      {fmt::format("{} prompts by turns from the first on, of {} tokens of a group and {} of a user; {} tokens out",
                   ladder.prompts(), ladder.shared.count(), ladder.own.count(), ladder.output.count()),
       from("published: the report, and its generator's source", {"--shared-prefix"})},
      {"the scorers' weights, 256 blocks compared, 31,250 blocks a server",
       options.routers.find(':') == std::string::npos ? "published: the report"
                                                      : "published: the report; given: --router"},
      {fmt::format("{} requests in flight at most", ladder.in_flight),
       from("inferred: the generator's default of 100 for each of 8 workers (docs/fleet.md)", {"--in-flight"})},
      {fmt::format("16 tokens a block, {} tokens an iteration, {} requests a batch", *machine.batch_tokens,
                   *machine.batch),
       from("stated: vLLM's defaults on an H100", {"--max-batch-tokens", "--batch"})},
      {fmt::format("reports every {:g} s, of the end of each pod's last iteration", options.every),
       from("stated: the endpoint picker's default", {"--every"})},
      {fmt::format("{:g} ms of an iteration in which the device waits for the host", options.host_step * 1e3),
       from("stated: vllm-project/vllm issue 10634 (5 to 6 ms without asynchronous scheduling)", {"--host-step"})},
      {machine.profile.empty() ? "the roofline of model and device, two all-reduces a layer over NVLink"
                               : "kernel times of " + machine.profile,
       machine.profile.empty() ? "stated: data sheets, and the shares of docs/devices.md" : "given: --profile"},
  };
  if (const std::string others = given({"--handoff", "--kv-copy", "--fail", "--restart", "--scale-from",
                                        "--scale-waiting", "--scale-delay", "--host-memory", "--deposit", "--set"});
      !others.empty())
    inputs.push_back({"values of flags that the test did not have", "given: " + others});
  return inputs;
}

constexpr std::array<LadderPreset, 1> presets{{
    {"llmd-73-capacity", "llm-d's 8 pods of two H100, Qwen3-32B, 16 rates", &set_73, &inputs_73},
}};

double mean_over(std::size_t count, double sum) { return sum / static_cast<double>(std::max<std::size_t>(1, count)); }

/// The first rate of a router whose P90 of TTFT is above the limit; infinite if none is.
double breaks_at(std::span<const StageRow> rows, std::string_view router, double limit_s) {
  double least = std::numeric_limits<double>::infinity();
  for (const StageRow& row : rows)
    if (row.router == router && row.ttft_p90_s > limit_s) least = std::min(least, row.rate);
  return least;
}
std::string rate_text(double rate) { return std::isinf(rate) ? "none" : tidy_text(rate); }

} // namespace

std::span<const LadderPreset> ladder_presets() { return presets; }

std::vector<StageRow> stage_rows(const Ladder& ladder, std::span<const RouterRuns> all) {
  std::vector<StageRow> rows;
  for (const RouterRuns& one : all) {
    std::size_t begin = 0;
    for (std::size_t s = 0; s < ladder.stages.size(); ++s) {
      const Stage& stage = ladder.stages[s];
      const auto count = static_cast<std::size_t>(stage.requests());
      StageRow row{one.router, stage.rate};
      for (const Ran& run : one.runs) {
        double first = std::numeric_limits<double>::infinity(), sent = 0, last = 0, tokens = 0, ttfts = 0, tpots = 0;
        double found = 0, prompts = 0;
        std::vector<double> ttft;
        std::vector<Seconds> arrivals, ends;
        for (std::size_t i = begin; i < std::min(begin + count, run.fates.size()); ++i) {
          const Fate& fate = run.fates[i];
          arrivals.push_back(Seconds{fate.sent});
          ends.push_back(Seconds{fate.served ? fate.last : fate.sent});
          if (!fate.served) continue;
          first = std::min(first, fate.sent);
          sent = std::max(sent, fate.sent);
          last = std::max(last, fate.last);
          tokens += static_cast<double>(fate.tokens);
          ttft.push_back(fate.first - fate.sent);
          ttfts += ttft.back();
          if (fate.tokens > 1) tpots += (fate.last - fate.first) / static_cast<double>(fate.tokens - 1);
          found += static_cast<double>(fate.found);
          prompts += static_cast<double>(fate.prompt);
        }
        if (ttft.empty()) continue;
        std::sort(ttft.begin(), ttft.end());
        const auto rank = static_cast<std::size_t>(nearest_rank(0.9, static_cast<std::int64_t>(ttft.size())));
        row.tokens_per_s += mean_over(one.runs.size(), tokens / (last - first));
        row.ttft_p90_s += mean_over(one.runs.size(), ttft[rank - 1]);
        row.ttft_mean_s += mean_over(one.runs.size(), mean_over(ttft.size(), ttfts));
        row.tpot_mean_s += mean_over(one.runs.size(), mean_over(ttft.size(), tpots));
        row.sent_s += mean_over(one.runs.size(), sent - first);
        row.found += mean_over(one.runs.size(), found / prompts);
        row.queue_grows += mean_over(one.runs.size(), queue_grows(std::move(arrivals), std::move(ends)));
      }
      begin += count;
      if (s > 0 || !ladder.first_warms) rows.push_back(row);
    }
  }
  return rows;
}

Expected<std::vector<StageRow>> read_recording(const std::string& path) {
  TableRows table(path,
                  {"router|experiment", "stage_rate_per_s|requested_qps",
                   "output_tokens_per_s|output_toks_per_sec_json", "ttft_p90_s", "itl_mean_s", "tpot_mean_s"},
                  4);
  std::vector<StageRow> rows;
  while (table.next()) {
    if (table.text(1) == "all") continue; // of all stages
    StageRow& row = rows.emplace_back(StageRow{table.text(0)});
    row.rate = table.number(1, 1e-9, 1e9);
    row.tokens_per_s = table.number(2, 1e-9, 1e12);
    row.ttft_p90_s = table.number(3, 0, 1e9);
    if (table.has(5))
      row.tpot_mean_s = table.number(5, 0, 1e9);
    else if (table.has(4))
      row.tpot_mean_s = 2 * table.number(4, 0, 1e9); // see `read_recording`
  }
  if (!table.status()) return table.status().error();
  if (rows.empty()) return Error{ErrorCode::bad_input, path, "it has no stage", "a row for each router and stage"};
  return rows;
}

std::string ladder_table(std::span<const StageRow> rows, std::span<const StageRow> measured, double limit_s) {
  const auto measured_at = [&](const StageRow& row) -> const StageRow* {
    const auto found = std::find_if(measured.begin(), measured.end(), [&](const StageRow& one) {
      return one.router == row.router && one.rate == row.rate;
    });
    return found == measured.end() ? nullptr : &*found;
  };
  std::vector<TextTable::Column> columns{{"", "router"}, {"", "rate/s"}, {"output tokens/s", "simulated"}};
  if (!measured.empty()) {
    columns.push_back({"output tokens/s", "measured"});
    columns.push_back({"output tokens/s", "diff, %"});
  }
  columns.push_back({"P90 TTFT, s", "simulated"});
  if (!measured.empty()) columns.push_back({"P90 TTFT, s", "measured"});
  columns.push_back({"", "mean TTFT, s"});
  columns.push_back({"TPOT, ms", "simulated"});
  if (!measured.empty()) columns.push_back({"TPOT, ms", "measured"});
  columns.push_back({"", "sent in, s"});
  columns.push_back({"", "found, %"});
  TextTable table(columns);
  std::vector<std::string> routers;
  for (const StageRow& row : rows) {
    if (routers.empty() || routers.back() != row.router) {
      if (!routers.empty()) table.rule();
      routers.push_back(row.router);
    }
    std::vector<std::string> cells{marked(row.router, row.queue_grows), tidy_text(row.rate),
                                   fixed_text(row.tokens_per_s, 0)};
    const StageRow* real = measured_at(row);
    if (!measured.empty()) {
      cells.push_back(real != nullptr ? fixed_text(real->tokens_per_s, 0) : "-");
      cells.push_back(real != nullptr ? fmt::format("{:+.1f}", 100 * (row.tokens_per_s / real->tokens_per_s - 1))
                                      : "-");
    }
    cells.push_back(short_text(row.ttft_p90_s));
    if (!measured.empty()) cells.push_back(real != nullptr ? short_text(real->ttft_p90_s) : "-");
    cells.insert(cells.end(), {short_text(row.ttft_mean_s), milliseconds_text(row.tpot_mean_s)});
    if (!measured.empty())
      cells.push_back(real != nullptr && real->tpot_mean_s > 0 ? milliseconds_text(real->tpot_mean_s) : "-");
    cells.insert(cells.end(), {short_text(row.sent_s), percent_text(row.found)});
    table.row(std::move(cells));
  }
  std::string out = table.text() + "\n";
  for (const std::string& router : routers) {
    double sum = 0, real_sum = 0;
    int count = 0, stages = 0;
    for (const StageRow& row : rows) {
      if (row.router != router) continue;
      sum += row.tokens_per_s;
      ++stages;
      if (const StageRow* real = measured_at(row); real != nullptr) {
        real_sum += real->tokens_per_s;
        ++count;
      }
    }
    out += fmt::format("{}: {:.0f} tokens/s in the mean of {} stages", router, sum / stages, stages);
    if (count == stages)
      out += fmt::format(" (measured {:.0f}, {:+.1f} %)", real_sum / count, 100 * (sum / real_sum - 1));
    out += fmt::format("; P90 TTFT first above {:g} s at {}", limit_s, rate_text(breaks_at(rows, router, limit_s)));
    if (count > 0)
      out += fmt::format(" (measured {})", rate_text(breaks_at(measured, router, limit_s)));
    else if (!measured.empty())
      out += " (not measured)";
    out += "\n";
  }
  std::string others; // NAME=ROUTER gives a router the recording's name
  for (const StageRow& row : measured)
    if (std::find(routers.begin(), routers.end(), row.router) == routers.end() &&
        (", " + others + ", ").find(", " + row.router + ", ") == std::string::npos)
      others += (others.empty() ? "" : ", ") + row.router;
  if (!others.empty()) out += "measured, and not simulated: " + others + "\n";
  return out;
}

std::string ladder_json(std::span<const StageRow> rows, std::span<const LadderInput> inputs) {
  std::string text;
  JsonWriter json(text);
  json.begin_object().field("made_by", made_by().line()).key("inputs").begin_array();
  for (const LadderInput& one : inputs)
    json.line().begin_object().field("what", one.what).field("from", one.from).end_object();
  json.end_array().line().key("rows").begin_array();
  for (const StageRow& row : rows) {
    json.line().begin_object().field("router", row.router).field("rate", row.rate);
    json.field("output_tokens_per_s", row.tokens_per_s).field("ttft_p90_s", row.ttft_p90_s);
    json.field("ttft_mean_s", row.ttft_mean_s).field("tpot_mean_s", row.tpot_mean_s);
    json.field("sent_s", row.sent_s).field("found_share", row.found);
    json.field("queue_grows", row.queue_grows).end_object();
  }
  json.end_array().end_object();
  return text + "\n";
}

} // namespace fleets
