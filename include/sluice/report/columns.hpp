// SPDX-License-Identifier: Apache-2.0
// MetricColumn: what every table calls a metric, and how it writes it. Tables name their columns by the metrics' keys.
#pragma once

#include "sluice/report/number_text.hpp"
#include "sluice/report/observer/metrics.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
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

/// The fewest seeds, and windows of a trace, with which a table prints an interval of a metric's mean. With as many and
/// more, nominal 95 % covered 92 to 98 % for every system that was tried (bench/bench_coverage.cpp; docs/metrics.md has
/// the figures, and what was not measured). 0: no number is enough, or nobody has measured it.
struct LeastForInterval {
  std::uint8_t seeds = 0, windows = 0;
};

struct MetricColumn {
  std::string_view key;    ///< the metric's name in report.json
  std::string_view choice; ///< its name in `sluice-compare --columns`; empty: not there
  std::string_view title;  ///< in one line, without the unit of `one_line_head`
  MetricUnit unit;
  LeastForInterval interval{};
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
      {"tbt_attainment", "tbt", "TBT", share, {3, 0}, "attainment, %", "TBT"},
      {"per_token_attainment", "per-token", "per token", share, {0, 0}, "attainment, %", "per token"},
      {"tpot_attainment", "tpot", "TPOT", share, {0, 0}, "attainment, %", "TPOT"},
      {"ttft_attainment", "ttft", "TTFT", share, {3, 0}, "attainment, %", "TTFT"},
      {"slo_attainment", "slo-met", "SLO", share, {3, 0}, "attainment, %", "SLO"},
      {"mean_tbt_s", "mean-tbt", "mean TBT", milliseconds, {8, 0}, "TBT, ms", "mean"},
      {"p50_tbt_s", "p50-tbt", "P50 TBT", milliseconds, {8, 0}, "TBT, ms", "P50"},
      {"p95_tbt_s", "p95-tbt", "P95 TBT", milliseconds, {8, 0}, "TBT, ms", "P95"},
      {"p99_tbt_s", "p99-tbt", "P99 TBT", milliseconds, {0, 0}, "TBT, ms", "P99"},
      {"mean_tpot_s", "mean-tpot", "mean TPOT", milliseconds, {8, 0}, "TPOT, ms", "mean"},
      {"p50_tpot_s", "", "P50 TPOT", milliseconds, {0, 0}, "TPOT, ms", "P50"},
      {"p95_tpot_s", "p95-tpot", "P95 TPOT", milliseconds, {0, 0}, "TPOT, ms", "P95"},
      {"p99_tpot_s", "p99-tpot", "P99 TPOT", milliseconds, {0, 0}, "TPOT, ms", "P99"},
      {"mean_ttft_s", "mean-ttft", "mean TTFT", seconds, {8, 0}, "TTFT, s", "mean", true},
      {"p50_ttft_s", "p50-ttft", "P50 TTFT", seconds, {0, 0}, "TTFT, s", "P50"},
      {"p95_ttft_s", "p95-ttft", "P95 TTFT", seconds, {0, 0}, "TTFT, s", "P95"},
      {"p99_ttft_s", "p99-ttft", "P99 TTFT", seconds, {8, 0}, "TTFT, s", "P99", true},
      {"mean_e2e_s", "e2e", "mean E2E", seconds, {8, 0}, "E2E, s", "mean", true},
      {"p99_e2e_s", "", "P99 E2E", seconds, {8, 8}, "E2E, s", "P99", true},
      {"longest_gap_s", "gap", "longest gap", seconds, {0, 0}, "longest", "gap, s"},
      {"mean_e2e_all_s", "e2e-all", "mean E2E of all", seconds, {8, 0}, "E2E of all, s", "mean"},
      {"longest_gap_all_s", "gap-all", "longest gap of all", seconds, {0, 0}, "longest of all", "gap, s"},
      {"mean_job_s", "job", "mean job", seconds, {8, 0}},
      {"p95_job_s", "p95-job", "P95 job", seconds, {8, 0}},
      {"sessions_served", "jobs", "jobs served", count, {0, 0}},
      {"mean_ttft_first_turn_s", "ttft-first", "mean TTFT of first turns", seconds, {8, 0}},
      {"mean_ttft_later_turns_s", "ttft-later", "mean TTFT of later turns", seconds, {0, 0}},
      {"p99_ttft_later_turns_s", "p99-ttft-later", "P99 TTFT of later turns", seconds, {8, 0}},
      {"found_share", "found", "found", share, {8, 0}},
      {"fetched_share", "found-lower", "in lower tiers", share, {8, 0}},
      {"findable_share", "found-possible", "possible to find", share, {0, 0}},
      {"throughput_tokens_per_s", "tokens", "tokens/s", number, {3, 8}, "throughput", "tok/s"},
      {"throughput_requests_per_min", "requests", "requests/min", number, {3, 0}, "throughput", "req/min"},
      {"goodput_requests_per_s", "goodput", "goodput, requests/s", number, {3, 0}, "goodput", "req/s"},
      {"stall_share", "stall", "stall", share, {8, 8}, "stall", "%"},
      {"hosted_share", "hosted", "decodes on the host", share, {0, 0}},
      {"times_preempted", "preempted", "preempted", count, {8, 0}, "times", "preempted"},
      {"served", "served", "served", count, {8, 8}, "requests", "served"},
      {"refused", "refused", "refused", count, {8, 8}, "requests", "refused"},
      {"unfinished", "", "left", count, {8, 8}, "requests", "left"},
      {"left_out_tokens_share", "left-out-tokens", "prompt tokens left out", share, {8, 8}, "left out", "tokens, %"},
      {"queue_grows", "grows", "queue grows", share, {8, 8}},
      {"bytes_to_device", "gb-in", "GB in", gigabytes, {8, 8}, "moved, GB", "in"},
      {"bytes_to_host", "gb-out", "GB out", gigabytes, {3, 0}, "moved, GB", "out"},
      {"device_peak_share", "device-peak", "KV peak", share, {8, 0}, "device KV, %", "peak"},
      {"device_mean_share", "device-mean", "KV mean", share, {3, 8}, "device KV, %", "mean"},
      {"host_peak_bytes", "", "host KV peak, GB", gigabytes, {6, 8}, "host KV, GB", "peak"},
      {"plans", "plans", "plans", count, {8, 0}, "planning", "plans"},
      {"planning_s", "", "planning", milliseconds, {8, 8}, "planning", "ms"},
      {"planning_p99_us", "", "P99 plan, µs", number, {8, 8}, "planning", "P99 µs"},
      {"iterations", "iterations", "iterations", count, {5, 8}},
  });
}();

/// Returns whether a table prints an interval of a metric's mean over so many seeds, or windows of a trace. Never of a
/// metric without a column.
[[nodiscard]] constexpr bool has_interval(std::string_view metric, bool windows, std::size_t count) {
  for (const MetricColumn& column : metric_columns)
    if (column.key == metric) {
      const std::size_t least = windows ? column.interval.windows : column.interval.seeds;
      return least > 0 && count >= least;
    }
  return false;
}

/// Returns whether any metric has an interval over so many.
[[nodiscard]] constexpr bool some_interval(bool windows, std::size_t count) {
  for (const MetricColumn& column : metric_columns)
    if (has_interval(column.key, windows, count)) return true;
  return false;
}

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
