// SPDX-License-Identifier: Apache-2.0
// sluice-compare: serves one workload with many systems, and shows which of them meets its users' SLOs, and why.
//
// The problem: the KV of a batch outgrows the device, and every system has another answer. Goals of this program: one
// command from a trace to a table that compares them alike; a report that one would rather look at than read; and to
// show how an engine is configured, fed and observed (compare/run_engine.hpp, forty lines).
#include "sluice/cost/nlohmann/orbitflow_profile.hpp"
#include "sluice/cost/read_table_profile.hpp"
#include "sluice/device/nlohmann/device_json.hpp"
#include "sluice/model/nlohmann/hf_config.hpp"
#include "sluice/report/html.hpp"
#include "sluice/report/json.hpp"
#include "sluice/report/table.hpp"
#include "sluice/transfer/deadline_pool.hpp"
#include "sluice/transfer/earliest_deadline_first.hpp"
#include "sluice/transfer/fair_share.hpp"
#include "sluice/transfer/next_layer.hpp"

#include "compare/run.hpp"
#include "progress.hpp"
#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace sluice;

struct Options {
  std::string trace, format, generate, profile, systems = "all", transfer = "own", deposit = "both", out;
  std::string model = "llama3-8b", device = "a5000";
  std::optional<std::int64_t> kv_blocks, batch, batch_tokens, limit;
  std::optional<double> slo_tbt;
  double slo_ttft = 5; // SuperInfer's
  double rate_scale = 1;
  double alpha = 1;
  std::optional<double> max_pause;
  std::vector<double> slo_scales;
  std::uint64_t seed = 1;
  bool list = false, wall_times = false, quiet = false;
};

Error flag_error(std::string flag, std::string what, std::string expected) {
  return {ErrorCode::bad_input, std::move(flag), std::move(what), std::move(expected)};
}

/// A name that is not known is the flag's mistake ("model"); a file has a name of its own.
Error of_flag(std::string_view flag, Error error) {
  if (error.where == flag.substr(2)) error.where = flag;
  return error;
}

Expected<std::int64_t> at_least_one(const char* flag, const std::optional<std::int64_t>& given,
                                    std::int64_t otherwise) {
  if (given && *given < 1) return flag_error(flag, fmt::format("it is {}", *given), "a whole number of at least 1");
  return given.value_or(otherwise);
}

/// What the world is: model, device, and the cost model that stands for both.
struct World {
  ModelShape shape;
  Device device;
  compared::CostChoice cost;
  std::string cost_name;
};

Expected<World> world_of(const Options& options) {
  Expected<ModelShape> shape = find_or_read_model(options.model);
  if (!shape) return of_flag("--model", shape.error());
  Expected<Device> device = find_or_read_device(options.device);
  if (!device) return of_flag("--device", device.error());
  if (options.profile.empty())
    return World{*shape, *device, compared::CostChoice{Roofline{*shape, *device}}, "roofline of model and device"};
  if (std::filesystem::is_directory(options.profile)) {
    Expected<TableProfile> table =
        read_table_profile(options.profile, LinkCost{device->host_to_device, device->segment_cost});
    if (!table) return table.error();
    return World{*shape, *device, compared::CostChoice{std::move(*table)}, "measured kernels: " + options.profile};
  }
  const FlopsPerSecond prefill = device->compute_rate(RooflineEfficiency{}.compute);
  Expected<LinearProfile> line = read_orbitflow_profile(options.profile, *shape, prefill);
  if (!line) return line.error();
  return World{*shape, *device, compared::CostChoice{std::move(*line)},
               fmt::format("linear fits: {}, prefill at {:.0f} TFLOP/s", options.profile, prefill.count() / 1e12)};
}

/// The step of a decode whose KV fills the budget, nothing offloaded: what one SLO is in OrbitFlow's traces, and a
/// step's length where arrivals count steps.
Seconds full_budget_step(const World& world, TokenBlocks budget, Tokens block_tokens) {
  Work work;
  work.decodes = work.samples = 1;
  work.decode_context = Tokens{budget.count() * block_tokens.count()};
  return world.cost.step(work).total(world.shape.layers);
}

/// Token blocks that the device holds beside the weights.
Expected<TokenBlocks> budget_of(const World& world, Tokens block_tokens) {
  // 0.9 of the memory for weights and KV together, the rest for activations: vLLM's gpu_memory_utilization.
  const auto usable = static_cast<std::int64_t>(0.9 * static_cast<double>(world.device.memory.count()));
  const std::int64_t left = usable - world.shape.weight_bytes().count();
  const std::int64_t blocks = left / world.shape.token_block_bytes(block_tokens).count();
  if (blocks < 1) {
    return flag_error("--model",
                      fmt::format("the {:.1f} GB of weights of {} do not fit 0.9 of the {:.1f} GB of {}",
                                  static_cast<double>(world.shape.weight_bytes().count()) / 1e9, world.shape.name,
                                  static_cast<double>(world.device.memory.count()) / 1e9, world.device.name),
                      "a smaller model, a larger device, or --kv-blocks for a device that holds the weights elsewhere");
  }
  return TokenBlocks{blocks};
}

Expected<compared::Rule> rule_of(const std::string& name) {
  if (name == "own") return compared::Rule::own;
  if (name == NextLayer::name) return compared::Rule::next_layer;
  if (name == FairShare::name) return compared::Rule::fair_share;
  if (name == EarliestDeadlineFirst::name) return compared::Rule::earliest_deadline_first;
  if (name == DeadlinePool::name) return compared::Rule::deadline_pool;
  return flag_error("--transfer", fmt::format("there is no rule '{}'", name),
                    "own, next-layer, fair-share, earliest-deadline-first or deadline-pool");
}

Expected<std::vector<const compared::System*>> chosen_systems(const std::string& list) {
  std::vector<const compared::System*> chosen;
  if (list == "all") {
    for (const compared::System& system : compared::systems()) chosen.push_back(&system);
    return chosen;
  }
  std::string names;
  for (const compared::System& system : compared::systems())
    names += (names.empty() ? "" : ", ") + std::string{system.name};
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::string name = list.substr(begin, end - begin);
    begin = end + 1;
    const compared::System* found = nullptr;
    for (const compared::System& system : compared::systems())
      if (system.name == name) found = &system;
    if (found == nullptr)
      return flag_error("--systems", fmt::format("there is no system '{}'", excerpt(name)), "all, or any of " + names);
    chosen.push_back(found);
  }
  return chosen;
}

Status write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (file) return {};
  return Error{ErrorCode::bad_input, path.string(), "the file cannot be written", "a folder that can be written to"};
}

void list_systems() {
  for (const compared::System& system : compared::systems()) fmt::print("{:<22} {}\n", system.name, system.what);
}

/// Everything a comparison needs, from the command line; what the trace itself says comes before the defaults.
struct Comparison {
  World world;
  compared::Setup setup;
  WorkloadReport workload;
  std::vector<const compared::System*> systems;
  compared::Rule rule = compared::Rule::own;
  Seconds base_slo{0};
  bool without_deposit = true, with_deposit = true;
};

Expected<Comparison> prepare(const Options& options, const std::string& command) {
  Expected<World> world = world_of(options);
  if (!world) return world.error();
  Expected<std::vector<const compared::System*>> systems = chosen_systems(options.systems);
  if (!systems) return systems.error();
  Expected<compared::Rule> rule = rule_of(options.transfer);
  if (!rule) return rule.error();
  if (options.deposit != "both" && options.deposit != "on" && options.deposit != "off")
    return flag_error("--deposit", fmt::format("it is '{}'", options.deposit), "both, on or off");
  for (const double scale : options.slo_scales)
    if (!(scale > 0) || !std::isfinite(scale))
      return flag_error("--slo-scale", fmt::format("a scale is {}", scale), "positive numbers, such as 1,1.5,2.5");
  if (options.slo_tbt && !(*options.slo_tbt > 0))
    return flag_error("--slo-tbt", fmt::format("it is {} s", *options.slo_tbt), "a positive number of seconds");
  if (!(options.alpha >= 0) || !std::isfinite(options.alpha))
    return flag_error("--alpha", fmt::format("it is {}", options.alpha), "a number of at least 0");
  if (options.max_pause && !(*options.max_pause >= 0))
    return flag_error("--max-pause", fmt::format("it is {} s", *options.max_pause), "seconds, at least 0");
  if (!options.trace.empty() && !options.generate.empty())
    return flag_error("--generate", "a trace is given as well", "--trace or --generate, not both");
  if (!options.trace.empty() && options.format.empty())
    return flag_error("--format", "it is missing", "azure, mooncake, orbitflow or vllm, for --trace");

  const bool demo = options.trace.empty() && options.generate.empty();
  std::optional<TraceFormat> format;
  std::optional<OrbitFlowHeader> header;
  if (!options.trace.empty()) {
    const Expected<TraceFormat> found = find_format(options.format);
    if (!found) return found.error();
    format = *found;
    if (*format == TraceFormat::orbitflow) {
      const Expected<OrbitFlowHeader> read = read_orbitflow_header(options.trace);
      if (!read) return read.error();
      header = *read;
    }
  }

  Limits limits;
  const Expected<std::int64_t> batch = at_least_one("--batch", options.batch,
                                                    header ? header->batch_size
                                                    : demo ? demo_batch
                                                           : 256);
  if (!batch) return batch.error();
  if (*batch > 1'000'000) return flag_error("--batch", fmt::format("it is {}", *batch), "at most 1000000");
  limits.batch = static_cast<int>(*batch);
  const Expected<std::int64_t> batch_tokens = at_least_one("--max-batch-tokens", options.batch_tokens,
                                                           header ? header->max_model_len.count()
                                                           : demo ? 32768
                                                                  : 2048);
  if (!batch_tokens) return batch_tokens.error();
  limits.batch_tokens = Tokens{*batch_tokens};

  TokenBlocks budget{0};
  if (options.kv_blocks) { // for a device that holds the weights elsewhere: nothing is left to check
    const Expected<std::int64_t> given = at_least_one("--kv-blocks", options.kv_blocks, 1);
    if (!given) return given.error();
    budget = TokenBlocks{*given};
  } else {
    const Expected<TokenBlocks> held = budget_of(*world, limits.block_tokens);
    if (!held) return held.error();
    // A trace's budget is part of its experiment, which may be on another device; the demo's is meant to be short.
    budget = header ? header->budget : demo ? std::min(demo_budget, *held) : *held;
  }

  Comparison c{.world = *world,
               .setup = {.limits = limits, .geometry = {}, .cost = world->cost, .open = {}},
               .workload = {},
               .systems = std::move(*systems),
               .rule = *rule};
  c.without_deposit = options.deposit != "on";
  c.with_deposit = options.deposit != "off";
  const ModelShape& shape = c.world.shape;
  c.setup.geometry = {shape.layers, shape.layer_block_bytes(limits.block_tokens), shape.layer_weight_bytes()};
  c.setup.device_blocks = across_layers(budget, shape.layers);
  c.setup.alpha = options.alpha;
  if (options.max_pause) c.setup.max_wait = Seconds{*options.max_pause};
  c.setup.host_blocks = LayerBlocks{c.world.device.host_memory.count() / c.setup.geometry.layer_block_bytes.count()};
  const Seconds full_step = full_budget_step(c.world, budget, limits.block_tokens);
  c.base_slo = options.slo_tbt ? Seconds{*options.slo_tbt} : full_step;

  ReadOptions read{.limit = options.limit, .rate_scale = options.rate_scale, .slo = {}};
  const std::string path = options.trace;
  const std::string generator = demo ? std::string{"demo"} : options.generate;
  const std::uint64_t seed = options.seed;
  c.setup.open = [=](Slo slo) -> Expected<Trace> {
    ReadOptions with_slo = read;
    with_slo.slo = slo;
    if (!format) return open_generator(generator, seed, with_slo);
    const bool steps = *format == TraceFormat::orbitflow;
    return open_trace(path, *format, with_slo, steps ? std::optional<Seconds>{full_step} : std::nullopt);
  };
  // Once through the workload: how much there is to do, and what its longest request asks for.
  Expected<Trace> trace = c.setup.open(Slo{.ttft = Seconds{options.slo_ttft}, .tbt = c.base_slo});
  if (!trace) return trace.error();
  const Expected<std::vector<RequestSpec>> requests = read_all(*trace);
  if (!requests) return requests.error();
  const WorkloadTotals sum = totals(*requests);
  c.setup.limits.max_context = std::max(sum.longest, Tokens{1});
  c.setup.worst_batch =
      header ? header->peak_batch_blocks
             : blocks_for(sum.longest, limits.block_tokens) * std::min<std::int64_t>(limits.batch, sum.requests);

  WorkloadReport& w = c.workload;
  w.trace = trace->workload().name;
  w.format = trace->workload().format;
  w.seed = seed;
  w.requests = sum.requests;
  w.model = shape.name;
  w.device = c.world.device.name;
  w.profile = c.world.cost_name;
  w.budget_blocks = budget.count();
  w.block_tokens = limits.block_tokens.count();
  w.budget_bytes = budget.count() * shape.token_block_bytes(limits.block_tokens).count();
  w.host_budget_bytes = c.world.device.host_memory.count();
  w.batch_limit = limits.batch;
  w.max_batch_tokens = limits.batch_tokens.count();
  w.rate_scale = options.rate_scale;
  w.base_slo_tbt_s = c.base_slo.count();
  w.slo_ttft_s = options.slo_ttft;
  w.command = command;
  w.notes.emplace_back("Requests",
                       fmt::format("{} prompt and {} output tokens, {:.3f} requests/s, CV of the gaps {:.2f}",
                                   sum.prompt.count(), sum.output.count(), sum.rate, sum.gap_cv));
  if (options.alpha != 1) w.notes.emplace_back("Alpha", fmt::format("{:g} misses a step", options.alpha));
  if (options.max_pause) w.notes.emplace_back("Longest pause", fmt::format("{:g} s", *options.max_pause));
  if (!options.slo_tbt)
    w.notes.emplace_back("Base SLO", "the step of a batch that fills the budget, nothing offloaded");
  return c;
}

Expected<ComparisonReport> compare_all(const Options& options, const Comparison& c) {
  ComparisonReport report{c.workload, {}};
  struct Row {
    const compared::System* system;
    double scale;
    bool deposit;
  };
  std::vector<Row> rows;
  for (const double scale : options.slo_scales)
    for (const bool deposit : {false, true})
      for (const compared::System* system : c.systems)
        if (deposit ? c.with_deposit && !system->deposit_never : c.without_deposit)
          rows.push_back({system, scale, deposit});
  if (rows.empty()) return flag_error("--deposit", "none of these systems has a deposit", "off, or a system besides");

  const std::filesystem::path traces = std::filesystem::path{options.out} / "traces";
  const auto each = static_cast<double>(c.workload.requests);
  Progress progress(each * static_cast<double>(rows.size()), stderr,
                    options.quiet ? Progress::Style::silent : Progress::Style::detect);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    const std::string label =
        fmt::format("{}{} at SLO x{:g}", row.system->name, row.deposit ? " + deposit" : "", row.scale);
    const compared::Request request{
        .setup = c.setup,
        .slo = {.ttft = Seconds{options.slo_ttft}, .tbt = c.base_slo * row.scale},
        .deposit = row.deposit,
        .rule = c.rule != compared::Rule::own ? c.rule : row.system->rule,
        .details = !options.out.empty(),
        .tell = [&](const SimulationProgress& at) {
          progress.update(each * static_cast<double>(i) + static_cast<double>(at.submitted - at.alive), label);
          return true;
        }};
    Expected<compared::Outcome> outcome = row.system->run(request);
    if (!outcome) return outcome.error();
    outcome->report.name = row.system->name;
    outcome->report.control = row.system->control;
    outcome->report.slo_scale = row.scale;
    if (!options.out.empty()) {
      const std::string name =
          fmt::format("{}{}-x{:g}.json", row.system->name, row.deposit ? "-deposit" : "", row.scale);
      if (Status written = write_file(traces / name, outcome->trace); !written) return written.error();
    }
    report.systems.push_back(std::move(outcome->report));
  }
  return report;
}

int fail(const Error& error) {
  std::fprintf(stderr, "sluice-compare: %s\n", error.line().c_str());
  return 2;
}

int run(const Options& options, const std::string& command) {
  const Expected<Comparison> comparison = prepare(options, command);
  if (!comparison) return fail(comparison.error());
  if (!options.out.empty()) {
    std::error_code failed;
    std::filesystem::create_directories(std::filesystem::path{options.out} / "traces", failed);
    if (failed)
      return fail(
          flag_error("--out", "the folder " + options.out + " cannot be made", "a path that can be written to"));
  }
  const Expected<ComparisonReport> report = compare_all(options, *comparison);
  if (!report) return fail(report.error());
  std::fputs(table_text(*report).c_str(), stdout);
  if (options.out.empty()) return 0;
  const std::filesystem::path out{options.out};
  const JsonOptions json{.wall_times = options.wall_times};
  for (const auto& [name, text] :
       {std::pair{"report.json", report_json(*report, json)}, std::pair{"report.html", report_html(*report)}})
    if (Status written = write_file(out / name, text); !written) return fail(written.error());
  fmt::print("{0}/report.html  to look at\n{0}/report.json  for programs\n{0}/traces/      one per system, for "
             "ui.perfetto.dev\n",
             options.out);
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Serves one workload with many systems, simulated, and compares what their users get."};
  app.add_option("--trace", options.trace, "a trace file");
  app.add_option("--format", options.format, "its format: azure, mooncake, orbitflow or vllm");
  app.add_option("--generate", options.generate,
                 "a generated workload instead, e.g. sharegpt:rate=2,requests=200; see docs/workloads.md");
  app.add_option("--limit", options.limit, "serve the first N requests only");
  app.add_option("--rate-scale", options.rate_scale, "divide the arrival times by this");
  app.add_option("--model", options.model, "a model by name, or a folder or file of a Hugging Face config")
      ->capture_default_str();
  app.add_option("--device", options.device, "a device by name, or a JSON file")->capture_default_str();
  app.add_option("--profile", options.profile,
                 "measured times: an OrbitFlow profile (.json) or a folder of kernel times");
  app.add_option("--kv-blocks", options.kv_blocks, "device memory for KV, in token blocks of 16 tokens (all layers)");
  app.add_option("--batch", options.batch, "requests that run at once");
  app.add_option("--max-batch-tokens", options.batch_tokens, "tokens computed in one iteration");
  app.add_option("--slo-scale", options.slo_scales, "of the base SLO; several with commas")->delimiter(',');
  app.add_option("--slo-tbt", options.slo_tbt,
                 "the base SLO, seconds per token (default: a step that fills the budget)");
  app.add_option("--slo-ttft", options.slo_ttft, "seconds to the first token")->capture_default_str();
  app.add_option("--systems", options.systems, "names with commas, or all")->capture_default_str();
  app.add_option("--transfer", options.transfer,
                 "every system on this rule: own, next-layer, fair-share, earliest-deadline-first, deadline-pool")
      ->capture_default_str();
  app.add_option("--deposit", options.deposit, "both, on or off: token deposit for every system")
      ->capture_default_str();
  app.add_option("--alpha", options.alpha, "misses a step that OrbitFlow's plans may take (1 in the paper)")
      ->capture_default_str();
  app.add_option("--max-pause", options.max_pause,
                 "seconds after which OrbitFlow's paused requests may return (default: never bounded)");
  app.add_option("--out", options.out, "folder for report.html, report.json and the traces");
  app.add_option("--seed", options.seed, "of the generator")->capture_default_str();
  app.add_flag("--list", options.list, "name the systems, and stop");
  app.add_flag("--wall-times", options.wall_times,
               "measured planning times into report.json (they differ from run to run)");
  app.add_flag("--quiet", options.quiet, "no progress");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "sluice-compare: %s; expected the flags of --help\n", error.what());
    return 2;
  }
  if (options.list) {
    list_systems();
    return 0;
  }
  if (options.slo_scales.empty()) options.slo_scales = {1.5};
  std::string command = "sluice-compare";
  for (int i = 1; i < argc; ++i) command += std::string{" "} + argv[i];
  return run(options, command);
}
