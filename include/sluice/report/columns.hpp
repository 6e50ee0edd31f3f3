// SPDX-License-Identifier: Apache-2.0
// MetricColumn: what every table calls a metric, and how it writes it. Tables name their columns by the metrics' keys.
#pragma once

#include "sluice/report/number_text.hpp"
#include "sluice/report/observer/metrics.hpp"

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace sluice {

/// How a table writes a metric. Metrics are in seconds, bytes and shares of 1; tables show times in seconds or
/// milliseconds, gigabytes, and percentages.
enum class MetricUnit { share, seconds, milliseconds, gigabytes, number, count };

using NumberText = std::string (*)(double);

/// Returns the function that writes a number of this unit. `means`: counts are means over seeds and may be fractions.
[[nodiscard]] constexpr NumberText number_text(MetricUnit unit, bool means = false) {
  switch (unit) {
  case MetricUnit::share:
    return percent_text;
  case MetricUnit::milliseconds:
    return milliseconds_text;
  case MetricUnit::gigabytes:
    return [](double bytes) { return short_text(bytes / 1e9); };
  case MetricUnit::count:
    if (!means) return [](double count) { return fixed_text(count, 0); };
    [[fallthrough]];
  case MetricUnit::seconds:
  case MetricUnit::number:
    break;
  }
  return short_text;
}

struct MetricColumn {
  std::string_view key;    ///< the metric's name in report.json
  std::string_view choice; ///< its name in `sluice-compare --columns`; empty: not there
  std::string_view title;  ///< in one line, without the unit of `one_line_head`
  MetricUnit unit;
  std::string_view group{}, head{}; ///< in two lines, of wide tables; equal neighbours share the group
  bool leaves_out = false;          ///< leaves out refused and unfinished requests, so that tables say how many

  /// Returns a run's number; NaN if the key is no metric's.
  [[nodiscard]] constexpr double operator()(const Metrics& metrics) const {
    double number = Metrics::absent;
    for_each_metric(metrics, [&](std::string_view name, auto value) {
      if (name == key) number = static_cast<double>(value);
    });
    return number;
  }
  /// "P99 TBT, ms". `percent`: "stall, %", where nothing else says that shares are percentages.
  [[nodiscard]] std::string one_line_head(bool percent = false) const {
    return std::string{title} + (unit == MetricUnit::seconds            ? ", s"
                                 : unit == MetricUnit::milliseconds     ? ", ms"
                                 : unit == MetricUnit::share && percent ? ", %"
                                                                        : "");
  }
};

/// Every metric that a table shows, in the order of `--columns`.
inline constexpr auto metric_columns = [] {
  using enum MetricUnit;
  return std::to_array<MetricColumn>({
      {"tbt_attainment", "tbt", "TBT", share, "attainment, %", "TBT"},
      {"per_token_attainment", "per-token", "per token", share, "attainment, %", "per token"},
      {"tpot_attainment", "tpot", "TPOT", share, "attainment, %", "TPOT"},
      {"ttft_attainment", "ttft", "TTFT", share, "attainment, %", "TTFT"},
      {"slo_attainment", "slo-met", "SLO", share, "attainment, %", "SLO"},
      {"mean_tbt_s", "mean-tbt", "mean TBT", milliseconds, "TBT, ms", "mean"},
      {"p50_tbt_s", "p50-tbt", "P50 TBT", milliseconds, "TBT, ms", "P50"},
      {"p95_tbt_s", "p95-tbt", "P95 TBT", milliseconds, "TBT, ms", "P95"},
      {"p99_tbt_s", "p99-tbt", "P99 TBT", milliseconds, "TBT, ms", "P99"},
      {"mean_tpot_s", "mean-tpot", "mean TPOT", milliseconds, "TPOT, ms", "mean"},
      {"p50_tpot_s", "", "P50 TPOT", milliseconds, "TPOT, ms", "P50"},
      {"p95_tpot_s", "p95-tpot", "P95 TPOT", milliseconds, "TPOT, ms", "P95"},
      {"p99_tpot_s", "p99-tpot", "P99 TPOT", milliseconds, "TPOT, ms", "P99"},
      {"mean_ttft_s", "mean-ttft", "mean TTFT", seconds, "TTFT, s", "mean", true},
      {"p50_ttft_s", "p50-ttft", "P50 TTFT", seconds, "TTFT, s", "P50"},
      {"p95_ttft_s", "p95-ttft", "P95 TTFT", seconds, "TTFT, s", "P95"},
      {"p99_ttft_s", "p99-ttft", "P99 TTFT", seconds, "TTFT, s", "P99", true},
      {"mean_e2e_s", "e2e", "mean E2E", seconds, "E2E, s", "mean", true},
      {"p99_e2e_s", "", "P99 E2E", seconds, "E2E, s", "P99", true},
      {"longest_gap_s", "gap", "longest gap", seconds, "longest", "gap, s"},
      {"mean_e2e_all_s", "e2e-all", "mean E2E of all", seconds, "E2E of all, s", "mean"},
      {"longest_gap_all_s", "gap-all", "longest gap of all", seconds, "longest of all", "gap, s"},
      {"mean_job_s", "job", "mean job", seconds},
      {"p95_job_s", "p95-job", "P95 job", seconds},
      {"sessions_served", "jobs", "jobs served", count},
      {"mean_ttft_first_turn_s", "ttft-first", "mean TTFT of first turns", seconds},
      {"mean_ttft_later_turns_s", "ttft-later", "mean TTFT of later turns", seconds},
      {"p99_ttft_later_turns_s", "p99-ttft-later", "P99 TTFT of later turns", seconds},
      {"found_share", "found", "found", share},
      {"fetched_share", "found-lower", "in lower tiers", share},
      {"findable_share", "found-possible", "possible to find", share},
      {"throughput_tokens_per_s", "tokens", "tokens/s", number, "throughput", "tok/s"},
      {"throughput_requests_per_min", "requests", "requests/min", number, "throughput", "req/min"},
      {"goodput_requests_per_s", "goodput", "goodput, requests/s", number, "goodput", "req/s"},
      {"stall_share", "stall", "stall", share, "stall", "%"},
      {"hosted_share", "hosted", "decodes on the host", share},
      {"times_preempted", "preempted", "preempted", count, "times", "preempted"},
      {"served", "served", "served", count, "requests", "served"},
      {"refused", "refused", "refused", count, "requests", "refused"},
      {"unfinished", "", "left", count, "requests", "left"},
      {"left_out_tokens_share", "left-out-tokens", "prompt tokens left out", share, "left out", "tokens, %"},
      {"queue_grows", "grows", "queue grows", share},
      {"bytes_to_device", "gb-in", "GB in", gigabytes, "moved, GB", "in"},
      {"bytes_to_host", "gb-out", "GB out", gigabytes, "moved, GB", "out"},
      {"device_peak_share", "device-peak", "KV peak", share, "device KV, %", "peak"},
      {"device_mean_share", "device-mean", "KV mean", share, "device KV, %", "mean"},
      {"host_peak_bytes", "", "host KV peak, GB", gigabytes, "host KV, GB", "peak"},
      {"plans", "plans", "plans", count, "planning", "plans"},
      {"planning_s", "", "planning", milliseconds, "planning", "ms"},
      {"planning_p99_us", "", "P99 plan, µs", number, "planning", "P99 µs"},
      {"iterations", "iterations", "iterations", count},
  });
}();

namespace detail {
inline void no_column_has_this_key() {} // not constexpr, so that a compiler names it for a misspelt key
} // namespace detail

/// Returns a metric's column. A key that no column has does not compile.
[[nodiscard]] consteval MetricColumn metric_column(std::string_view key) {
  for (const MetricColumn& column : metric_columns)
    if (column.key == key) return column;
  detail::no_column_has_this_key();
  return {};
}
/// The same under a title, or two heads, of a table's own.
[[nodiscard]] consteval MetricColumn metric_column(std::string_view key, std::string_view title) {
  MetricColumn column = metric_column(key);
  column.title = title;
  return column;
}
[[nodiscard]] consteval MetricColumn metric_column(std::string_view key, std::string_view group,
                                                   std::string_view head) {
  MetricColumn column = metric_column(key);
  column.group = group, column.head = head;
  return column;
}
[[nodiscard]] consteval MetricColumn metric_column(const MetricColumn& column) { return column; }

/// Returns the columns of a table, each by its key or a `metric_column`.
template <class... Keys>
[[nodiscard]] consteval std::array<MetricColumn, sizeof...(Keys)> columns_of(const Keys&... keys) {
  return {metric_column(keys)...};
}

} // namespace sluice
