// SPDX-License-Identifier: Apache-2.0
// Finds systems and rules by name, and sets the numbers of their policies.
#include "compare/systems.hpp"

#include "sluice/core/text.hpp"
#include "sluice/policy/transfer/deadline_pool.hpp"
#include "sluice/policy/transfer/earliest_deadline_first.hpp"
#include "sluice/policy/transfer/fair_share.hpp"
#include "sluice/policy/transfer/next_layer.hpp"
#include "sluice/policy/weights/nlohmann/interval_record_json.hpp"

#include "engines/numbers.hpp"
#include "engines/registry.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

namespace compared {

using namespace sluice;

namespace {

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

/// A flag that sets numbers of single policies.
struct OwnFlag {
  const char* flag;
  bool given;
  std::optional<double> value;
  std::string_view number, policy, other{}; ///< of one policy or of two
};

std::vector<OwnFlag> own_flags(const TuningOptions& tuning) {
  std::vector<OwnFlag> flags{
      {"--alpha", tuning.alpha != 1, tuning.alpha, "alpha", "DistancePlacement", "UniformDistance"}};
  const auto add = [&flags](const char* flag, const auto& value, std::string_view policy, std::string_view number) {
    flags.push_back({flag, value.has_value(), std::nullopt, number, policy});
    if (value) flags.back().value = static_cast<double>(*value);
  };
  add("--plan-nodes", tuning.plan_nodes, "DistancePlacement", "node_limit");
  add("--max-pause", tuning.max_pause, "Pause", "max_wait");
  add("--rotation-blocks", tuning.rotation_blocks, "LargestVirtualLagFirst", "rotation");
  add("--lag-alpha", tuning.lag_alpha, "LargestVirtualLagFirst", "alpha");
  add("--lag-first", tuning.lag_first, "LargestVirtualLagFirst", "beta_first");
  add("--lag-next", tuning.lag_next, "LargestVirtualLagFirst", "beta_next");
  add("--interval", tuning.interval, "IntervalOffload", "interval");
  add("--remap-layers", tuning.remapped, "ParameterRemap", "most_layers");
  return flags;
}

std::vector<System> copies(const std::vector<const System*>& chosen) {
  std::vector<System> systems;
  for (const System* system : chosen) systems.push_back(*system);
  return systems;
}

} // namespace

Expected<std::vector<const System*>> chosen_systems(const std::string& list, bool host_attends) {
  std::vector<const System*> chosen;
  if (list == "all") {
    for (const System& system : engines::simulated_systems())
      if (!system.variant && (host_attends || !system.host_attends)) chosen.push_back(&system);
    return chosen;
  }
  std::string names;
  std::vector<std::string_view> known;
  for (const System& system : engines::simulated_systems()) {
    known.push_back(system.name);
    names += (names.empty() ? "" : ", ") + std::string{system.name};
  }
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

Status check_effects(const Options& options, const std::vector<const System*>& systems) {
  if (!options.preset.empty() || options.composes || options.systems == "all") return {};
  const std::vector<engines::NumberRow> numbers = engines::all_numbers(copies(systems));
  for (const OwnFlag& own : own_flags(options.tuning))
    if (own.given && std::none_of(numbers.begin(), numbers.end(), [&own](const engines::NumberRow& row) {
          return row.name == own.number && (row.policy == own.policy || row.policy == own.other);
        }))
      return flag_error(own.flag, fmt::format("none of these systems has the policy {}", own.policy),
                        "no such flag, or --systems with one that has it");
  if (options.machine.host_attention > 0 &&
      std::none_of(systems.begin(), systems.end(), [](const System* system) { return system->host_attends; }))
    return flag_error("--host-attention", "the host attends for none of these systems", "no such flag, or Neo");
  return {};
}

Status set_policies(const Options& options, const ModelShape& shape, Comparison& c) {
  std::vector<NumberSetting>& numbers = c.setup.numbers;
  for (const OwnFlag& own : own_flags(options.tuning))
    for (const std::string_view policy : {own.policy, own.other})
      if (own.value && !policy.empty()) numbers.push_back({std::string{policy}, std::string{own.number}, *own.value});
  const Expected<std::vector<NumberSetting>> more = engines::read_settings(options.tuning.set, copies(c.systems));
  if (!more) return more.error();
  numbers.insert(numbers.end(), more->begin(), more->end());
  if (!options.record.empty()) {
    Expected<IntervalRecord> record = read_record(options.record, shape);
    if (!record) return record.error();
    c.workload.notes.emplace_back("Performance record",
                                  fmt::format("{}: {} on {}, {}", options.record, record->heading().model,
                                              record->heading().device, record->heading().times));
    c.setup.record = std::make_shared<const IntervalRecord>(*std::move(record));
  }
  return {};
}

} // namespace compared
