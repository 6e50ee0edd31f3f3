// SPDX-License-Identifier: Apache-2.0
// csv_tables: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/report/csv_tables.hpp"

#include <type_traits>

namespace sluice {

SLUICE_REPORT_INLINE std::string_view CsvRequest::outcome() const {
  switch (request.outcome) {
  case Outcome::served:
    return "served";
  case Outcome::refused:
    return "refused";
  case Outcome::cancelled:
    return "cancelled";
  default:
    return "unfinished";
  }
}

SLUICE_REPORT_INLINE std::optional<bool> CsvRequest::met(std::int64_t owed, std::int64_t met) {
  return owed > 0 ? std::optional{met > 0} : std::nullopt;
}

SLUICE_REPORT_INLINE void append_requests(std::string& out, const CsvRun& run, const Summary::State& state,
                                          Seconds end) {
  for (std::size_t id = 0; id < state.requests.size(); ++id) {
    const RequestRecord& request = state.requests[id];
    if (!request.known) continue;
    Metrics own;
    detail::PromiseCounts kept;
    detail::count_request(request, end, own, kept);
    const std::string_view reason =
        request.reason >= 0 ? std::string_view{state.reasons[static_cast<std::size_t>(request.reason)]} : "";
    CsvRow row(out);
    append_cells(row, csv_run_cells, run);
    append_cells(row, csv_request_cells, {id, request, reason, own, kept});
  }
}

SLUICE_REPORT_INLINE void append_token(std::string& out, const CsvRun& run, const CsvToken& of) {
  CsvRow row(out);
  append_cells(row, csv_run_cells, run);
  append_cells(row, csv_token_cells, of);
}

SLUICE_REPORT_INLINE void append_iterations(std::string& out, const CsvRun& run, const Timeline::State& state) {
  for (const Timeline::Iteration& it : state.iterations) {
    CsvRow row(out);
    append_cells(row, csv_run_cells, run);
    append_cells(row, csv_iteration_cells, {it, state.layer_block_bytes});
  }
}

SLUICE_REPORT_INLINE double CsvStretch::mean(const SeriesRange& range) const {
  return bucket().empty() ? Metrics::absent : bucket().mean(range);
}

SLUICE_REPORT_INLINE double CsvStretch::bytes(double blocks) const {
  return static_cast<double>(state.layer_block_bytes.count()) * blocks;
}

SLUICE_REPORT_INLINE void append_series(std::string& out, const CsvRun& run, const Series::State& state) {
  std::size_t last = state.buckets.size();
  while (last > 0 && state.buckets[last - 1].empty()) --last;
  for (std::size_t i = 0; i < last; ++i) {
    CsvRow row(out);
    append_cells(row, csv_run_cells, run);
    append_cells(row, csv_series_cells, {state, i});
  }
}

} // namespace sluice

namespace sluice::detail {

/// Wall times differ from run to run, so tables leave them out.
inline bool is_csv_figure(std::string_view metric) { return metric.find("_wall_") == std::string_view::npos; }

} // namespace sluice::detail

namespace sluice {

SLUICE_REPORT_INLINE std::vector<CsvColumn> csv_figure_columns() {
  std::vector<CsvColumn> columns(csv_system_columns.begin(), csv_system_columns.end());
  const Metrics named;
  for_each_metric(named, [&](std::string_view name, auto number) {
    if (!detail::is_csv_figure(name)) return;
    const bool whole = std::is_integral_v<decltype(number)>;
    const std::string_view unit = name.ends_with("_s")       ? "s"
                                  : name.ends_with("_us")    ? "us"
                                  : name.ends_with("_bytes") ? "bytes"
                                                             : "";
    columns.push_back({name, whole ? "integer" : "number", unit, "a figure of the run, defined in docs/metrics.md"});
  });
  return columns;
}

SLUICE_REPORT_INLINE void append_figures(CsvRow& row, const CsvFigures& of, const Metrics& metrics) {
  append_cells(row, csv_system_cells, of);
  for_each_metric(metrics, [&](std::string_view name, auto number) {
    if (detail::is_csv_figure(name)) row.cell(number);
  });
}

SLUICE_REPORT_INLINE void append_system(std::string& out, const CsvRun& run, const CsvFigures& of,
                                        const Metrics& metrics) {
  CsvRow row(out);
  append_cells(row, csv_run_cells, run);
  append_figures(row, of, metrics);
}

} // namespace sluice
