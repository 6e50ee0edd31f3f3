// SPDX-License-Identifier: Apache-2.0
// report.json: a comparison for programs. NaN and infinity are null; equal reports give equal bytes.
#pragma once

#include "sluice/observer/json_writer.hpp"
#include "sluice/report/report.hpp"

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// What goes into the JSON beside the numbers.
struct JsonOptions {
  /// Wall times differ from run to run; without them two runs of one seed give equal files.
  bool wall_times = true;
};

namespace detail {

inline void write_workload(JsonWriter& json, const WorkloadReport& workload) {
  json.begin_object().field("trace", workload.trace).field("format", workload.format).field("seed", workload.seed);
  json.field("requests", workload.requests).field("model", workload.model).field("device", workload.device);
  json.field("profile", workload.profile).field("budget_blocks", workload.budget_blocks);
  json.field("block_tokens", workload.block_tokens).field("budget_bytes", workload.budget_bytes);
  json.key("host_budget_bytes");
  if (workload.host_budget_bytes > 0)
    json.value(workload.host_budget_bytes);
  else
    json.null();
  json.field("batch_limit", workload.batch_limit).field("max_batch_tokens", workload.max_batch_tokens);
  json.field("rate_scale", workload.rate_scale).field("base_slo_tbt_s", workload.base_slo_tbt_s);
  json.field("slo_ttft_s", workload.slo_ttft_s).field("command", workload.command);
  json.key("notes").begin_object();
  for (const auto& [label, text] : workload.notes) json.field(label, text);
  json.end_object().end_object();
}

/// What identifies a row, and its numbers: the members of an object that the caller opens and closes.
inline void write_row(JsonWriter& json, const SystemReport& system, const JsonOptions& options) {
  json.field("name", system.name).field("deposit", system.deposit).field("slo_scale", system.slo_scale);
  json.field("slo_tbt_s", system.slo_tbt_s).field("slo_ttft_s", system.slo_ttft_s);
  json.field("transfer", system.transfer).field("control", system.control);
  for_each_metric(system.metrics, [&](std::string_view name, auto number) {
    if (options.wall_times || name.find("_wall_") == std::string_view::npos) json.field(name, number);
  });
  json.field("engine", system.engine_type).field("note", system.note).field("livelock", system.livelock);
  json.key("refusals").begin_object();
  for (const auto& [reason, count] : system.refusals) json.field(reason, count);
  json.end_object();
}

} // namespace detail

/// `{"workload":{…},"systems":[{…},…]}`, one system a line.
[[nodiscard]] inline std::string report_json(const ComparisonReport& report, JsonOptions options = {}) {
  std::string text;
  JsonWriter json(text);
  json.begin_object().line(2).key("workload");
  detail::write_workload(json, report.workload);
  json.line(2).key("systems").begin_array();
  for (const SystemReport& system : report.systems) {
    json.line(4).begin_object();
    detail::write_row(json, system, options);
    json.end_object();
  }
  json.line(2).end_array().line().end_object();
  text += '\n';
  return text;
}

} // namespace sluice
