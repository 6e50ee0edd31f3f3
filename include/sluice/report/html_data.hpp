// SPDX-License-Identifier: Apache-2.0
// Writes the data of report.html's plots, as JSON, rounded to a screen's precision.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/report/html_tables.hpp"
#include "sluice/report/made_by.hpp"
#include "sluice/report/observer/json_writer.hpp"
#include "sluice/report/order.hpp"
#include "sluice/report/report.hpp"
#include "sluice/report/seed_tables.hpp"
#include "sluice/report/why_text.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::detail {

// report.html: the data of the requests' time by cause, for report/pages/why.js.
void write_time(JsonWriter& json, const TimeReport& time);

// The common shell and data of the result pages of comparisons, grids, capacities and explorations.

/// Returns one cell of a page's facts; empty if the text is empty.
[[nodiscard]] std::string html_fact(std::string_view label, std::string_view text);

/// Starts every page's data, as report/pages/systems.js reads it: an open object with its first keys.
void begin_page_data(JsonWriter& json, std::string_view kind, const WorkloadReport& workload);

/// Starts a row of `systems`: an open object.
void begin_page_row(JsonWriter& json, std::string_view name, bool deposit, bool control, double slo_scale);

inline constexpr std::string_view simulated_unless_told = "Simulated unless a fact above says otherwise.";

/// The parts that differ between result pages. `facts`, `sections` and `data` are HTML and JSON, the others plain text.
struct HtmlPage {
  std::string title, heading, under; ///< the browser's tab, the page's heading, the line below
  std::string facts;                 ///< made of `html_fact`
  std::string command;               ///< repeats the results; empty: unknown
  std::string sections;              ///< of report/pages/<kind>.html
  std::string data;
  std::span<const std::string_view> script; ///< the modules that draw the data
  std::string_view simulated = simulated_unless_told;
};

[[nodiscard]] std::string html_page(const HtmlPage& page, const WorkloadReport& workload, const MadeBy& made_by);

inline constexpr int plot_digits = 6; ///< for times within one iteration, so that adjacent slices stay adjacent
inline constexpr int curve_digits = 4;

/// Returns whether the metric is a wall time. Wall times differ between equal runs, so the page omits them: equal runs
/// give equal pages.
[[nodiscard]] inline bool is_wall_time(std::string_view name) { return name.find("_wall_") != std::string_view::npos; }

inline void write_curve(JsonWriter& json, std::string_view name, const std::vector<CdfPoint>& curve) {
  json.key(name).begin_array();
  for (const CdfPoint& point : curve)
    json.begin_array().rounded(point.value, curve_digits + 1).rounded(point.fraction, curve_digits + 1).end_array();
  json.end_array();
}

/// Writes the series as columns. Blocks become bytes if their size is known.
inline void write_series(JsonWriter& json, const Series::State& series) {
  const bool in_bytes = series.layer_block_bytes.count() > 0;
  const double unit = in_bytes ? static_cast<double>(series.layer_block_bytes.count()) : 1;
  std::size_t last = series.buckets.size();
  while (last > 0 && series.buckets[last - 1].empty()) --last;
  const auto column = [&](std::string_view name, auto value) {
    json.key(name).begin_array();
    for (std::size_t i = 0; i < last; ++i)
      if (series.buckets[i].empty())
        json.null();
      else
        json.rounded(value(series.buckets[i]), curve_digits);
    json.end_array();
  };
  json.begin_object().field("in_bytes", in_bytes).key("start").rounded(series.start_s, plot_digits);
  json.key("end").rounded(series.start_s + static_cast<double>(last) * series.width_s, plot_digits);
  json.key("width").rounded(series.width_s, plot_digits);
  json.key("capacity").rounded(static_cast<double>(series.device_capacity.count()) * unit, plot_digits);
  json.key("t").begin_array();
  for (std::size_t i = 0; i < last; ++i)
    json.rounded(series.start_s + static_cast<double>(i) * series.width_s, plot_digits + 2);
  json.end_array();
  using Bucket = const SeriesBucket&;
  column("device", [&](Bucket b) { return unit * b.mean(b.device_used); });
  column("device_max", [&](Bucket b) { return unit * b.device_used.max; });
  column("host", [&](Bucket b) { return unit * b.host_used.max; });
  column("moved", [&](Bucket b) { return unit * b.moved_blocks; });
  column("running", [](Bucket b) { return b.mean(b.running); });
  column("waiting_max", [](Bucket b) { return b.waiting.max; });
  column("preempted_max", [](Bucket b) { return b.preempted.max; });
  column("stall", [](Bucket b) { return b.seconds > 0 ? b.stall_s / b.seconds : 0.0; });
  json.end_object();
}

inline void write_layers(JsonWriter& json, LayerSet layers) {
  json.begin_array();
  layers.for_each([&](int layer) { json.value(layer); });
  json.end_array();
}

inline void write_iteration(JsonWriter& json, const RecordedIteration& it) {
  if (it.empty()) {
    json.null();
    return;
  }
  json.begin_object().field("step", it.step).key("start").rounded(it.start_s, plot_digits);
  json.key("duration").rounded(it.duration_s, plot_digits).key("stall").rounded(it.stall_s, plot_digits);
  json.field("decodes", it.decodes).field("tokens", it.tokens).field("layers", it.layers);
  json.field("binding", name_of(it.binding)).key("compute").begin_array();
  for (const LayerSlice& layer : it.layer_slices) {
    json.begin_array().value(layer.layer).rounded(layer.start_s, plot_digits).rounded(layer.end_s, plot_digits);
    json.rounded(layer.stall_s, plot_digits).value(to_string(layer.cause)).end_array();
  }
  json.end_array().key("transfers").begin_array();
  for (const TransferSlice& transfer : it.transfers) {
    const RequestId* owner = it.owner_of(transfer);
    json.begin_array();
    if (owner != nullptr)
      json.value(index(*owner));
    else
      json.value(it.of_weights(transfer) ? "weights" : "all");
    json.value(transfer.layer).rounded(transfer.start_s, plot_digits);
    json.rounded(transfer.end_s, plot_digits).end_array();
  }
  json.end_array().key("placed").begin_array();
  for (const PlacedRequest& request : it.placed) {
    json.begin_array().value(index(request.id));
    write_layers(json, request.host);
    write_layers(json, request.nowhere);
    json.end_array();
  }
  json.end_array().end_object();
}

/// Returns every number of a row that the page draws, with its interval over several seeds. Means of counts are not
/// rounded (3.67 preemptions).
inline std::vector<std::pair<std::string_view, Interval>> drawn_numbers(const SystemReport& row) {
  std::vector<std::string_view> names;
  std::vector<std::vector<double>> columns;
  const auto add = [&](const Metrics& metrics) {
    std::size_t at = 0;
    for_each_metric(metrics, [&](std::string_view name, auto number) {
      if (is_wall_time(name)) return;
      if (at == columns.size()) columns.emplace_back(), names.push_back(name);
      columns[at++].push_back(static_cast<double>(number));
    });
  };
  if (row.per_seed.empty()) add(row.metrics);
  for (const Metrics& metrics : row.per_seed) add(metrics);
  std::vector<std::pair<std::string_view, Interval>> numbers;
  for (std::size_t c = 0; c < columns.size(); ++c)
    numbers.emplace_back(names[c], metric_interval(names[c], columns[c], row.windows));
  return numbers;
}

/// If there are several seeds, writes each seed's figures, the intervals of their means, and the row's differences from
/// its block's reference row.
inline void write_seed_plot(JsonWriter& json, const SystemReport& row, const ReportBlock& block,
                            const std::string& baseline) {
  const auto numbers = [&](std::string_view name, const std::vector<double>& all) {
    json.key(name).begin_array();
    for (const double number : all) json.rounded(number, plot_digits);
    json.end_array();
  };
  json.key("each").begin_object();
  for (const JudgedFigure& by : judged_figures)
    numbers(by.key, seed_values(row, [&](const Metrics& metrics) { return metrics.*by.figure; }));
  json.end_object().key("interval").begin_object();
  for (const auto& [name, of] : drawn_numbers(row)) numbers(name, {of.least, of.most});
  json.end_object();
  const SystemReport* reference = rival_of(block, row, baseline);
  if (reference == nullptr) return;
  json.key("pairs").begin_object().field("against", reference->name);
  for (const JudgedFigure& by : judged_figures) {
    const Paired of = judged(row, *reference, by);
    const double scale = judged_scale(by, row, *reference);
    json.key(by.key).begin_object().key("mean").rounded(scale * of.difference.mean, plot_digits);
    numbers("interval", {scale * of.difference.least, scale * of.difference.most});
    const auto [own, other] = judged_values(row, *reference, by);
    std::vector<double> differences;
    for (std::size_t i = 0; i < own.size(); ++i) differences.push_back(scale * (own[i] - other[i]));
    numbers("each", differences);
    json.field("tie", of.tie()).field("judged", verdict_of(of, by.less)).end_object();
  }
  json.end_object();
}

/// Returns the text of the page's data element.
[[nodiscard]] inline std::string html_data(const ComparisonReport& report) {
  std::string text;
  JsonWriter json(text, true);
  begin_page_data(json, "comparison", report.workload);
  json.key("causes").begin_array();
  for (const CauseGroup& group : cause_groups) json.value(group.name);
  json.end_array().line().key("systems").begin_array();
  const std::vector<ReportBlock> blocks = blocks_of(report);
  for (const SystemReport& system : report.systems) {
    const auto block = std::find_if(blocks.begin(), blocks.end(), [&](const ReportBlock& b) {
      return b.deposit == system.deposit && b.slo_scale == system.slo_scale;
    });
    const SystemReport* original = original_of(*block, system);
    begin_page_row(json, system.name, system.deposit, system.control, system.slo_scale);
    json.key("slo")
        .rounded(system.slo_tbt_s, 6)
        .key("slo_ttft")
        .rounded(system.slo_ttft_s, 6)
        .field("same", original != nullptr ? original->name : "");
    json.field("livelocked", !system.livelock.empty()).field("oracle", system.oracle);
    if (system.per_seed.size() > 1) write_seed_plot(json, system, *block, report.baseline);
    json.key("m").begin_object();
    for (const auto& [name, of] : drawn_numbers(system)) json.key(name).rounded(of.mean, plot_digits);
    json.end_object().key("cdf").begin_object();
    write_curve(json, "ttft", system.ttft_cdf);
    write_curve(json, "tbt", system.tbt_cdf);
    write_curve(json, "e2e", system.e2e_cdf);
    json.end_object().key("series");
    write_series(json, system.series);
    json.key("iteration");
    write_iteration(json, system.iteration);
    json.key("time");
    write_time(json, system.time);
    json.end_object();
  }
  json.line().end_array().end_object();
  return text;
}

} // namespace sluice::detail

#ifndef SLUICE_REPORT_COMPILED
#include "sluice/report/html_data.inl.hpp"
#endif
