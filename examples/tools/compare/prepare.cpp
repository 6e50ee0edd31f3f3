// SPDX-License-Identifier: Apache-2.0
// prepare: turns the command line into a comparison; checks its flags against each other and reads what they name.
#include "sluice/core/text.hpp"
#include "sluice/workload/nlohmann/open_trace.hpp"
#include "sluice/workload/reader.hpp"
#include "sluice/workload/resampled.hpp"
#include "sluice/workload/slo_classes.hpp"
#include "sluice/workload/workload.hpp"

#include "compare/bound.hpp"
#include "compare/comparison.hpp"
#include "compare/memory.hpp"
#include "compare/notes.hpp"
#include "compare/resampling.hpp"
#include "compare/slos.hpp"
#include "compare/source.hpp"
#include "compare/systems.hpp"
#include "compare/tenants.hpp"
#include "compare/world.hpp"
#include "engines/host_rate.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace compared {

using namespace sluice;

Error flag_error(std::string flag, std::string what, std::string expected) {
  return {ErrorCode::bad_input, std::move(flag), std::move(what), std::move(expected)};
}

namespace {

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
  if (const char* flag = options.workload.read_without_trace())
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

/// Sets the arrivals that figures count, and says so in the report.
Status set_counted(const WorkloadOptions& workload, std::span<const RequestSpec> requests, Setup& setup,
                   WorkloadReport& w) {
  setup.counts_from = Seconds{workload.warmup};
  if (workload.horizon) setup.counts_until = Seconds{*workload.horizon};
  if (!(workload.warmup > 0) && !workload.horizon) return {};
  if (workload.arrivals == "steps")
    return flag_error(workload.horizon ? "--horizon" : "--warmup", "arrivals count steps, not seconds",
                      "--arrivals seconds, or no such flag");
  if (workload.horizon && *workload.horizon <= workload.warmup)
    return flag_error("--horizon", fmt::format("it is {:g} s, and --warmup {:g} s", *workload.horizon, workload.warmup),
                      "seconds after the warm-up's end");
  const auto counted = std::count_if(requests.begin(), requests.end(), [&](const RequestSpec& one) {
    return setup.counts_from <= one.arrival && one.arrival < setup.counts_until;
  });
  if (counted == 0) {
    const auto next = std::find_if(requests.begin(), requests.end(),
                                   [&](const RequestSpec& one) { return setup.counts_from <= one.arrival; });
    if (next == requests.end())
      return flag_error(
          "--warmup", fmt::format("no request arrives then; the last one at {:.4g} s", requests.back().arrival.count()),
          "seconds before that");
    return flag_error("--horizon",
                      fmt::format("no request arrives from {:g} s to {:g} s; the next one at {:.4g} s", workload.warmup,
                                  *workload.horizon, next->arrival.count()),
                      "seconds after that");
  }
  w.counted = fmt::format("arrivals from {:g} s{}, ", workload.warmup,
                          workload.horizon ? fmt::format(" to {:g} s", *workload.horizon) : std::string{});
  // A closed loop's later requests arrive when a system has answered, so no number holds for all systems.
  const bool closed = std::any_of(requests.begin(), requests.end(), [](const RequestSpec& one) { return one.follows; });
  if (closed)
    w.counted += fmt::format("of {} requests as many as each system has answered its sessions' earlier ones by then",
                             requests.size());
  else
    w.counted += fmt::format("{} of {} requests", counted, requests.size());
  return {};
}

} // namespace

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
  const Expected<std::string> unequal = leave_out_equal_layers(options, *world, *systems);
  if (!unequal) return unequal.error();
  const std::string left_out = leave_out_whole_weights(options, *world, limits, *systems);
  const Expected<Budget> budget = kv_budget(options, *source, *world, *systems, limits);
  if (!budget) return budget.error();
  Comparison c{
      .setup =
          {{.limits = limits, .geometry = {}, .cost = world->cost, .model = world->shape, .device = world->device}},
      .workload = {},
      .systems = std::move(*systems),
      .rule = *rule};
  c.without_deposit = options.deposit != "on";
  c.with_deposit = options.deposit != "off";
  if (Status set = set_policies(options, world->shape, c); !set) return set.error();
  if (Status set = set_memories(options, *world, *budget, c); !set) return set.error();

  const Seconds full_step = full_budget_step(*world, budget->blocks, limits.block_tokens);
  Expected<Openers> open = openers_of(options, *source, resampling->has_value(), full_step);
  if (!open) return open.error();
  if (Status fits = check_count(options.workload); !fits) return fits.error();
  const Expected<std::vector<RequestSpec>> recorded = requests_of(open->recorded);
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
  Expected<Trace> trace = open->trace({});
  if (!trace) return trace.error();
  // A trace's workload says how many failed requests were left out only after the trace has been read.
  if (trace->workload().format != "generated")
    if (const auto all = read_all(*trace); !all) return all.error();
  const Expected<std::vector<RequestSpec>> requests = requests_of(open->requests);
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
  report_machine(options, *world, *budget, c);
  if (!left_out.empty()) w.cautions.push_back(left_out);
  if (!unequal->empty()) w.cautions.push_back(*unequal);
  if (std::string read = taken_for_text(trace->workload(), *recorded); !read.empty())
    w.cautions.push_back(std::move(read));
  report_workload(options, world->shape, *requests, sum, c);
  report_choices(options, *world, own, w);
  return c;
}

} // namespace compared
