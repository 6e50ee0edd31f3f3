// SPDX-License-Identifier: Apache-2.0
// prepare: from the command line to a comparison: reads model, device, profile and workload.
#include "sluice/cost/device_link.hpp"
#include "sluice/cost/nlohmann/orbitflow_profile.hpp"
#include "sluice/cost/read_table_profile.hpp"
#include "sluice/cost/roofline.hpp"
#include "sluice/device/nlohmann/device_json.hpp"
#include "sluice/model/nlohmann/hf_config.hpp"
#include "sluice/transfer/deadline_pool.hpp"
#include "sluice/transfer/earliest_deadline_first.hpp"
#include "sluice/transfer/fair_share.hpp"
#include "sluice/transfer/next_layer.hpp"
#include "sluice/workload/nlohmann/open_trace.hpp"

#include "compare/comparison.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace compared {

using namespace sluice;

Error flag_error(std::string flag, std::string what, std::string expected) {
  return {ErrorCode::bad_input, std::move(flag), std::move(what), std::move(expected)};
}

namespace {

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
  CostChoice cost;
  std::string cost_name;
};

Expected<World> world_of(const Options& options) {
  Expected<ModelShape> shape = find_or_read_model(options.model);
  if (!shape) return of_flag("--model", shape.error());
  Expected<Device> device = find_or_read_device(options.device);
  if (!device) return of_flag("--device", device.error());
  if (options.profile.empty())
    return World{*shape, *device, CostChoice{Roofline{*shape, *device}}, "roofline of model and device"};
  if (std::filesystem::is_directory(options.profile)) {
    Expected<TableProfile> table = read_table_profile(options.profile, device_link(*device));
    if (!table) return table.error();
    return World{*shape, *device, CostChoice{std::move(*table)}, "measured kernels: " + options.profile};
  }
  const FlopsPerSecond prefill = device->compute_rate(RooflineEfficiency{}.compute);
  Expected<LinearProfile> line = read_orbitflow_profile(options.profile, *shape, prefill);
  if (!line) return line.error();
  return World{*shape, *device, CostChoice{std::move(*line)},
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

/// A rule by its name; empty for `own`.
Expected<std::string_view> rule_of(const std::string& name) {
  if (name == "own") return std::string_view{};
  for (const std::string_view rule :
       {NextLayer::name, FairShare::name, EarliestDeadlineFirst::name, DeadlinePool::name}) {
    if (name != rule) continue;
    if (built_on(rule)) return rule;
    return Error{ErrorCode::unsupported, "--transfer", "this build has no systems on " + name,
                 "own, or a build configured with -DSLUICE_COMPARE_RULES=all"};
  }
  return flag_error("--transfer", fmt::format("there is no rule '{}'", name),
                    "own, next-layer, fair-share, earliest-deadline-first or deadline-pool");
}

Expected<std::vector<const System*>> chosen_systems(const std::string& list) {
  std::vector<const System*> chosen;
  if (list == "all") {
    for (const System& system : systems()) chosen.push_back(&system);
    return chosen;
  }
  std::string names;
  for (const System& system : systems()) names += (names.empty() ? "" : ", ") + std::string{system.name};
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::string name = list.substr(begin, end - begin);
    begin = end + 1;
    const System* found = nullptr;
    for (const System& system : systems())
      if (system.name == name) found = &system;
    if (found == nullptr)
      return flag_error("--systems", fmt::format("there is no system '{}'", excerpt(name)), "all, or any of " + names);
    chosen.push_back(found);
  }
  return chosen;
}

} // namespace

Expected<Comparison> prepare(const Options& options, const std::string& command) {
  Expected<World> world = world_of(options);
  if (!world) return world.error();
  Expected<std::vector<const System*>> systems = chosen_systems(options.systems);
  if (!systems) return systems.error();
  const Expected<std::string_view> rule = rule_of(options.transfer);
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
  if (options.rotation_blocks && *options.rotation_blocks < 0)
    return flag_error("--rotation-blocks", fmt::format("it is {}", *options.rotation_blocks), "blocks, at least 0");
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

  Comparison c{.setup = {.limits = limits, .geometry = {}, .cost = world->cost, .open = {}},
               .workload = {},
               .systems = std::move(*systems),
               .rule = *rule};
  c.without_deposit = options.deposit != "on";
  c.with_deposit = options.deposit != "off";
  const ModelShape& shape = world->shape;
  c.setup.geometry = {shape.layers, shape.layer_block_bytes(limits.block_tokens), shape.layer_weight_bytes(),
                      shape.layer_hidden_bytes(limits.block_tokens)};
  c.setup.device_blocks = across_layers(budget, shape.layers);
  c.setup.alpha = options.alpha;
  if (options.max_pause) c.setup.max_wait = Seconds{*options.max_pause};
  if (options.rotation_blocks) c.setup.rotation = TokenBlocks{*options.rotation_blocks};
  c.setup.host_blocks = LayerBlocks{world->device.host_memory.count() / c.setup.geometry.layer_block_bytes.count()};
  const Seconds full_step = full_budget_step(*world, budget, limits.block_tokens);
  c.base_slo = options.slo_tbt ? Seconds{*options.slo_tbt} : full_step;

  ReadOptions read{.limit = options.limit, .rate_scale = options.rate_scale, .slo = {}};
  const std::string path = options.trace;
  const std::string generator = demo ? std::string{"demo"} : options.generate;
  const std::uint64_t seed = options.seed;
  const auto open = [=](Slo slo) -> Expected<Trace> {
    ReadOptions with_slo = read;
    with_slo.slo = slo;
    if (!format) return open_generator(generator, seed, with_slo);
    const bool steps = *format == TraceFormat::orbitflow;
    return open_trace(path, *format, with_slo, steps ? std::optional<Seconds>{full_step} : std::nullopt);
  };
  c.setup.open = [open](Slo slo) -> Expected<Requests> {
    Expected<Trace> opened = open(slo);
    if (!opened) return opened.error();
    return Requests{[trace = std::make_shared<Trace>(*std::move(opened))] { return trace->next(); }};
  };
  // Once through the workload: how much there is to do, and what its longest request asks for.
  Expected<Trace> trace = open(Slo{.ttft = Seconds{options.slo_ttft}, .tbt = c.base_slo});
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
  w.device = world->device.name;
  w.profile = world->cost_name;
  w.budget_blocks = budget.count();
  w.block_tokens = limits.block_tokens.count();
  w.budget_bytes = budget.count() * shape.token_block_bytes(limits.block_tokens).count();
  w.host_budget_bytes = world->device.host_memory.count();
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
  if (options.rotation_blocks)
    w.notes.emplace_back("Rotation budget", fmt::format("{} blocks a decision", *options.rotation_blocks));
  if (options.max_pause) w.notes.emplace_back("Longest pause", fmt::format("{:g} s", *options.max_pause));
  if (!options.slo_tbt)
    w.notes.emplace_back("Base SLO", "the step of a batch that fills the budget, nothing offloaded");
  return c;
}

} // namespace compared
