// SPDX-License-Identifier: Apache-2.0
// The tables of a comparison as CSV: a row a request, an iteration, a stretch of time, a run (docs/results.md).
#pragma once

#include "sluice/observer/measure.hpp"
#include "sluice/observer/series.hpp"
#include "sluice/observer/timeline.hpp"
#include "sluice/report/csv.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace sluice {

/// Which run a row is of: the first columns of every table.
struct CsvRun {
  std::string system, tenant{};
  bool deposit = false;
  double slo_scale = 1;
  std::uint64_t seed = 1;
};

inline constexpr std::array<CsvColumn, 5> csv_run_columns{{
    {"system", "string", "", "the system's name"},
    {"tenant", "string", "", "of several models in one simulation, which; empty: of all together, or there is one"},
    {"deposit", "boolean", "", "whether tokens went through a deposit"},
    {"slo_scale", "number", "", "the SLO between tokens, in multiples of the base SLO"},
    {"seed", "integer", "", "of the workload"},
}};

inline constexpr std::array<CsvColumn, 22> csv_request_columns{{
    {"request", "integer", "", "its number, from 0, in the order of arrival"},
    {"arrival_s", "number", "s", "on the run's clock"},
    {"prompt_tokens", "integer", "tokens", "of its prompt"},
    {"output_tokens", "integer", "tokens", "it is owed"},
    {"delivered_tokens", "integer", "tokens", "its user got"},
    {"outcome", "string", "", "served, refused, cancelled or unfinished"},
    {"reason", "string", "", "of a refusal"},
    {"first_token_s", "number", "s", "delivery of the first token, on the run's clock"},
    {"last_token_s", "number", "s", "delivery of the last"},
    {"ttft_s", "number", "s", "arrival to first token"},
    {"tpot_s", "number", "s", "first to last token, over the tokens between; of a served request of two or more"},
    {"e2e_s", "number", "s", "arrival to last token; of a served request"},
    {"longest_gap_s", "number", "s", "between two deliveries"},
    {"slo_ttft_s", "number", "s", "promised to the first token; empty: not promised"},
    {"slo_tbt_s", "number", "s", "promised between tokens; empty: not promised"},
    {"tokens_on_time", "integer", "tokens", "that followed another within the SLO"},
    {"tokens_late", "integer", "tokens", "that did not, or never came"},
    {"deadlines_missed", "integer", "", "as TBT attainment counts them"},
    {"met_ttft", "boolean", "", "whether the first promise was kept; empty: none was made"},
    {"met_tpot", "boolean", "", "the same of the other, over the whole request"},
    {"met_slo", "boolean", "", "whether all that was promised was kept"},
    {"times_preempted", "integer", "", "how often it had to give way"},
}};

/// A row for each request. The same rules as the figures of a run (observer/measure.hpp), by the same code: the sums
/// over a run's rows are that run's figures.
inline void append_requests(std::string& out, const CsvRun& run, const Summary::State& state, Seconds end);

inline constexpr std::array<CsvColumn, 19> csv_iteration_columns{{
    {"step", "integer", "", "the iteration's number"},
    {"start_s", "number", "s", "on the run's clock"},
    {"duration_s", "number", "s", "start to end"},
    {"stall_s", "number", "s", "of it, computation waited for a transfer"},
    {"planning_wait_s", "number", "s", "of it, waited for the planner"},
    {"batch", "integer", "requests", "that computed"},
    {"decodes", "integer", "requests", "of them, those that decode"},
    {"tokens", "integer", "tokens", "computed"},
    {"running", "integer", "requests", "that hold device memory as part of the batch"},
    {"waiting", "integer", "requests", "that wait for their start"},
    {"preempted", "integer", "requests", "that were put aside"},
    {"device_used_bytes", "integer", "bytes", "KV resident on the device"},
    {"device_capacity_bytes", "integer", "bytes", "room for KV on the device"},
    {"in_flight_bytes", "integer", "bytes", "device room that transfers could use"},
    {"host_used_bytes", "integer", "bytes", "KV on the host"},
    {"to_device_bytes", "integer", "bytes", "KV moved to the device"},
    {"to_host_bytes", "integer", "bytes", "KV moved to the host"},
    {"weights_bytes", "integer", "bytes", "weights streamed to the device"},
    {"repeated", "boolean", "", "whether the last decision ran again, as no other was ready"},
}};

/// A row for each iteration that the timeline keeps.
inline void append_iterations(std::string& out, const CsvRun& run, const Timeline::State& state);

inline constexpr std::array<CsvColumn, 20> csv_series_columns{{
    {"time_s", "number", "s", "the stretch's begin, on the run's clock"},
    {"width_s", "number", "s", "its length"},
    {"busy_s", "number", "s", "of it, iterations ran"},
    {"stall_s", "number", "s", "of it, computation waited for a transfer"},
    {"moved_bytes", "number", "bytes", "KV moved, both ways"},
    {"running_mean", "number", "requests", "that hold device memory, over the busy time"},
    {"running_max", "number", "requests", "at most"},
    {"waiting_mean", "number", "requests", "that wait for their start, over the busy time"},
    {"waiting_max", "number", "requests", "at most"},
    {"preempted_mean", "number", "requests", "that were put aside, over the busy time"},
    {"preempted_max", "number", "requests", "at most"},
    {"device_used_min_bytes", "number", "bytes", "KV resident on the device, at least"},
    {"device_used_mean_bytes", "number", "bytes", "over the busy time"},
    {"device_used_max_bytes", "number", "bytes", "at most"},
    {"device_capacity_bytes", "number", "bytes", "room for KV on the device"},
    {"in_flight_mean_bytes", "number", "bytes", "device room that transfers could use, over the busy time"},
    {"in_flight_max_bytes", "number", "bytes", "at most"},
    {"host_used_mean_bytes", "number", "bytes", "KV on the host, over the busy time"},
    {"host_used_max_bytes", "number", "bytes", "at most"},
    {"iterations", "integer", "", "that ran in it, those in part included"},
}};

inline void append_series(std::string& out, const CsvRun& run, const Series::State& state);

/// Of a run's figures; behind these stand the metrics (`csv_figure_columns`).
inline constexpr std::array<CsvColumn, 4> csv_system_columns{{
    {"transfer", "string", "", "the transfer rule"},
    {"slo_ttft_s", "number", "s", "promised to the first token; empty: not promised"},
    {"slo_tbt_s", "number", "s", "promised between tokens; empty: not promised"},
    {"livelock", "string", "", "why the run was ended before its requests; empty: it was not"},
}};

/// These and the metrics, by the names of `for_each_metric`: their units are in their names, their meanings in
/// docs/metrics.md. Wall times differ from run to run: they are left out.
[[nodiscard]] inline std::vector<CsvColumn> csv_figure_columns();

namespace detail {

inline bool is_csv_figure(std::string_view metric) { return metric.find("_wall_") == std::string_view::npos; }

inline void cells(CsvRow& row, const CsvRun& run) {
  row.cell(run.system);
  row.cell(run.tenant);
  row.cell(run.deposit);
  row.cell(run.slo_scale);
  row.cell(run.seed);
}
inline constexpr std::string_view outcome_name(Outcome outcome) {
  switch (outcome) {
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

} // namespace detail

inline void append_requests(std::string& out, const CsvRun& run, const Summary::State& state, Seconds end) {
  constexpr double none = Metrics::absent;
  for (std::size_t id = 0; id < state.requests.size(); ++id) {
    const RequestRecord& request = state.requests[id];
    if (!request.known) continue;
    Metrics own;
    detail::PromiseCounts kept;
    detail::count_request(request, end, own, kept);
    const bool started = request.started(), served = started && request.outcome == Outcome::served;
    CsvRow row(out);
    detail::cells(row, run);
    row.cell(id);
    row.cell(request.arrival.count());
    row.cell(request.prompt.count());
    row.cell(request.output.count());
    row.cell(request.delivered.count());
    row.cell(detail::outcome_name(request.outcome));
    row.cell(request.reason >= 0 ? std::string_view{state.reasons[static_cast<std::size_t>(request.reason)]}
                                 : std::string_view{});
    row.cell(started ? request.first.count() : none);
    row.cell(started ? request.last.count() : none);
    row.cell(started ? request.ttft().count() : none);
    row.cell(served && request.delivered.count() > 1 ? request.tpot().count() : none);
    row.cell(served ? request.e2e().count() : none);
    row.cell(request.delivered.count() > 1 ? request.longest_gap.count() : none);
    row.cell(request.slo_ttft.count());
    row.cell(request.slo_tbt.count());
    row.cell(own.tokens_on_time);
    row.cell(own.tokens_late);
    row.cell(own.deadlines_missed);
    const auto promise = [&](std::int64_t owed, std::int64_t met) { owed > 0 ? row.cell(met > 0) : row.none(); };
    promise(kept.owed_ttft, kept.met_ttft);
    promise(kept.owed_tpot, kept.met_tpot);
    promise(kept.owed_both, kept.met_both);
    row.cell(request.times_preempted);
  }
}

inline void append_iterations(std::string& out, const CsvRun& run, const Timeline::State& state) {
  const auto bytes = [&](LayerBlocks blocks) { return blocks.count() * state.layer_block_bytes.count(); };
  for (const Timeline::Iteration& it : state.iterations) {
    CsvRow row(out);
    detail::cells(row, run);
    row.cell(it.step);
    for (const Seconds time : {it.start, it.duration, it.stall, it.planning}) row.cell(time.count());
    for (const std::int64_t count : {it.batch, it.decodes, it.tokens, it.running, it.waiting, it.preempted})
      row.cell(count);
    for (const LayerBlocks blocks :
         {it.device_used, it.device_capacity, it.in_flight, it.host_used, it.to_device, it.to_host})
      row.cell(bytes(blocks));
    row.cell(it.weights.count());
    row.cell(it.repeated);
  }
}

inline void append_series(std::string& out, const CsvRun& run, const Series::State& state) {
  const auto unit = static_cast<double>(state.layer_block_bytes.count());
  std::size_t last = state.buckets.size();
  while (last > 0 && state.buckets[last - 1].empty()) --last;
  for (std::size_t i = 0; i < last; ++i) {
    const SeriesBucket& of = state.buckets[i];
    const auto mean = [&](const SeriesRange& range) { return of.empty() ? Metrics::absent : of.mean(range); };
    CsvRow row(out);
    detail::cells(row, run);
    row.cell(state.start_s + static_cast<double>(i) * state.width_s);
    for (const double value : {state.width_s, of.seconds, of.stall_s, unit * of.moved_blocks, mean(of.running),
                               of.running.max, mean(of.waiting), of.waiting.max, mean(of.preempted), of.preempted.max,
                               unit * of.device_used.min, unit * mean(of.device_used), unit * of.device_used.max,
                               unit * static_cast<double>(state.device_capacity.count()), unit * mean(of.in_flight),
                               unit * of.in_flight.max, unit * mean(of.host_used), unit * of.host_used.max})
      row.cell(value);
    row.cell(of.samples);
  }
}

[[nodiscard]] inline std::vector<CsvColumn> csv_figure_columns() {
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

/// What the cells of those columns are, behind the cells of a run.
struct CsvFigures {
  std::string_view transfer;
  Seconds slo_ttft, slo_tbt;
  std::string_view livelock;
};

namespace detail {

inline void cells(CsvRow& row, const CsvFigures& of, const Metrics& metrics) {
  row.cell(of.transfer);
  row.cell(of.slo_ttft.count());
  row.cell(of.slo_tbt.count());
  row.cell(of.livelock);
  for_each_metric(metrics, [&](std::string_view name, auto number) {
    if (is_csv_figure(name)) row.cell(number);
  });
}

} // namespace detail

/// One run's figures.
inline void append_system(std::string& out, const CsvRun& run, const CsvFigures& of, const Metrics& metrics) {
  CsvRow row(out);
  detail::cells(row, run);
  detail::cells(row, of, metrics);
}

} // namespace sluice
