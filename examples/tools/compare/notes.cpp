// SPDX-License-Identifier: Apache-2.0
// Writes notes and cautions.
#include "compare/notes.hpp"

#include "sluice/policy/cost/roofline.hpp"
#include "sluice/policy/cost/work.hpp"

#include "compare/source.hpp"
#include "shared/sizes.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace compared {

using namespace sluice;

namespace {

/// Returns the machine's figures that decide a comparison, each with its source.
std::string machine_text(const Options& options, const World& world, Tokens block_tokens) {
  const LinkCost link = world.cost.link();
  const char* const link_of = options.machine.profile.empty() ? "the device's" : "the profile's";
  const double token = world.layered ? world.layered->kv.growth_bytes_per_token()
                                     : static_cast<double>(world.shape.token_block_bytes(block_tokens).count()) /
                                           static_cast<double>(block_tokens.count());
  const std::string whose =
      world.layered ? fmt::format("the model's; and at most {:.4g} MB a request in windows and states",
                                  static_cast<double>(world.layered->kv.fixed_bytes().count()) / 1e6)
      : world.devices > 1
          ? fmt::format("on each of {} devices, {} of the model", world.devices, world.whole_token.count())
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
                     : world.device.bandwidth_fraction
                         ? "the device's"
                         : "as an RTX 4090 reads one layer's matrices; whole steps in measured profiles: 17 to 89 %");
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
                                     requests.size(),
                                     options.workload.seeds.size() < 2 ? ""
                                     : w.windows                       ? " of the first window"
                                                                       : " of the first seed",
                                     shape.max_context.count(), shape.name, longest.count()));
}

/// Which hints the requests have, and which system reads which; empty if they have none.
std::string hints_text(const Comparison& c, std::span<const RequestSpec> requests) {
  HintSet said;
  for (const RequestSpec& request : requests) said = said | request.hints.said();
  if (!said.any()) return {};
  std::string read, ignored;
  for (const System* system : c.systems) {
    const HintSet unread = said - system->uses_hints;
    if (unread == said)
      ignored += (ignored.empty() ? "" : ", ") + std::string{system->name};
    else
      read += fmt::format("; {} reads {}", system->name, name(said - unread));
  }
  return name(said) + read + (ignored.empty() ? "" : "; ignored by " + ignored);
}

} // namespace

void report_machine(const Options& options, const World& world, const Budget& budget, Comparison& c) {
  WorkloadReport& w = c.workload;
  const Limits& limits = c.setup.limits;
  w.seed = options.workload.seed;
  w.model = world.shape.name;
  w.device = world.devices > 1 ? world.name : world.device.name;
  w.profile = world.cost_name;
  w.link = fmt::format("{:.3g} GB/s", world.cost.link().rate.count() / 1e9);
  w.notes.emplace_back("Machine", machine_text(options, world, limits.block_tokens));
  w.times = times_caution(options, world);
  w.budget_blocks = budget.blocks.count();
  w.kv_in_groups = world.layered.has_value();
  w.block_tokens = limits.block_tokens.count();
  w.budget_bytes = budget.room.count() * c.setup.geometry.layer_block_bytes.count() * world.devices;
  w.host_budget_bytes = world.device.host_memory.count() * world.devices;
  w.batch_limit = limits.batch;
  w.max_batch_tokens = limits.batch_tokens.count();
}

void report_workload(const Options& options, const ModelShape& shape, std::span<const RequestSpec> requests,
                     const WorkloadTotals& sum, Comparison& c) {
  WorkloadReport& w = c.workload;
  caution_of_contexts(options, shape, requests, w);
  w.requests = sum.requests;
  w.rate_scale = options.workload.rate_scale;
  w.base_slo_tbt_s = c.base_slo.count();
  w.slo_ttft_s = c.slo_ttft.count();
  const bool steps = by_steps(options.workload);
  w.notes.emplace_back("Requests",
                       fmt::format("{} prompt and {} output tokens, {:.3f} requests{}, CV of the gaps {:.2f}",
                                   sum.prompt.count(), sum.output.count(), steps ? 1000 * sum.rate : sum.rate,
                                   steps ? " in 1,000 steps" : "/s", sum.gap_cv));
  if (const std::string heeded = hints_text(c, requests); !heeded.empty())
    w.notes.emplace_back("Hints of clients", heeded);
  if (steps)
    w.notes.emplace_back("Arrivals", "count each system's own steps, idle ones skipped: a slow system gets them later");
}

void report_choices(const Options& options, const World& world, const OwnSlos& own, WorkloadReport& w) {
  const TuningOptions& tuning = options.tuning;
  const MachineOptions& machine = options.machine;
  if (!world.group_note.empty()) w.notes.emplace_back("Group", world.group_note);
  if (tuning.alpha != 1) w.notes.emplace_back("Alpha", fmt::format("{:g} misses a step", tuning.alpha));
  if (tuning.rotation_blocks)
    w.notes.emplace_back("Rotation budget", fmt::format("{} blocks a decision", *tuning.rotation_blocks));
  if (tuning.plan_nodes)
    w.notes.emplace_back("OrbitFlow's planner", fmt::format("{} placements at most", *tuning.plan_nodes));
  if (tuning.max_pause) w.notes.emplace_back("Longest pause", fmt::format("{:g} s", *tuning.max_pause));
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
  if (machine.device_memory)
    w.notes.emplace_back("Device's memory", exact_bytes(*machine.device_memory) + " (--device-memory)");
  if (machine.bandwidth_fraction)
    w.notes.emplace_back("Memory bandwidth",
                         fmt::format("{:g} of the device's (--bandwidth-fraction)", *machine.bandwidth_fraction));
  if (machine.memory_share != 0.9)
    w.notes.emplace_back("Memory", fmt::format("{:g} of the device for weights and KV", machine.memory_share));
  const std::pair<const char*, std::optional<double>> lag[] = {
      {"alpha", tuning.lag_alpha}, {"beta_F", tuning.lag_first}, {"beta_B", tuning.lag_next}};
  for (const auto& [name, value] : lag)
    if (value) w.notes.emplace_back("Virtual lag", fmt::format("{} {:g}", name, *value));
  if (tuning.interval) w.notes.emplace_back("DeepSpeedWeights", fmt::format("interval {}", *tuning.interval));
  if (tuning.remapped) w.notes.emplace_back("Mirage", fmt::format("lends {} layers at most", *tuning.remapped));
  for (const std::string& setting : tuning.set) w.notes.emplace_back("Set", setting);
  if (!options.preset_note.empty()) w.notes.emplace_back("Preset", options.preset_note);
  if (!options.case_label.empty()) w.notes.emplace_back("Case", options.case_label);
}

} // namespace compared
