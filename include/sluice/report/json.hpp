// SPDX-License-Identifier: Apache-2.0
// report.json: a comparison for programs. NaN and infinity are null; equal reports give equal bytes.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/report/observer/json_writer.hpp"
#include "sluice/report/report.hpp"
#include "sluice/report/seeds.hpp"
#include "sluice/report/statistics/interval.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

/// Options for report.json.
struct JsonOptions {
  /// Wall times differ from run to run. Without them, two runs of one seed give equal files.
  bool wall_times = true;
};

namespace detail {

/// Sluice's version; null if the program does not know it.
void write_made_by(JsonWriter& json, const MadeBy& made_by);

void write_workload(JsonWriter& json, const WorkloadReport& workload);

/// Writes for several seeds: every number's mean under its own name, its values in the order of the seeds under
/// "per_seed", and its mean's 95 % interval under "interval". Omits names that `wanted` refuses. `windows`: the seeds
/// are windows of a trace.
template <class Wanted>
void write_seeds(JsonWriter& json, std::span<const Metrics> each, bool windows, Wanted&& wanted) {
  std::vector<std::pair<std::string_view, std::vector<double>>> columns;
  for (const Metrics& metrics : each) {
    std::size_t at = 0;
    for_each_metric(metrics, [&](std::string_view name, auto number) {
      if (at == columns.size()) columns.emplace_back(name, std::vector<double>{});
      columns[at++].second.push_back(static_cast<double>(number));
    });
  }
  std::erase_if(columns, [&](const auto& column) {
    return !wanted(column.first) || std::none_of(column.second.begin(), column.second.end(),
                                                 [&](double value) { return in_json(column.first, value); });
  });
  for (const auto& [name, values] : columns) json.field(name, mean_of(values));
  json.key("interval").begin_object();
  for (const auto& [name, values] : columns) {
    const Interval of = metric_interval(name, values, windows);
    json.key(name).begin_array().value(of.least).value(of.most).end_array();
  }
  json.end_object().key("per_seed").begin_object();
  for (const auto& [name, values] : columns) {
    json.key(name).begin_array();
    for (const double value : values) json.value(value);
    json.end_array();
  }
  json.end_object();
}

/// Writes a row's identification and numbers: the members of an object that the caller opens and closes.
void write_row(JsonWriter& json, const SystemReport& system, const JsonOptions& options);

/// Writes the members "workload" and "systems" of an object that the caller opens and closes, indented by `indent`.
void write_report_members(JsonWriter& json, const ComparisonReport& report, const JsonOptions& options, int indent);

} // namespace detail

/// `{"made_by":{…},"workload":{…},"systems":[{…},…]}`, one system a line.
[[nodiscard]] std::string report_json(const ComparisonReport& report, JsonOptions options = {});

} // namespace sluice

#ifndef SLUICE_REPORT_COMPILED
#include "sluice/report/json.inl.hpp"
#endif
