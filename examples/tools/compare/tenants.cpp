// SPDX-License-Identifier: Apache-2.0
// Turns --tenants into several setups in one comparison.
#include "compare/tenants.hpp"

#include "sluice/core/text.hpp"
#include "sluice/engine/serve.hpp"
#include "sluice/model/device/nlohmann/device_json.hpp"
#include "sluice/model/nlohmann/hf_config.hpp"
#include "sluice/workload/reader.hpp"

#include "compare/systems.hpp"
#include "engines/registry.hpp"
#include "shared/kv_dtype.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

namespace compared {

using namespace sluice;

namespace {

struct TenantFlag {
  std::string model;
  double share = 0; ///< share of the device's memory, for weights and KV
};

/// Parses "opt-13b@0.35".
Expected<TenantFlag> read_tenant(const std::string& text) {
  const std::size_t at = text.rfind('@');
  TenantFlag tenant{text.substr(0, at), 0};
  if (at != std::string::npos) {
    const std::string_view number = std::string_view{text}.substr(at + 1);
    const auto [end, failed] = std::from_chars(number.data(), number.data() + number.size(), tenant.share);
    if (failed == std::errc{} && end == number.data() + number.size() && tenant.share > 0 && tenant.share <= 1 &&
        !tenant.model.empty())
      return tenant;
  }
  return flag_error("--tenants", fmt::format("'{}' is no tenant", text),
                    "a model and its share of the device's memory, weights and KV, such as opt-13b@0.35");
}

/// Checks the flags against --tenants.
Status check_with_tenants(const Options& options) {
  if (options.node.tenants.size() < 2 || options.node.tenants.size() > most_tenants)
    return flag_error(
        "--tenants",
        fmt::format("there {} {}", options.node.tenants.size() == 1 ? "is" : "are", options.node.tenants.size()),
        fmt::format("2 to {}, with commas between them", most_tenants));
  if (options.machine.model)
    return flag_error("--model", "there are tenants as well", "--model or --tenants, not both");
  if (options.machine.kv_blocks)
    return flag_error("--kv-blocks", "there are tenants, each with a share of the device", "the shares in --tenants");
  if (options.machine.kv_memory)
    return flag_error("--kv-memory", "there are tenants, each with a share of the device", "the shares in --tenants");
  if (!options.machine.profile.empty())
    return flag_error("--profile", "there are several models", "no profile: times by the roofline of each");
  if (!options.record.empty())
    return flag_error("--record", "there are several models", "no record: each makes its own");
  if (options.transfer != "own") return flag_error("--transfer", "there are tenants", "own: each system's rule");
  if (!options.node.tenant_loads.empty() && options.node.tenant_loads.size() != options.node.tenants.size())
    return flag_error("--tenant-load",
                      fmt::format("{} for {} tenants", options.node.tenant_loads.size(), options.node.tenants.size()),
                      "one for each, or none");
  if (options.workload.arrivals == "steps")
    return flag_error("--arrivals", "there are tenants, each of which would count its own steps", "seconds");
  if (options.bound) return flag_error("--bound", "there are tenants, and the bound is of one model", "one --model");
  if (!options.slo_classes.empty())
    return flag_error("--slo-classes", "there are tenants, whose users' SLOs follow each one's model",
                      "--slo-classes or --tenants, not both");
  if (!options.node.tenant_loads.empty() && options.workload.generate)
    return flag_error("--generate", "each tenant has a load of its own", "--generate or --tenant-load, not both");
  return {};
}

/// Returns the requested systems; all must be able to serve tenants.
Expected<std::vector<const System*>> systems_for_tenants(const Options& options) {
  Expected<std::vector<const System*>> systems = chosen_systems(options.systems);
  if (!systems) return systems.error();
  std::string able;
  for (const System& system : engines::simulated_systems())
    if (system.simulate_node != nullptr) able += (able.empty() ? "" : ", ") + std::string{system.name};
  if (options.systems == "all")
    std::erase_if(*systems, [](const System* system) { return system->simulate_node == nullptr; });
  else
    for (const System* system : *systems)
      if (system->simulate_node == nullptr)
        return flag_error("--systems", fmt::format("{} serves one tenant", system->name), "all, or any of " + able);
  return systems;
}

/// Removes from `systems` those that cannot store a tenant's weights, if all systems were requested. Returns their
/// names.
std::string leave_out_too_small(const Options& options, const std::vector<TenantFlag>& flags,
                                std::vector<const System*>& systems) {
  std::string left_out;
  if (options.systems != "all" || !options.slo_tbt) return left_out;
  const Expected<Device> device = find_or_read_device(options.machine.device);
  const Expected<int> kv_bytes = read_kv_dtype(options.machine.kv_dtype);
  if (!kv_bytes) return left_out; // reported where the flag is checked
  bool larger = false;
  for (const TenantFlag& flag : flags)
    if (const Expected<ModelShape> shape = find_or_read_model(flag.model, *kv_bytes); shape && device)
      larger = larger || kv_blocks_beside_weights(*shape, *device, Limits{}.block_tokens, flag.share) < TokenBlocks{1};
  if (larger)
    std::erase_if(systems, [&left_out](const System* system) {
      if (!system->streams_weights) left_out += (left_out.empty() ? "" : ", ") + std::string{system->name};
      return !system->streams_weights;
    });
  return left_out;
}

/// Sets how tenants share the device and the order of lending, from the flags.
Status read_sharing(const Options& options, const std::string& sharing, double shares, Tenants& tenants) {
  if (sharing == "turns")
    tenants.sharing.kind = engines::SharingKind::turns;
  else if (sharing == "together")
    tenants.sharing.kind = engines::SharingKind::together;
  else if (sharing == "parts" || sharing == "devices")
    tenants.sharing.kind = engines::SharingKind::apart;
  else
    return flag_error("--sharing", fmt::format("it is '{}'", excerpt(sharing)), "turns, together, parts or devices");
  if (sharing != "devices" && shares > 1 + 1e-9)
    return flag_error("--tenants", fmt::format("their shares sum to {:g} of one device", shares),
                      "at most 1, or --sharing devices: one for each");
  tenants.sharing.turns.quantum = Seconds{options.node.quantum.value_or(1)};
  const std::string order = options.node.remap_order.value_or("mru");
  if (order == "lru")
    tenants.order = RemapController::Order::least_recent_first;
  else if (order != "mru")
    return flag_error("--remap-order", fmt::format("it is '{}'", excerpt(order)), "mru or lru");
  return {};
}

/// Returns the options of tenant `i`, as if it were the only one.
Options alone(const Options& options, const std::vector<TenantFlag>& flags, std::size_t i, const std::string& systems,
              double part) {
  Options one = options;
  one.node = {};
  one.systems = systems;
  one.composes = true; // flags are checked once, for all tenants
  one.machine.model = flags[i].model;
  one.machine.memory_share = flags[i].share;
  one.machine.part = part;
  if (!options.node.tenant_loads.empty()) {
    one.workload.generate = options.node.tenant_loads[i];
    one.workload.seed = options.workload.seed + i;
  }
  return one;
}

/// Makes a tenant from the comparison that was prepared for it alone, and adds its share of the host and of the bus.
Tenant tenant_of(const Options& options, const Comparison& prepared, double share, double shares, std::size_t tenants,
                 bool in_turns) {
  Tenant tenant{prepared.workload.model, prepared.setup, prepared.base_slo};
  // Tenants share one machine and one host. Each has a fixed share, because each server has its own swap space.
  tenant.setup.host_blocks =
      LayerBlocks{static_cast<std::int64_t>(static_cast<double>(tenant.setup.host_blocks.count()) * share / shares)};
  if (in_turns) return tenant;
  // Each tenant's guaranteed bandwidth, in whole shares of its lane: the bus can be slower or faster than one lane.
  const double lanes = options.node.bus ? *options.node.bus / prepared.setup.cost.link().rate.count() : 1;
  const double shares_of_lane = std::ceil(static_cast<double>(tenants) / lanes * (1 - 1e-9));
  tenant.setup.engines_on_bus = static_cast<int>(std::clamp(shares_of_lane, 1.0, 1e6));
  return tenant;
}

std::string tenants_note(const Options& options, const std::string& sharing, BytesPerSecond bus) {
  return fmt::format(
      "{}; bus {:.1f} GB/s; the host's memory divided by the same shares; {}",
      sharing == "turns"      ? fmt::format("in turns of {:g} s on one device", options.node.quantum.value_or(1))
      : sharing == "together" ? "side by side on one device, without isolation"
      : sharing == "parts"    ? "each on its part of one device"
                              : "each on a device of its own",
      bus.count() / 1e9,
      options.node.tenant_loads.empty() ? "one stream of requests, dealt at random" : "each its own requests");
}

} // namespace

Status check_without_tenants(const Options& options) {
  const std::pair<const char*, bool> given[] = {{"--tenant-load", !options.node.tenant_loads.empty()},
                                                {"--sharing", options.node.sharing.has_value()},
                                                {"--quantum", options.node.quantum.has_value()},
                                                {"--bus", options.node.bus.has_value()},
                                                {"--remap-order", options.node.remap_order.has_value()}};
  for (const auto& [flag, is_given] : given)
    if (is_given) return flag_error(flag, "there are no tenants", "--tenants as well");
  return {};
}

const Setup* setup_of(const Comparison& comparison, const SystemReport& row) {
  if (!comparison.setup.tenants) return &comparison.setup;
  const std::size_t slash = row.name.find('/');
  if (slash != std::string::npos)
    for (const Tenant& tenant : comparison.setup.tenants->each)
      if (row.name.compare(slash + 1, std::string::npos, tenant.name) == 0) return &tenant.setup;
  return nullptr;
}

Expected<Comparison> prepare_tenants(const Options& options, const std::string& command) {
  if (Status checked = check_with_tenants(options); !checked) return checked.error();
  Expected<std::vector<const System*>> systems = systems_for_tenants(options);
  if (!systems) return systems.error();
  if (Status effective = check_effects(options, *systems); !effective) return effective.error();
  std::vector<TenantFlag> flags;
  double shares = 0;
  for (const std::string& text : options.node.tenants) {
    Expected<TenantFlag> tenant = read_tenant(text);
    if (!tenant) return tenant.error();
    shares += tenant->share;
    flags.push_back(*std::move(tenant));
  }
  auto tenants = std::make_shared<Tenants>();
  const std::string sharing = options.node.sharing.value_or("turns");
  if (Status read = read_sharing(options, sharing, shares, *tenants); !read) return read.error();
  const std::string left_out = leave_out_too_small(options, flags, *systems);
  std::string chosen;
  for (const System* system : *systems) chosen += (chosen.empty() ? "" : ",") + std::string{system->name};

  std::optional<Comparison> all;
  std::string models;
  std::vector<std::string> cautions;
  std::int64_t requests = 0, budget_blocks = 0, budget_bytes = 0; // totals of all tenants
  for (std::size_t i = 0; i < flags.size(); ++i) {
    Expected<Comparison> prepared =
        prepare(alone(options, flags, i, chosen, sharing == "parts" ? flags[i].share / shares : 1.0), command);
    if (!prepared) return prepared.error();
    const std::optional<PeerLink>& peer = prepared->setup.device.peer;
    if (options.machine.tp > 1 && peer && peer->path == PeerPath::host && sharing != "turns")
      return flag_error("--tp",
                        fmt::format("tenants offload over the bus that the all-reduces of {} cross, at the same time: "
                                    "the simulation has no model of that contention",
                                    prepared->setup.device.name),
                        "--sharing turns, or devices that reach their peers by another way than their host's bus");
    Tenant tenant = tenant_of(options, *prepared, flags[i].share, shares, flags.size(), sharing == "turns");
    for (const Tenant& other : tenants->each)
      if (other.name == tenant.name) tenant.name = fmt::format("{}-{}", prepared->workload.model, i + 1);
    if (options.node.tenant_loads.empty()) { // all tenants share one stream of arrivals
      tenant.setup.open = [open = prepared->setup.open, i, count = flags.size(),
                           seed = options.workload.seed](Slo slo) -> Expected<Requests> {
        Expected<Requests> stream = open(slo);
        if (!stream) return stream.error();
        const auto dealt = std::make_shared<Dealt<Requests>>(*std::move(stream), i, count, seed + 77);
        return Requests{[dealt] { return dealt->next(); }, [dealt] { return dealt->content(); }};
      };
      requests = prepared->workload.requests;
    } else {
      requests += prepared->workload.requests;
    }
    for (const std::string& caution : prepared->workload.cautions)
      if (std::find(cautions.begin(), cautions.end(), caution) == cautions.end()) cautions.push_back(caution);
    budget_blocks += prepared->workload.budget_blocks;
    budget_bytes += prepared->workload.budget_bytes;
    models += (i == 0 ? "" : " + ") + fmt::format("{} ({:g} %)", tenant.name, 100 * flags[i].share);
    tenants->each.push_back(std::move(tenant));
    if (!all) all = *std::move(prepared);
  }
  tenants->bus = options.node.bus ? BytesPerSecond{*options.node.bus} : all->setup.cost.link().rate;
  all->setup.tenants = tenants;
  all->systems = *std::move(systems);
  WorkloadReport& w = all->workload;
  if (!left_out.empty())
    w.notes.emplace_back("Left out", left_out + ": a model is larger than its share of the device");
  w.model = models;
  w.cautions = std::move(cautions);
  w.requests = requests;
  w.budget_blocks = budget_blocks;
  w.budget_bytes = budget_bytes;
  std::erase_if(w.notes, [](const auto& note) { return note.first == "Memory"; }); // it describes only the first tenant
  w.notes.emplace_back("Tenants", tenants_note(options, sharing, tenants->bus));
  return *std::move(all);
}

} // namespace compared
