// SPDX-License-Identifier: Apache-2.0
// prepare: turns the command line into a comparison; reads model, device, profile and workload.
#include "sluice/core/nearest.hpp"
#include "sluice/engine/serve.hpp"
#include "sluice/model/device/nlohmann/device_json.hpp"
#include "sluice/model/nlohmann/hf_config.hpp"
#include "sluice/policy/cost/nlohmann/orbitflow_profile.hpp"
#include "sluice/policy/cost/read_table_profile.hpp"
#include "sluice/policy/cost/roofline.hpp"
#include "sluice/policy/cost/work.hpp"
#include "sluice/policy/transfer/deadline_pool.hpp"
#include "sluice/policy/transfer/earliest_deadline_first.hpp"
#include "sluice/policy/transfer/fair_share.hpp"
#include "sluice/policy/transfer/next_layer.hpp"
#include "sluice/policy/weights/nlohmann/interval_record_json.hpp"
#include "sluice/workload/generator.hpp"
#include "sluice/workload/nlohmann/open_trace.hpp"
#include "sluice/workload/resampled.hpp"
#include "sluice/workload/session_generator.hpp"

#include "compare/bound.hpp"
#include "compare/comparison.hpp"
#include "compare/group.hpp"
#include "compare/kernel_shape.hpp"
#include "compare/same_hardware.hpp"
#include "compare/tenants.hpp"
#include "engines/host_rate.hpp"
#include "engines/registry.hpp"
#include "shared/bundle_meta.hpp"
#include "shared/shipped.hpp"
#include "shared/sizes.hpp"
#include "shared/trace_flags.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

namespace compared {

using namespace sluice;

Error flag_error(std::string flag, std::string what, std::string expected) {
  return {ErrorCode::bad_input, std::move(flag), std::move(what), std::move(expected)};
}

namespace {

/// Errors about an unknown name are attributed to the flag ("model"); errors in a file already contain the file's name.
Error of_flag(std::string_view flag, Error error) {
  if (error.where == flag.substr(2)) error.where = flag;
  return error;
}

/// The simulated machine: model, device, and the cost model for both. For a group, the part of one device.
struct World {
  ModelShape shape;
  Device device;
  engines::CostChoice cost;
  std::string cost_name;
  std::string name{}; ///< a group's name
  int devices = 1;
  std::string group_note{};
  std::string measured{}; ///< the caution about a measured profile: on what; empty: a roofline
  Bytes whole_token{0};   ///< of KV, on all devices together
};

/// The caution about the hardware of a profile, or an error if it is another than the device.
Expected<std::string> measured_on(const std::string& profile, const std::string& folder, const Device& device) {
  const Expected<BundleMeta> meta = read_bundle_meta(folder);
  if (!meta) return meta.error();
  const std::string& hardware = meta->gpu.empty() ? meta->device : meta->gpu;
  if (hardware.empty()) return std::string{"times measured on an unnamed GPU"};
  if (same_hardware(hardware, device)) return "times measured on " + hardware;
  const std::string named = devices_named_for(hardware);
  return flag_error("--device",
                    fmt::format("{} was measured on {}, not on {}", profile, excerpt(hardware), device.name),
                    named.empty() ? "a device file with that name" : named + ", or no --profile");
}

Expected<World> world_of(const MachineOptions& machine) {
  const std::string profile = profile_at(machine.profile);
  const bool table = !profile.empty() && std::filesystem::is_directory(profile);
  // A folder of kernel times contains its model's configuration.
  Expected<ModelShape> shape = table && !machine.model
                                   ? read_hf_config(profile)
                                   : find_or_read_model(machine.model.value_or(std::string{default_model}));
  if (!shape) return of_flag("--model", shape.error());
  Expected<Device> device = find_or_read_device(machine.device);
  if (!device) return of_flag("--device", device.error());
  const Device stated = *device; // without the flags' changes
  if (machine.link > 0) device->host_to_device = device->device_to_host = BytesPerSecond{machine.link};
  if (machine.bandwidth_fraction && !machine.profile.empty())
    return flag_error("--bandwidth-fraction", "the profile has the times of its own kernels", "no --profile");
  if (machine.bandwidth_fraction.value_or(1) > 1)
    return flag_error("--bandwidth-fraction", fmt::format("it is {:g}", *machine.bandwidth_fraction),
                      "a share above 0, at most 1");
  if (machine.bandwidth_fraction) device->bandwidth_fraction = machine.bandwidth_fraction;
  device->half_precision_peak = device->half_precision_peak * machine.part;
  device->memory_bandwidth = device->memory_bandwidth * machine.part;
  if (machine.device_memory) device->memory = Bytes{*machine.device_memory};
  if (machine.host_memory) device->host_memory = Bytes{*machine.host_memory};
  if (machine.host_attention > 0) device->host_attention_rate = BytesPerSecond{machine.host_attention};
  if (machine.tp > 1) {
    Expected<Group> group = group_of(machine, *shape, *device);
    if (!group) return group.error();
    return World{group->shard, group->member, group->cost, group->cost_name,           group->name,
                 machine.tp,   group->note,   {},          shape->kv_bytes_per_token()};
  }
  if (machine.gpus_per_link > 1) return flag_error("--gpus-per-link", "there is one device", "--tp as well");
  if (!machine.all_reduce.empty()) return flag_error("--all-reduce", "there is one device", "--tp as well");
  if (machine.profile.empty())
    return World{*shape, *device, engines::CostChoice{Roofline{*shape, *device}}, "roofline of model and device"};
  if (table) {
    const Expected<ModelShape> measured = read_hf_config(profile);
    if (!measured) return measured.error();
    if (kernel_shape(*measured) != kernel_shape(*shape))
      return flag_error("--profile",
                        fmt::format("{} was measured with another model than {}: {}; {} has {}", machine.profile,
                                    shape->name, kernel_shape(*measured), shape->name, kernel_shape(*shape)),
                        "kernel times of the same model, or no --model");
    Expected<TableProfile> times = read_table_profile(profile, device_link(*device));
    if (!times) return times.error();
    const Expected<std::string> on = measured_on(machine.profile, profile, stated);
    if (!on) return on.error();
    return World{.shape = *shape,
                 .device = *device,
                 .cost = engines::CostChoice{std::move(*times)},
                 .cost_name = fmt::format("measured kernels: {}; memory and link of {}", machine.profile, device->name),
                 .measured = *on};
  }
  if (machine.host_attention > 0)
    return flag_error("--host-attention", "an OrbitFlow profile states its own link, and no host that attends",
                      "a roofline or measured kernels");
  const FlopsPerSecond prefill = device->compute_rate(RooflineEfficiency{}.compute);
  Expected<LinearProfile> line = read_orbitflow_profile(machine.profile, *shape, prefill);
  if (!line) return line.error();
  return World{.shape = *shape,
               .device = *device,
               .cost = engines::CostChoice{std::move(*line)},
               .cost_name =
                   fmt::format("linear fits: {} (names no model: taken to be of {}), prefill at {:.0f} TFLOP/s",
                               machine.profile, shape->name, prefill.count() / 1e12),
               .measured = "times fitted on an unnamed GPU, to contexts that the profile does not state"};
}

/// Returns the decode step of one request whose KV fills the budget, with nothing offloaded. It is one SLO in
/// OrbitFlow's traces, and the unit of time for traces whose arrivals count steps.
Seconds full_budget_step(const World& world, TokenBlocks budget, Tokens block_tokens) {
  Work work;
  work.decodes = work.samples = 1;
  work.decode_context = Tokens{std::max<std::int64_t>(1, budget.count() * block_tokens.count())};
  return world.cost.step(work).total(world.shape.layers);
}

/// Returns the decode step of a full batch of the workload's mean lengths, with the prompt and half of the output in KV
/// and nothing offloaded.
Seconds full_batch_step(const World& world, const WorkloadTotals& sum, int batch) {
  Work work;
  work.decodes = work.samples =
      static_cast<int>(std::min<std::int64_t>(batch, std::max<std::int64_t>(sum.requests, 1)));
  const double mean = (static_cast<double>(sum.prompt.count()) + 0.5 * static_cast<double>(sum.output.count())) /
                      static_cast<double>(std::max<std::int64_t>(sum.requests, 1));
  work.decode_context = Tokens{std::llround(mean * static_cast<double>(work.decodes))};
  return world.cost.step(work).total(world.shape.layers);
}

/// Returns the token blocks that fit into `share` of the device in addition to the weights. `larger`: the model may be
/// larger than the device, and the result may be negative.
Expected<TokenBlocks> budget_of(const World& world, Tokens block_tokens, bool larger, double share) {
  const TokenBlocks blocks = kv_blocks_beside_weights(world.shape, world.device, block_tokens, share);
  if (blocks < TokenBlocks{1} && !larger) {
    return flag_error("--model",
                      fmt::format("the {:.1f} GB of weights of {} do not fit {:g} of the {:.1f} GB of {}",
                                  static_cast<double>(world.shape.weight_bytes().count()) / 1e9, world.shape.name,
                                  share, static_cast<double>(world.device.memory.count()) / 1e9, world.device.name),
                      "a smaller model, a larger device, --kv-blocks for a device that holds the weights elsewhere, or "
                      "--slo-tbt and only systems that stream weights (DeepSpeedWeights, FlexGenWeights, SelectN)");
  }
  return blocks;
}

/// Finds a rule by its name; empty for `own`.
Expected<std::string_view> rule_of(const std::string& name) {
  if (name == "own") return std::string_view{};
  constexpr std::array<std::string_view, 4> rules{NextLayer::name, FairShare::name, EarliestDeadlineFirst::name,
                                                  DeadlinePool::name};
  for (const std::string_view rule : rules) {
    if (name != rule) continue;
    if (engines::built_on(rule)) return rule;
    return Error{ErrorCode::unsupported, "--transfer", "this build has no systems on " + name,
                 "own, or a build configured with -DSLUICE_COMPARE_RULES=all"};
  }
  return flag_error("--transfer", fmt::format("there is no rule '{}'{}", name, did_you_mean(name, rules)),
                    "own, next-layer, fair-share, earliest-deadline-first or deadline-pool");
}

/// Reads Select-N's record, if it was made for this model. (The device is not compared: the record may come from a test
/// device whose name differs from the server's.)
Expected<IntervalRecord> read_record(const std::string& path, const ModelShape& shape) {
  Expected<IntervalRecord> record = read_interval_record(path);
  if (!record) return record.error();
  const IntervalRecord::Heading& heading = record->heading();
  if (heading.layers != shape.layers || heading.layer_weight_bytes != shape.layer_weight_bytes())
    return flag_error("--record",
                      fmt::format("{} is of {} layers of {} bytes, {} has {} of {}", path, heading.layers,
                                  heading.layer_weight_bytes.count(), shape.name, shape.layers,
                                  shape.layer_weight_bytes().count()),
                      "a record of this model: sluice-profile --record --model " + shape.name);
  return record;
}

/// Sets numbers of single policies, first from their own flags, then from --set.
Expected<std::vector<NumberSetting>> numbers_by(const TuningOptions& tuning, const std::vector<const System*>& chosen) {
  std::vector<NumberSetting> numbers;
  const auto set = [&numbers](const char* policy, const char* name, const auto& value) {
    if (value) numbers.push_back({policy, name, static_cast<double>(*value)});
  };
  set("DistancePlacement", "alpha", std::optional{tuning.alpha});
  set("UniformDistance", "alpha", std::optional{tuning.alpha});
  set("DistancePlacement", "node_limit", tuning.plan_nodes);
  set("Pause", "max_wait", tuning.max_pause);
  set("LargestVirtualLagFirst", "rotation", tuning.rotation_blocks);
  set("LargestVirtualLagFirst", "alpha", tuning.lag_alpha);
  set("LargestVirtualLagFirst", "beta_first", tuning.lag_first);
  set("LargestVirtualLagFirst", "beta_next", tuning.lag_next);
  set("IntervalOffload", "interval", tuning.interval);
  set("ParameterRemap", "most_layers", tuning.remapped);
  std::vector<System> systems;
  for (const System* system : chosen) systems.push_back(*system);
  const Expected<std::vector<NumberSetting>> more = engines::read_settings(tuning.set, systems);
  if (!more) return more.error();
  numbers.insert(numbers.end(), more->begin(), more->end());
  return numbers;
}

/// Returns what a seed serves of the trace; empty: the trace is served as recorded.
Expected<std::optional<Resampling>> resampling_of(const WorkloadOptions& workload) {
  const std::int64_t requests = workload.limit.value_or(0);
  if (workload.trace.empty() && (workload.windows > 0 || workload.offset > 0))
    return flag_error(workload.windows > 0 ? "--windows" : "--offset", "no trace is given",
                      "--trace as well: a generated workload is drawn by its seed");
  if (workload.windows > 0 && workload.resample)
    return flag_error("--resample", "windows are served as recorded", "--seeds instead of --windows, or no --resample");
  const bool by_seed = !workload.seeds.empty() || workload.seed_stated || workload.resample;
  if (workload.windows > 0 || (workload.offset > 0 && !by_seed))
    return std::optional{Resampling{.kind = Resampling::Kind::windows,
                                    .requests = requests,
                                    .windows = std::max<std::int64_t>(1, workload.windows),
                                    .offset = workload.offset}};
  if (workload.offset > 0)
    return flag_error("--offset", "a seed resamples the whole trace",
                      "--windows, or no --seed, --seeds and --resample");
  if (!workload.resample) {
    if (workload.trace.empty() || (workload.seeds.empty() && !workload.seed_stated)) return std::optional<Resampling>{};
    return std::optional{Resampling{.requests = requests}};
  }
  if (workload.trace.empty())
    return flag_error("--resample", "no trace is given", "--trace as well: a generated workload is drawn by its seed");
  const std::string_view text = *workload.resample;
  if (text == "arrivals") return std::optional{Resampling{.kind = Resampling::Kind::arrivals, .requests = requests}};
  if (text == "blocks") return std::optional{Resampling{.requests = requests}};
  Resampling how{.requests = requests};
  const std::string_view number = text.substr(std::min(text.find(':'), text.size() - 1) + 1);
  const auto [end, wrong] = std::from_chars(number.data(), number.data() + number.size(), how.block);
  if (!text.starts_with("blocks:") || wrong != std::errc{} || end != text.data() + text.size() || how.block < 1)
    return flag_error("--resample", fmt::format("it is '{}'", excerpt(text)),
                      "blocks, blocks:N with N requests each, or arrivals");
  return std::optional{how};
}

/// Whether arrivals count each system's own steps.
bool by_steps(const WorkloadOptions& workload) { return workload.arrivals == "steps"; }

/// Checks flags against each other before anything is read.
Status check_flags(const Options& options, const std::vector<const System*>& systems, std::string_view rule) {
  if (options.deposit != "both" && options.deposit != "on" && options.deposit != "off")
    return flag_error("--deposit", fmt::format("it is '{}'", excerpt(options.deposit)), "both, on or off");
  if (const auto& sessions = options.workload.sessions; sessions && *sessions != "closed" && *sessions != "open")
    return flag_error("--sessions", fmt::format("it is '{}'", excerpt(*sessions)), "closed or open");
  if (options.machine.kv_blocks && options.machine.kv_memory)
    return flag_error("--kv-memory", "--kv-blocks is given as well", "one of the two");
  if (options.workload.arrivals != "seconds" && options.workload.arrivals != "steps")
    return flag_error("--arrivals", fmt::format("it is '{}'", excerpt(options.workload.arrivals)), "seconds or steps");
  if (by_steps(options.workload) && options.workload.trace.empty())
    return flag_error("--arrivals", "no trace is given", "--trace as well, of a format whose arrivals count steps");
  if (by_steps(options.workload) && (options.bound || options.capacity))
    return flag_error(options.bound ? "--bound" : "--capacity",
                      "arrivals count each system's own steps, so they have no rate in seconds", "--arrivals seconds");
  if (options.slo_base != "budget" && options.slo_base != "batch" && options.slo_base != "fixed")
    return flag_error("--slo-base", fmt::format("it is '{}'", excerpt(options.slo_base)), "budget, batch or fixed");
  if (options.slo_tbt && Seconds{*options.slo_tbt} > slowest_tbt)
    return flag_error("--slo-tbt", fmt::format("it is {:g} s per token", *options.slo_tbt),
                      "seconds, at most 10: 0.05 for 50 ms");
  if (!options.slo_classes.empty() && options.slo_base != "budget")
    return flag_error("--slo-base", "every request has the SLO of its class", "--slo-base or --slo-classes, not both");
  if (options.tokens && options.out.empty())
    return flag_error("--tokens", "there is no folder to leave them in", "--out as well");
  if (options.no_traces && options.out.empty())
    return flag_error("--no-traces", "there is no folder to leave them out of", "--out as well");
  if (options.machine.memory_share > 1)
    return flag_error("--memory-share", fmt::format("it is {:g}", options.machine.memory_share),
                      "a share above 0, at most 1");
  if (options.workload.generate && options.workload.generate->empty())
    return flag_error("--generate", "it is empty", "a workload such as sharegpt:rate=2, or no --generate");
  if (const char* flag = read_without_trace(options.workload))
    return flag_error(flag, "no trace is given", "--trace as well");
  if (options.workload.trace.empty() && !options.workload.lengths.empty())
    return flag_error("--lengths", "no trace is given", "--trace as well: a generated workload has lengths");
  if (!options.workload.trace.empty() && options.workload.generate)
    return flag_error("--generate", "a trace is given as well", "--trace or --generate, not both");
  if (Status effective = check_effects(options, systems); !effective) return effective;
  for (const System* system : systems)
    if (system->variant && !rule.empty())
      return flag_error("--transfer", fmt::format("{} runs only on its own rule", system->name),
                        "own, or --systems without it");
  return {};
}

/// The source of the requests: a trace, a generator, or the demo.
struct Source {
  bool demo = false;
  std::optional<TraceFile> file{};
  std::optional<OrbitFlowHeader> header{}; ///< of an OrbitFlow trace: describes its experiment
};

Expected<Source> source_of(const WorkloadOptions& workload) {
  Source source{.demo = workload.trace.empty() && !workload.generate};
  if (workload.trace.empty()) return source;
  Expected<TraceFile> found = find_trace(workload.trace, workload.format, workload.trace_columns);
  if (!found) return found.error();
  source.file = *std::move(found);
  if (source.file->format != TraceFormat::orbitflow) return source;
  const Expected<OrbitFlowHeader> header = read_orbitflow_header(workload.trace);
  if (!header) return header.error();
  source.header = *header;
  return source;
}

Limits limits_of(const MachineOptions& machine, const Source& source) {
  Limits limits;
  limits.batch = static_cast<int>(machine.batch.value_or(source.header ? source.header->batch_size
                                                         : source.demo ? demo_batch
                                                                       : 256));
  limits.batch_tokens = Tokens{machine.batch_tokens.value_or(source.header ? source.header->max_model_len.count()
                                                             : source.demo ? 32768
                                                                           : 2048)};
  return limits;
}

/// Returns the budget that `flag` asks for, if the device's memory holds it with the weights, or without them if all
/// systems stream weights.
Expected<TokenBlocks> fitting(const World& world, TokenBlocks budget, Bytes block, bool all_stream, const char* flag) {
  const auto gb = [](double bytes) { return fmt::format("{:.3g} GB", bytes / 1e9); };
  const double kv = static_cast<double>(budget.count()) * static_cast<double>(block.count());
  const double weights = all_stream ? 0 : static_cast<double>(world.shape.weight_bytes().count());
  const auto memory = static_cast<double>(world.device.memory.count());
  if (kv + weights <= memory) return budget;
  const auto most = static_cast<std::int64_t>((memory - weights) / static_cast<double>(block.count()));
  return flag_error(flag,
                    fmt::format("{} token blocks put {} of KV{} on the {} of {}", budget.count(), gb(kv),
                                all_stream ? "" : " and " + gb(weights) + " of weights", gb(memory), world.device.name),
                    (most > 0 ? fmt::format("at most {} token blocks, or ", most) : "a smaller model, or ") +
                        "--device-memory for a card of another size");
}

/// Removes the systems that keep all weights on the device, if all systems were requested and the KV that is asked for
/// fits only without weights. Returns what the caption says about it; empty: none is left out.
std::string leave_out_whole_weights(const Options& options, const World& world, const Limits& limits,
                                    std::vector<const System*>& systems) {
  const MachineOptions& machine = options.machine;
  if (options.systems != "all" || !(machine.kv_blocks || machine.kv_memory)) return {};
  const Bytes block = world.shape.token_block_bytes(limits.block_tokens);
  const Bytes kv = machine.kv_blocks ? block * *machine.kv_blocks : Bytes{*machine.kv_memory} / world.devices;
  if (kv > world.device.memory || kv + world.shape.weight_bytes() <= world.device.memory) return {};
  const std::size_t left_out = std::erase_if(systems, [](const System* system) { return !system->streams_weights; });
  return fmt::format("{} systems left out: {} does not hold this KV and all weights", left_out, world.device.name);
}

/// Returns the device's KV budget.
Expected<TokenBlocks> kv_budget(const Options& options, const Source& source, const World& world,
                                const std::vector<const System*>& systems, const Limits& limits) {
  const bool all_stream =
      std::all_of(systems.begin(), systems.end(), [](const System* system) { return system->streams_weights; });
  const Bytes block = world.shape.token_block_bytes(limits.block_tokens);
  if (options.machine.kv_blocks)
    return fitting(world, TokenBlocks{*options.machine.kv_blocks}, block, all_stream, "--kv-blocks");
  if (options.machine.kv_memory) {
    const TokenBlocks blocks{*options.machine.kv_memory / (block.count() * world.devices)};
    if (blocks < TokenBlocks{1})
      return flag_error("--kv-memory", exact_bytes(*options.machine.kv_memory) + " is less than a token block",
                        "at least " + exact_bytes(block.count() * world.devices) + ", such as 4GB");
    return fitting(world, blocks, block, all_stream, "--kv-memory");
  }
  const Expected<TokenBlocks> held =
      budget_of(world, limits.block_tokens, all_stream && options.slo_tbt.has_value(), options.machine.memory_share);
  if (!held) return held.error();
  // A trace's budget is part of its experiment, which may be on another device; the demo's budget is small on purpose.
  if (source.header) return fitting(world, source.header->budget, block, all_stream, "--trace");
  return source.demo ? std::min(demo_budget, *held) : *held;
}

/// Sets what systems know about the model, the memories and tuned policies.
Status set_machine(const Options& options, const World& world, TokenBlocks budget, Comparison& c) {
  const ModelShape& shape = world.shape;
  const Tokens block = c.setup.limits.block_tokens;
  c.setup.geometry = {shape.layers, shape.layer_block_bytes(block), shape.layer_weight_bytes(),
                      shape.layer_hidden_bytes(block)};
  c.setup.device_blocks = across_layers(budget, shape.layers);
  Expected<std::vector<NumberSetting>> numbers = numbers_by(options.tuning, c.systems);
  if (!numbers) return numbers.error();
  c.setup.numbers = *std::move(numbers);
  if (!options.record.empty()) {
    Expected<IntervalRecord> record = read_record(options.record, shape);
    if (!record) return record.error();
    c.workload.notes.emplace_back("Performance record",
                                  fmt::format("{}: {} on {}, {}", options.record, record->heading().model,
                                              record->heading().device, record->heading().times));
    c.setup.record = std::make_shared<const IntervalRecord>(*std::move(record));
  }
  for (const LowerTier& tier : options.machine.lower_tiers) {
    const Bytes token_block = c.setup.geometry.layer_block_bytes * (shape.layers * world.devices);
    const BytesPerSecond rate{tier.rate / world.devices}; // a device's part of the group
    c.setup.lower_tiers.push_back({.capacity = TokenBlocks{Bytes{tier.bytes} / token_block},
                                   .read_rate = rate,
                                   .write_rate = rate,
                                   .latency = Seconds{tier.latency_s}});
    c.workload.notes.emplace_back(
        "Tier below the host",
        fmt::format("{}, {:g} GB/s each way, {:g} us", exact_bytes(tier.bytes), tier.rate / 1e9, tier.latency_s * 1e6));
  }
  c.setup.host_blocks = LayerBlocks{world.device.host_memory.count() / c.setup.geometry.layer_block_bytes.count()};
  // A number without a unit means bytes, so "64" cannot mean gigabytes: report it.
  if (options.machine.host_memory.value_or(0) > 0 && c.setup.host_blocks.count() == 0)
    return flag_error(
        "--host-memory", exact_bytes(*options.machine.host_memory) + " is less than one block of one layer",
        "0, or at least " + exact_bytes(c.setup.geometry.layer_block_bytes.count() * world.devices) + ", such as 64GB");
  return {};
}

/// Functions that open the workload at its beginning. `whole` of openers_of: not only --limit requests are read, since
/// those that are served are drawn from all.
struct Openers {
  std::function<Expected<Trace>(Slo)> trace;       ///< as recorded or generated
  std::function<Expected<Requests>(Slo)> recorded; ///< with --lengths applied; sessions as recorded
  std::function<Expected<Requests>(Slo)> requests; ///< what is served
};

/// Returns the same requests at their recorded arrivals: none waits for another's answer.
Expected<Requests> opened_sessions(Expected<Requests> of) {
  if (!of) return of;
  const auto source = std::make_shared<Requests>(*std::move(of));
  const auto merge = std::make_shared<OpenSessions>();
  return Requests{[source, merge] { return merge->next(*source); }, [merge] { return merge->content(); }};
}

Expected<Openers> openers_of(const Options& options, const Source& source, bool whole, Seconds full_step) {
  std::optional<GeneratorSpec> lengths;
  if (!options.workload.lengths.empty()) {
    Expected<GeneratorSpec> spec = parse_generator(options.workload.lengths);
    if (!spec) return flag_error("--lengths", spec.error().what, spec.error().expected);
    lengths = *std::move(spec);
    lengths->requests = 1'000'000'000; // as many as the trace has
  }
  const std::uint64_t seed = options.workload.seed;
  const ReadOptions read{.limit = whole ? std::optional<std::int64_t>{} : options.workload.limit,
                         .rate_scale = options.workload.rate_scale,
                         .slo_classes = options.slo_classes,
                         .class_seed = seed,
                         .arrivals_in_steps = by_steps(options.workload)};
  const std::string generator = options.workload.generate.value_or("demo");
  const auto open = [=, file = source.file](Slo slo) -> Expected<Trace> {
    ReadOptions with_slo = read;
    with_slo.slo = slo;
    if (!file) return open_generator(generator, seed, with_slo);
    const bool steps = file->format == TraceFormat::orbitflow;
    return open_trace(*file, with_slo, steps ? std::optional<Seconds>{full_step} : std::nullopt);
  };
  const auto as_recorded = [open, lengths, seed](Slo slo) -> Expected<Requests> {
    Expected<Trace> opened = open(slo);
    if (!opened) return opened.error();
    std::shared_ptr<Generator> drawn;
    if (lengths) drawn = std::make_shared<Generator>(*lengths, seed);
    const auto trace = std::make_shared<Trace>(*std::move(opened));
    if (!lengths) return Requests{[trace] { return trace->next(); }, [trace] { return trace->content(); }};
    // With other lengths, the known content does not belong to these requests.
    return Requests{[trace, drawn]() -> Expected<std::optional<RequestSpec>> {
      Expected<std::optional<RequestSpec>> request = trace->next();
      if (!request || !*request) return request;
      const Expected<std::optional<RequestSpec>> other = drawn->next();
      if (!other) return other.error();
      (*request)->prompt = (*other)->prompt;
      (*request)->output = (*other)->output;
      return request;
    }};
  };
  return Openers{open, as_recorded,
                 [as_recorded, open_sessions = options.workload.sessions == "open"](Slo slo) -> Expected<Requests> {
                   return open_sessions ? opened_sessions(as_recorded(slo)) : as_recorded(slo);
                 }};
}

/// Lets a seed draw its requests from the recorded ones. Sessions are drawn whole, and then opened.
void resample(const WorkloadOptions& workload, const Resampling& how, Openers& open) {
  open.requests = [recorded = open.recorded, how, seed = workload.seed,
                   open_sessions = workload.sessions == "open"](Slo slo) -> Expected<Requests> {
    Expected<Requests> reader = recorded(slo);
    if (!reader) return reader.error();
    std::vector<RequestSpec> all;
    std::vector<std::vector<ContentPiece>> contents;
    if (Status status = read_all_with_content(*reader, all, contents); !status) return status.error();
    const auto again = std::make_shared<Resampled>(std::move(all), how, seed, std::move(contents));
    Requests resampled{[again] { return again->next(); }, [again] { return again->content(); }};
    return open_sessions ? opened_sessions(std::move(resampled)) : resampled;
  };
}

/// Returns the number of units of a trace that are drawn whole: sessions, and requests of no session.
std::int64_t units_of(std::span<const RequestSpec> requests) {
  return std::count_if(requests.begin(), requests.end(), [](const RequestSpec& one) { return !one.follows; });
}

/// Returns the mean number of requests of the busy period that a request of the trace is in, if the machine serves one
/// after the other, each in its share of a full batch's time.
double busy_period(const World& world, std::span<const RequestSpec> requests, TokenBlocks budget,
                   const Limits& limits) {
  const WorkloadTotals sum = totals(requests);
  const double mean = static_cast<double>((sum.prompt + sum.output).count()) / static_cast<double>(sum.requests);
  const double held = static_cast<double>((budget * limits.block_tokens.count()).count()) / mean;
  const int batch = static_cast<int>(std::clamp(held, 1.0, static_cast<double>(limits.batch)));
  const Seconds token = full_batch_step(world, sum, batch) / static_cast<double>(batch);
  std::vector<Seconds> arrivals, service;
  for (const RequestSpec& one : requests) {
    const ChunkWork prompt{.fresh = one.prompt};
    Work work;
    work.chunks = {&prompt, 1};
    work.samples = 1;
    arrivals.push_back(one.follows && !arrivals.empty() ? arrivals.back() : one.arrival);
    service.push_back(world.cost.step(work).total(world.shape.layers) +
                      token * static_cast<double>(one.output.count()));
  }
  return busy_period_requests(arrivals, service);
}

/// Checks what a seed serves of a trace against the trace, sets the length of its blocks, and says it in the report.
Status set_resampling(const WorkloadOptions& workload, std::span<const RequestSpec> recorded, double busy,
                      Resampling& how, WorkloadReport& w) {
  const std::int64_t units = units_of(recorded);
  const bool sessions = units < static_cast<std::int64_t>(recorded.size());
  if (how.kind == Resampling::Kind::windows) {
    const char* const flag = workload.windows > 0 ? "--windows" : "--offset";
    const std::int64_t left = units - how.offset, each = left / how.windows;
    if (left < how.windows || (how.requests > each && !sessions))
      return flag_error(flag,
                        how.windows == 1 ? fmt::format("the trace has {} {}", units, sessions ? "sessions" : "requests")
                                         : fmt::format("{} windows{} are more than the trace's {} {}", how.windows,
                                                       how.requests > 0 ? fmt::format(" of {} requests", how.requests)
                                                                        : std::string{},
                                                       left, sessions ? "sessions" : "requests"),
                        "fewer, or a smaller --limit");
    w.windows = true;
    if (how.windows == 1)
      w.redrawn = fmt::format("from number {}", how.offset + 1);
    else
      w.redrawn = fmt::format("in {} windows{}", how.windows,
                              how.requests > 0 ? fmt::format(" of {}", how.requests) : std::string{});
    return {};
  }
  if (how.block > units)
    return flag_error("--resample", fmt::format("a block has {} requests, and the trace {}", how.block, units),
                      "blocks with fewer requests than the trace: every seed would serve the same");
  if (how.kind == Resampling::Kind::arrivals) {
    w.redrawn = "resampled with new arrivals";
    return {};
  }
  if (how.block == 0) {
    const std::int64_t served = how.requests > 0 ? std::min(how.requests, units) : units;
    const std::int64_t least = Resampled::block_of(how, static_cast<std::size_t>(served)), most = (served + 7) / 8;
    how.block = std::max(least, std::min(static_cast<std::int64_t>(std::ceil(busy)), most));
    if (busy > static_cast<double>(how.block))
      w.notes.emplace_back("Blocks", fmt::format("a busy period has {:.0f} requests, which blocks of {} cut: intervals "
                                                 "are too narrow; --windows compares parts of the trace as recorded",
                                                 busy, how.block));
  }
  w.redrawn = fmt::format("resampled in blocks of {}", how.block);
  return {};
}

/// Sets the arrivals that figures count, and says so in the report.
Status set_counted(const WorkloadOptions& workload, std::span<const RequestSpec> requests, Setup& setup,
                   WorkloadReport& w) {
  setup.counts_from = Seconds{workload.warmup};
  if (workload.horizon) setup.counts_until = Seconds{*workload.horizon};
  if (!(workload.warmup > 0) && !workload.horizon) return {};
  const auto counted = std::count_if(requests.begin(), requests.end(), [&](const RequestSpec& one) {
    return setup.counts_from <= one.arrival && one.arrival < setup.counts_until;
  });
  if (counted == 0)
    return flag_error(workload.horizon ? "--horizon" : "--warmup",
                      fmt::format("no request arrives then; the last one at {:.4g} s", requests.back().arrival.count()),
                      "seconds before that");
  w.counted = fmt::format("arrivals from {:g} s{}, {} of {} requests", workload.warmup,
                          workload.horizon ? fmt::format(" to {:g} s", *workload.horizon) : std::string{}, counted,
                          requests.size());
  return {};
}

/// Returns the mean of a distribution of lengths. For a lognormal one it may be slightly too high, since too long draws
/// are repeated.
double mean_of(const LengthDistribution& lengths) {
  const auto middle = [](const UniformLength& range) {
    return 0.5 * static_cast<double>(range.least.count() + range.most.count());
  };
  if (const auto* fixed = std::get_if<FixedLength>(&lengths)) return static_cast<double>(fixed->tokens.count());
  if (const auto* uniform = std::get_if<UniformLength>(&lengths)) return middle(*uniform);
  if (const auto* lognormal = std::get_if<LognormalLength>(&lengths)) return lognormal->mean;
  double sum = 0, weights = 0;
  for (const BinnedLength::Bin& bin : std::get<BinnedLength>(lengths).bins) {
    sum += bin.weight * middle(bin.lengths);
    weights += bin.weight;
  }
  return sum / weights;
}

/// Refuses a generated workload before it is drawn, if the records of its requests would fill the memory.
Status check_count(const WorkloadOptions& workload) {
  constexpr std::int64_t most = 20'000'000; // 2 GB of records for each run
  if (!workload.generate) return {};
  std::int64_t asked = 0;
  if (describes_sessions(*workload.generate)) {
    const Expected<SessionSpec> spec = parse_sessions(*workload.generate);
    if (!spec) return spec.error();
    // The turns are random, but the mean over that many sessions is close to the distribution's.
    asked = std::llround(static_cast<double>(spec->sessions) * mean_of(spec->turns));
  } else {
    const Expected<GeneratorSpec> spec = parse_generator(*workload.generate);
    if (!spec) return spec.error();
    asked = spec->requests;
  }
  asked = std::min(asked, workload.limit.value_or(asked));
  if (asked <= most) return {};
  return flag_error("--generate",
                    fmt::format("it has {} requests, and each takes about 100 bytes of every run's records", asked),
                    fmt::format("at most {}, or --limit", most));
}

/// Returns all requests of a workload, with only the SLOs of their own.
Expected<std::vector<RequestSpec>> read_all(const std::function<Expected<Requests>(Slo)>& open) {
  Expected<Requests> reader = open(Slo{});
  if (!reader) return reader.error();
  return sluice::read_all(*reader);
}

/// The SLOs that requests have of their own, from classes or from the trace.
struct OwnSlos {
  std::vector<SloClass> classes; ///< infinite where a request has none; empty: no request has any, or they have too
                                 ///< many different ones
  bool all_ttft = false, all_tbt = false; ///< whether every request has one
  Slo shortest{};
  std::string note{};
};

/// `recorded`: the requests as recorded or generated, from whose own SLOs every seed draws.
OwnSlos own_slos_of(const Options& options, std::span<const RequestSpec> recorded) {
  OwnSlos own{.classes = {}, .all_ttft = true, .all_tbt = true};
  for (const RequestSpec& request : recorded) {
    own.all_ttft = own.all_ttft && !std::isinf(request.slo.ttft.count());
    own.all_tbt = own.all_tbt && !std::isinf(request.slo.tbt.count());
    own.shortest.ttft = std::min(own.shortest.ttft, request.slo.ttft);
    own.shortest.tbt = std::min(own.shortest.tbt, request.slo.tbt);
  }
  if (own.shortest == Slo{}) return own;
  std::optional<std::vector<SloClass>> classes = slo_classes_of(recorded);
  if (!classes) own.note = fmt::format("more than {} different ones: no tables by class", most_slo_classes);
  if (classes) own.classes = *std::move(classes);
  const auto is_stated = [&](const SloClass& one) {
    return std::any_of(options.slo_classes.begin(), options.slo_classes.end(),
                       [&](const SloClass& stated) { return stated.slo == one.slo; });
  };
  // A class that no request drew is still listed; requests' own SLOs in the trace may add others.
  if (std::all_of(own.classes.begin(), own.classes.end(), is_stated) && !options.slo_classes.empty())
    own.classes = options.slo_classes;
  for (SloClass& one : own.classes)
    if (one.slo == Slo{}) one.name = "others";
  return own;
}

/// Sets the SLOs from the flags, except where every request has its own.
Status set_slos(const Options& options, const OwnSlos& own, Seconds computed, Comparison& c) {
  const std::pair<const char*, bool> unread[] = {{"--slo-ttft", own.all_ttft && options.slo_ttft},
                                                 {"--slo-tbt", own.all_tbt && options.slo_tbt},
                                                 {"--slo-scale", own.all_tbt && !options.slo_scales.empty()}};
  for (const auto& [flag, given] : unread)
    if (given)
      return flag_error(flag, "every request has an SLO of its own",
                        options.slo_classes.empty() ? "no such flag, or a trace without SLOs"
                                                    : "no such flag, or no --slo-classes");
  c.slo_ttft = own.all_ttft ? own.shortest.ttft : Seconds{options.slo_ttft.value_or(5)}; // SuperInfer's SLO
  c.base_slo = own.all_tbt ? own.shortest.tbt : options.slo_tbt ? Seconds{*options.slo_tbt} : computed;
  c.scales = own.all_tbt ? std::vector{1.0} : !options.slo_scales.empty() ? options.slo_scales : std::vector{1.5};
  c.several_slos = own.classes.size() > 1 || !own.note.empty();
  if (own.classes.size() > 1) c.setup.slo_classes = c.workload.slo_classes = own.classes;
  if (!own.note.empty()) c.workload.notes.emplace_back("Requests' own SLOs", own.note);
  return {};
}

/// Returns the machine's figures that decide a comparison, each with its source.
std::string machine_text(const Options& options, const World& world, Tokens block_tokens) {
  const LinkCost link = world.cost.link();
  const char* const link_of = options.machine.profile.empty() ? "the device's" : "the profile's";
  const double token = static_cast<double>(world.shape.token_block_bytes(block_tokens).count()) /
                       static_cast<double>(block_tokens.count());
  const std::string whose = world.devices > 1 ? fmt::format("on each of {} devices, {} of the model", world.devices,
                                                            world.whole_token.count())
                                              : "the model's";
  return fmt::format("link {:.3g} GB/s to the device{} ({}); peaks of {:.4g} TFLOP/s and {:.4g} GB/s of memory (the "
                     "device's), times by {}; {:g} bytes of KV a token ({})",
                     link.rate.count() / 1e9,
                     link.lanes == Lanes::shared ? " and back on one lane"
                                                 : fmt::format(", {:.3g} GB/s back", link.out_rate.count() / 1e9),
                     options.machine.link > 0 ? "--link" : link_of, world.device.half_precision_peak.count() / 1e12,
                     world.device.memory_bandwidth.count() / 1e9, world.cost_name, token, whose);
}

/// Where the times are from, which decides them more than any policy does.
std::string times_caution(const Options& options, const World& world) {
  if (!world.measured.empty()) return world.measured;
  const double share = world.device.bandwidth_fraction.value_or(RooflineEfficiency{}.bandwidth);
  return fmt::format("decodes at {:.0f} % of the memory's bandwidth ({})", 100 * share,
                     options.machine.bandwidth_fraction ? "--bandwidth-fraction"
                     : world.device.bandwidth_fraction  ? "the device's"
                                                        : "measured profiles: 17 to 89 %");
}

/// Adds what the model's configuration says and the simulation ignores.
void caution_of_contexts(const Options& options, const ModelShape& shape, std::span<const RequestSpec> requests,
                         WorkloadReport& w) {
  if (shape.attention_window > Tokens{0})
    w.cautions.push_back(fmt::format("the sliding window of {} tokens of {} is ignored: KV and attention of longer "
                                     "contexts are upper bounds",
                                     shape.attention_window.count(), shape.name));
  if (shape.max_context == Tokens{0}) return;
  std::int64_t longer = 0;
  Tokens longest{0};
  for (const RequestSpec& request : requests) {
    longest = std::max(longest, request.prompt + request.output);
    if (request.prompt + request.output > shape.max_context) ++longer;
  }
  if (longer > 0)
    w.cautions.push_back(fmt::format("{} of {} requests{} exceed the {} tokens of {} (the longest: {})", longer,
                                     requests.size(), options.workload.seeds.size() > 1 ? " of the first seed" : "",
                                     shape.max_context.count(), shape.name, longest.count()));
}

void report_machine(const Options& options, const World& world, TokenBlocks budget, const Limits& limits,
                    WorkloadReport& w) {
  w.seed = options.workload.seed;
  w.model = world.shape.name;
  w.device = world.devices > 1 ? world.name : world.device.name;
  w.profile = world.cost_name;
  w.link = fmt::format("{:.3g} GB/s", world.cost.link().rate.count() / 1e9);
  w.notes.emplace_back("Machine", machine_text(options, world, limits.block_tokens));
  w.cautions.push_back(times_caution(options, world));
  w.budget_blocks = budget.count();
  w.block_tokens = limits.block_tokens.count();
  w.budget_bytes = budget.count() * world.shape.token_block_bytes(limits.block_tokens).count() * world.devices;
  w.host_budget_bytes = world.device.host_memory.count() * world.devices;
  w.batch_limit = limits.batch;
  w.max_batch_tokens = limits.batch_tokens.count();
}

void report_workload(const Options& options, const WorkloadTotals& sum, const Comparison& c, WorkloadReport& w) {
  w.requests = sum.requests;
  w.rate_scale = options.workload.rate_scale;
  w.base_slo_tbt_s = c.base_slo.count();
  w.slo_ttft_s = c.slo_ttft.count();
  const bool steps = by_steps(options.workload);
  w.notes.emplace_back("Requests",
                       fmt::format("{} prompt and {} output tokens, {:.3f} requests{}, CV of the gaps {:.2f}",
                                   sum.prompt.count(), sum.output.count(), steps ? 1000 * sum.rate : sum.rate,
                                   steps ? " in 1,000 steps" : "/s", sum.gap_cv));
  if (steps)
    w.notes.emplace_back("Arrivals", "count each system's own steps, idle ones skipped: a slow system gets them later");
}

/// Adds notes on every flag that differs from its default.
void report_choices(const Options& options, const World& world, const OwnSlos& own, WorkloadReport& w) {
  if (!world.group_note.empty()) w.notes.emplace_back("Group", world.group_note);
  if (options.tuning.alpha != 1) w.notes.emplace_back("Alpha", fmt::format("{:g} misses a step", options.tuning.alpha));
  if (options.tuning.rotation_blocks)
    w.notes.emplace_back("Rotation budget", fmt::format("{} blocks a decision", *options.tuning.rotation_blocks));
  if (options.tuning.plan_nodes)
    w.notes.emplace_back("OrbitFlow's planner", fmt::format("{} placements at most", *options.tuning.plan_nodes));
  if (options.tuning.max_pause) w.notes.emplace_back("Longest pause", fmt::format("{:g} s", *options.tuning.max_pause));
  if (own.all_tbt)
    w.notes.emplace_back("Base SLO", fmt::format("{}, of which systems that need one SLO for all take the shortest",
                                                 options.slo_classes.empty() ? "each request's own" : "--slo-classes"));
  else if (options.slo_tbt)
    w.notes.emplace_back("Base SLO", "--slo-tbt");
  else
    w.notes.emplace_back("Base SLO", options.slo_base == "batch"
                                         ? "the step of a full batch of mean lengths, nothing offloaded"
                                         : "the step of a batch that fills the budget, nothing offloaded");
  if (!options.workload.lengths.empty())
    w.notes.emplace_back("Lengths", options.workload.lengths + ", arrivals of the trace");
  if (options.machine.device_memory)
    w.notes.emplace_back("Device's memory", exact_bytes(*options.machine.device_memory) + " (--device-memory)");
  if (options.machine.bandwidth_fraction)
    w.notes.emplace_back("Memory bandwidth", fmt::format("{:g} of the device's (--bandwidth-fraction)",
                                                         *options.machine.bandwidth_fraction));
  if (options.machine.memory_share != 0.9)
    w.notes.emplace_back("Memory", fmt::format("{:g} of the device for weights and KV", options.machine.memory_share));
  const std::pair<const char*, std::optional<double>> lag[] = {
      {"alpha", options.tuning.lag_alpha}, {"beta_F", options.tuning.lag_first}, {"beta_B", options.tuning.lag_next}};
  for (const auto& [name, value] : lag)
    if (value) w.notes.emplace_back("Virtual lag", fmt::format("{} {:g}", name, *value));
  if (options.tuning.interval)
    w.notes.emplace_back("DeepSpeedWeights", fmt::format("interval {}", *options.tuning.interval));
  if (options.tuning.remapped)
    w.notes.emplace_back("Mirage", fmt::format("lends {} layers at most", *options.tuning.remapped));
  for (const std::string& setting : options.tuning.set) w.notes.emplace_back("Set", setting);
  if (!options.preset_note.empty()) w.notes.emplace_back("Preset", options.preset_note);
  if (!options.case_label.empty()) w.notes.emplace_back("Case", options.case_label);
}

} // namespace

Status check_effects(const Options& options, const std::vector<const System*>& systems) {
  if (!options.preset.empty() || options.composes || options.systems == "all") return {};
  const TuningOptions& tuning = options.tuning;
  const struct {
    const char* flag;
    bool given;
    std::string_view policy, number, other = {};
  } uses[] = {{"--alpha", tuning.alpha != 1, "DistancePlacement", "alpha", "UniformDistance"},
              {"--max-pause", tuning.max_pause.has_value(), "Pause", "max_wait"},
              {"--rotation-blocks", tuning.rotation_blocks.has_value(), "LargestVirtualLagFirst", "rotation"},
              {"--lag-alpha", tuning.lag_alpha.has_value(), "LargestVirtualLagFirst", "alpha"},
              {"--lag-first", tuning.lag_first.has_value(), "LargestVirtualLagFirst", "beta_first"},
              {"--lag-next", tuning.lag_next.has_value(), "LargestVirtualLagFirst", "beta_next"},
              {"--interval", tuning.interval.has_value(), "IntervalOffload", "interval"},
              {"--remap-layers", tuning.remapped.has_value(), "ParameterRemap", "most_layers"}};
  std::vector<System> chosen;
  for (const System* system : systems) chosen.push_back(*system);
  const std::vector<engines::NumberRow> numbers = engines::all_numbers(chosen);
  for (const auto& use : uses)
    if (use.given && std::none_of(numbers.begin(), numbers.end(), [&use](const engines::NumberRow& row) {
          return row.name == use.number && (row.policy == use.policy || row.policy == use.other);
        }))
      return flag_error(use.flag, fmt::format("none of these systems has the policy {}", use.policy),
                        "no such flag, or --systems with one that has it");
  if (options.machine.host_attention > 0 &&
      std::none_of(systems.begin(), systems.end(), [](const System* system) { return system->host_attends; }))
    return flag_error("--host-attention", "the host attends for none of these systems", "no such flag, or Neo");
  return {};
}

Expected<std::vector<const System*>> chosen_systems(const std::string& list, bool host_attends) {
  std::vector<const System*> chosen;
  if (list == "all") {
    for (const System& system : engines::simulated_systems())
      if (!system.variant && (host_attends || !system.host_attends)) chosen.push_back(&system);
    return chosen;
  }
  std::string names;
  std::vector<std::string_view> known;
  for (const System& system : engines::simulated_systems()) known.push_back(system.name);
  for (const System& system : engines::simulated_systems())
    names += (names.empty() ? "" : ", ") + std::string{system.name};
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::string name = list.substr(begin, end - begin);
    begin = end + 1;
    const System* found = nullptr;
    for (const System& system : engines::simulated_systems())
      if (system.name == name) found = &system;
    if (found == nullptr)
      return flag_error("--systems", fmt::format("there is no system '{}'{}", excerpt(name), did_you_mean(name, known)),
                        "all, or any of " + names);
    if (std::find(chosen.begin(), chosen.end(), found) != chosen.end())
      return flag_error("--systems", fmt::format("{} is named twice", name), "each system once");
    chosen.push_back(found);
  }
  return chosen;
}

Expected<Comparison> prepare(const Options& options, const std::string& command) {
  if (!options.node.tenants.empty()) return prepare_tenants(options, command);
  if (Status checked = check_without_tenants(options); !checked) return checked.error();
  Expected<World> world = world_of(options.machine);
  if (!world) return world.error();
  Expected<std::vector<const System*>> systems =
      chosen_systems(options.systems, world->device.host_attention_rate.count() > 0 && !options.bound);
  if (!systems) return systems.error();
  for (const System* system : *systems)
    if (Status states = engines::check_host_rate(
            *system, world->device, "--systems", world->device.name,
            "--host-attention RATE, such as 50GB/s, or a device file with host_attention_bytes_per_s");
        !states)
      return states.error();
  const Expected<std::string_view> rule = rule_of(options.transfer);
  if (!rule) return rule.error();
  if (Status checked = check_flags(options, *systems, *rule); !checked) return checked.error();
  Expected<std::optional<Resampling>> resampling = resampling_of(options.workload);
  if (!resampling) return resampling.error();
  const Expected<Source> source = source_of(options.workload);
  if (!source) return source.error();

  const Limits limits = limits_of(options.machine, *source);
  const std::string left_out = leave_out_whole_weights(options, *world, limits, *systems);
  const Expected<TokenBlocks> budget = kv_budget(options, *source, *world, *systems, limits);
  if (!budget) return budget.error();
  Comparison c{
      .setup =
          {{.limits = limits, .geometry = {}, .cost = world->cost, .model = world->shape, .device = world->device}},
      .workload = {},
      .systems = std::move(*systems),
      .rule = *rule};
  c.without_deposit = options.deposit != "on";
  c.with_deposit = options.deposit != "off";
  if (Status set = set_machine(options, *world, *budget, c); !set) return set.error();

  const Seconds full_step = full_budget_step(*world, *budget, limits.block_tokens);
  Expected<Openers> open = openers_of(options, *source, resampling->has_value(), full_step);
  if (!open) return open.error();
  if (Status fits = check_count(options.workload); !fits) return fits.error();
  const Expected<std::vector<RequestSpec>> recorded = read_all(open->recorded);
  if (!recorded) return recorded.error();
  if (std::optional<Resampling>& how = *resampling) {
    const double busy = by_steps(options.workload) ? 0 : busy_period(*world, *recorded, *budget, limits);
    if (Status set = set_resampling(options.workload, *recorded, busy, *how, c.workload); !set) return set.error();
    resample(options.workload, *how, *open);
  }
  c.setup.open = [of = open->requests, in_steps = by_steps(options.workload)](Slo slo) {
    Expected<Requests> requests = of(slo);
    if (requests) requests->in_steps = in_steps;
    return requests;
  };
  // One pass through the workload sums its work and finds the most memory that a request needs.
  const Expected<Trace> trace = open->trace({});
  if (!trace) return trace.error();
  const Expected<std::vector<RequestSpec>> requests = read_all(open->requests);
  if (!requests) return requests.error();
  const WorkloadTotals sum = totals(*requests);
  if (options.workload.sessions && options.preset.empty() &&
      std::none_of(requests->begin(), requests->end(), [](const RequestSpec& one) { return one.session != 0; }))
    return flag_error("--sessions", "no request belongs to a session", "no such flag, or a workload with sessions");
  const OwnSlos own = own_slos_of(options, *recorded);
  const Seconds computed = options.slo_base == "batch" ? full_batch_step(*world, sum, limits.batch) : full_step;
  if (Status set = set_slos(options, own, computed, c); !set) return set.error();
  c.setup.limits.max_context = std::max(sum.longest, Tokens{1});
  c.setup.worst_batch = source->header ? source->header->peak_batch_blocks
                                       : blocks_for(sum.longest, limits.block_tokens) *
                                             std::min<std::int64_t>(limits.batch, sum.requests);

  if (options.bound) {
    Expected<Requests> reader = open->requests(Slo{});
    if (!reader) return reader.error();
    std::vector<RequestSpec> all;
    std::vector<std::vector<ContentPiece>> contents; // empty if the workload has none
    if (Status read = read_all_with_content(*reader, all, contents); !read) return read.error();
    if (Status checked = check_bound(c, all, !contents.empty()); !checked) return checked.error();
  }

  WorkloadReport& w = c.workload;
  w.trace = trace->workload().name;
  w.format = trace->workload().format;
  if (Status set = set_counted(options.workload, *requests, c.setup, w); !set) return set.error();
  if (options.tuning.remapped && *options.tuning.remapped > world->shape.layers)
    return flag_error("--remap-layers", fmt::format("it is {}", *options.tuning.remapped),
                      fmt::format("at most {}, the layers of {}", world->shape.layers, world->shape.name));
  w.command = command;
  report_machine(options, *world, *budget, limits, w);
  if (!left_out.empty()) w.cautions.push_back(left_out);
  caution_of_contexts(options, world->shape, *requests, w);
  report_workload(options, sum, c, w);
  report_choices(options, *world, own, w);
  return c;
}

} // namespace compared
