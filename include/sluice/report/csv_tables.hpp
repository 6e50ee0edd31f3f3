// SPDX-License-Identifier: Apache-2.0
// Writes the tables of a comparison as CSV, with a row per request, iteration, stretch of time or run
// (docs/results.md).
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/report/csv.hpp"
#include "sluice/report/observer/measure.hpp"
#include "sluice/report/observer/series.hpp"
#include "sluice/report/observer/timeline.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// The run of a row: the first columns of every table.
struct CsvRun {
  std::string system, tenant{};
  bool deposit = false;
  double slo_scale = 1;
  std::optional<std::uint64_t> seed = 1; ///< empty: as recorded
};

inline constexpr CsvColumnOf<CsvRun> csv_run_cells[] = {
    {"system", "", "the system's name", [](auto& of) { return std::string_view{of.system}; }},
    {"tenant", "", "of several models in one simulation, which; empty: of all together, or there is one",
     [](auto& of) { return std::string_view{of.tenant}; }},
    {"deposit", "", "whether tokens went through a deposit", [](auto& of) { return of.deposit; }},
    {"slo_scale", "", "the SLO between tokens, in multiples of the base SLO", [](auto& of) { return of.slo_scale; }},
    {"seed", "", "of the workload; empty: the trace as recorded, beside resampled ones",
     [](auto& of) { return of.seed; }},
};
inline constexpr auto csv_run_columns = csv_columns(csv_run_cells);

/// A request of a run, as a row.
struct CsvRequest {
  static constexpr double none = Metrics::absent;

  std::size_t id;
  const RequestRecord& request;
  std::string_view reason;
  const Metrics& own;
  const detail::PromiseCounts& kept;

  [[nodiscard]] bool served() const { return request.started() && request.outcome == Outcome::served; }
  [[nodiscard]] double if_started(Seconds time) const { return request.started() ? time.count() : none; }
  [[nodiscard]] bool several() const { return request.delivered.count() > 1; }

  [[nodiscard]] std::string_view outcome() const;
  static std::optional<bool> met(std::int64_t owed, std::int64_t met);
};

inline constexpr CsvColumnOf<CsvRequest> csv_request_cells[] = {
    {"request", "", "its number, from 0, in the order of arrival", [](auto& of) { return of.id; }},
    {"arrival_s", "s", "on the run's clock", [](auto& of) { return of.request.arrival.count(); }},
    {"prompt_tokens", "tokens", "of its prompt", [](auto& of) { return of.request.prompt.count(); }},
    {"output_tokens", "tokens", "it is owed", [](auto& of) { return of.request.output.count(); }},
    {"delivered_tokens", "tokens", "its user got", [](auto& of) { return of.request.delivered.count(); }},
    {"outcome", "", "served, refused, cancelled or unfinished", [](auto& of) { return of.outcome(); }},
    {"reason", "", "of a refusal", [](auto& of) { return of.reason; }},
    {"first_token_s", "s", "delivery of the first token, on the run's clock",
     [](auto& of) { return of.if_started(of.request.first); }},
    {"last_token_s", "s", "delivery of the last", [](auto& of) { return of.if_started(of.request.last); }},
    {"ttft_s", "s", "arrival to first token", [](auto& of) { return of.if_started(of.request.ttft()); }},
    {"tpot_s", "s", "first to last token, over the tokens between; of a served request of two or more",
     [](auto& of) { return of.served() && of.several() ? of.request.tpot().count() : of.none; }},
    {"e2e_s", "s", "arrival to last token; of a served request",
     [](auto& of) { return of.served() ? of.request.e2e().count() : of.none; }},
    {"longest_gap_s", "s", "between two deliveries",
     [](auto& of) { return of.several() ? of.request.longest_gap.count() : of.none; }},
    {"slo_ttft_s", "s", "promised to the first token; empty: not promised",
     [](auto& of) { return of.request.slo_ttft.count(); }},
    {"slo_tbt_s", "s", "promised between tokens; empty: not promised",
     [](auto& of) { return of.request.slo_tbt.count(); }},
    {"priority", "", "the lowest is served first, by systems that use it",
     [](auto& of) { return of.request.priority; }},
    {"tokens_on_time", "tokens", "that followed another within the SLO",
     [](auto& of) { return of.own.tokens_on_time; }},
    {"tokens_late", "tokens", "that did not, or never came", [](auto& of) { return of.own.tokens_late; }},
    {"deadlines_missed", "", "as TBT attainment counts them", [](auto& of) { return of.own.deadlines_missed; }},
    {"met_ttft", "", "whether the first promise was kept; empty: none was made",
     [](auto& of) { return of.met(of.kept.owed_ttft, of.kept.met_ttft); }},
    {"met_tpot", "", "the same of the other, over the whole request",
     [](auto& of) { return of.met(of.kept.owed_tpot, of.kept.met_tpot); }},
    {"met_slo", "", "whether all that was promised was kept",
     [](auto& of) { return of.met(of.kept.owed_both, of.kept.met_both); }},
    {"times_preempted", "", "number of its preemptions", [](auto& of) { return of.request.times_preempted; }},
};
inline constexpr auto csv_request_columns = csv_columns(csv_request_cells);

/// Appends a row for each request. The same code computes a run's figures (report/observer/measure.hpp), so sums over a
/// run's rows equal its figures.
void append_requests(std::string& out, const CsvRun& run, const Summary::State& state, Seconds end);

/// A token that reached its user, as a row.
struct CsvToken {
  std::size_t request;
  std::int64_t token;
  Seconds when;
};

inline constexpr CsvColumnOf<CsvToken> csv_token_cells[] = {
    {"request", "", "its number, as in requests.csv", [](auto& of) { return of.request; }},
    {"token", "", "of the request's tokens, from 0", [](auto& of) { return of.token; }},
    {"time_s", "s", "its delivery, on the run's clock", [](auto& of) { return of.when.count(); }},
};
inline constexpr auto csv_token_columns = csv_columns(csv_token_cells);

void append_token(std::string& out, const CsvRun& run, const CsvToken& of);

/// An iteration of a run, as a row.
struct CsvIteration {
  const Timeline::Iteration& it;
  Bytes layer_block;

  [[nodiscard]] std::int64_t bytes(LayerBlocks blocks) const { return blocks.count() * layer_block.count(); }
};

inline constexpr CsvColumnOf<CsvIteration> csv_iteration_cells[] = {
    {"step", "", "the iteration's number", [](auto& of) { return of.it.step; }},
    {"start_s", "s", "on the run's clock", [](auto& of) { return of.it.start.count(); }},
    {"duration_s", "s", "start to end", [](auto& of) { return of.it.duration.count(); }},
    {"stall_s", "s", "of it, computation waited for a transfer", [](auto& of) { return of.it.stall.count(); }},
    {"planning_wait_s", "s", "of it, waited for the planner", [](auto& of) { return of.it.planning.count(); }},
    {"batch", "requests", "that computed", [](auto& of) { return of.it.batch; }},
    {"decodes", "requests", "of them, those that decode", [](auto& of) { return of.it.decodes; }},
    {"tokens", "tokens", "computed", [](auto& of) { return of.it.tokens; }},
    {"running", "requests", "that hold device memory as part of the batch", [](auto& of) { return of.it.running; }},
    {"waiting", "requests", "that wait for their start", [](auto& of) { return of.it.waiting; }},
    {"preempted", "requests", "preempted", [](auto& of) { return of.it.preempted; }},
    {"device_used_bytes", "bytes", "KV resident on the device", [](auto& of) { return of.bytes(of.it.device_used); }},
    {"device_capacity_bytes", "bytes", "room for KV on the device",
     [](auto& of) { return of.bytes(of.it.device_capacity); }},
    {"in_flight_bytes", "bytes", "device room that transfers could use",
     [](auto& of) { return of.bytes(of.it.in_flight); }},
    {"host_used_bytes", "bytes", "KV on the host", [](auto& of) { return of.bytes(of.it.host_used); }},
    {"to_device_bytes", "bytes", "KV moved to the device", [](auto& of) { return of.bytes(of.it.to_device); }},
    {"to_host_bytes", "bytes", "KV moved to the host", [](auto& of) { return of.bytes(of.it.to_host); }},
    {"weights_bytes", "bytes", "weights streamed to the device", [](auto& of) { return of.it.weights.count(); }},
    {"repeated", "", "whether the last decision ran again, as no other was ready",
     [](auto& of) { return of.it.repeated; }},
};
inline constexpr auto csv_iteration_columns = csv_columns(csv_iteration_cells);

/// Appends a row for each iteration that the timeline keeps.
void append_iterations(std::string& out, const CsvRun& run, const Timeline::State& state);

/// A stretch of time of a run, as a row. Means are weighted by busy time.
struct CsvStretch {
  const Series::State& state;
  std::size_t number;

  [[nodiscard]] const SeriesBucket& bucket() const { return state.buckets[number]; }
  [[nodiscard]] double start_s() const { return state.start_s + static_cast<double>(number) * state.width_s; }
  [[nodiscard]] double mean(const SeriesRange& range) const;
  [[nodiscard]] double bytes(double blocks) const;
  [[nodiscard]] double bytes(LayerBlocks blocks) const { return bytes(static_cast<double>(blocks.count())); }
  [[nodiscard]] double mean_bytes(const SeriesRange& range) const { return bytes(mean(range)); }
};

inline constexpr CsvColumnOf<CsvStretch> csv_series_cells[] = {
    {"time_s", "s", "the stretch's begin, on the run's clock", [](auto& of) { return of.start_s(); }},
    {"width_s", "s", "its length", [](auto& of) { return of.state.width_s; }},
    {"busy_s", "s", "of it, iterations ran", [](auto& of) { return of.bucket().seconds; }},
    {"stall_s", "s", "of it, computation waited for a transfer", [](auto& of) { return of.bucket().stall_s; }},
    {"moved_bytes", "bytes", "KV moved, both ways", [](auto& of) { return of.bytes(of.bucket().moved_blocks); }},
    {"running_mean", "requests", "that hold device memory, over the busy time",
     [](auto& of) { return of.mean(of.bucket().running); }},
    {"running_max", "requests", "at most", [](auto& of) { return of.bucket().running.max; }},
    {"waiting_mean", "requests", "that wait for their start, over the busy time",
     [](auto& of) { return of.mean(of.bucket().waiting); }},
    {"waiting_max", "requests", "at most", [](auto& of) { return of.bucket().waiting.max; }},
    {"preempted_mean", "requests", "preempted, averaged over the busy time",
     [](auto& of) { return of.mean(of.bucket().preempted); }},
    {"preempted_max", "requests", "at most", [](auto& of) { return of.bucket().preempted.max; }},
    {"device_used_min_bytes", "bytes", "KV resident on the device, at least",
     [](auto& of) { return of.bytes(of.bucket().device_used.min); }},
    {"device_used_mean_bytes", "bytes", "over the busy time",
     [](auto& of) { return of.mean_bytes(of.bucket().device_used); }},
    {"device_used_max_bytes", "bytes", "at most", [](auto& of) { return of.bytes(of.bucket().device_used.max); }},
    {"device_capacity_bytes", "bytes", "room for KV on the device",
     [](auto& of) { return of.bytes(of.state.device_capacity); }},
    {"in_flight_mean_bytes", "bytes", "device room that transfers could use, over the busy time",
     [](auto& of) { return of.mean_bytes(of.bucket().in_flight); }},
    {"in_flight_max_bytes", "bytes", "at most", [](auto& of) { return of.bytes(of.bucket().in_flight.max); }},
    {"host_used_mean_bytes", "bytes", "KV on the host, over the busy time",
     [](auto& of) { return of.mean_bytes(of.bucket().host_used); }},
    {"host_used_max_bytes", "bytes", "at most", [](auto& of) { return of.bytes(of.bucket().host_used.max); }},
    {"iterations", "", "that ran in it, those in part included", [](auto& of) { return of.bucket().samples; }},
};
inline constexpr auto csv_series_columns = csv_columns(csv_series_cells);

/// Appends a row for each stretch of time, up to the last one with iterations.
void append_series(std::string& out, const CsvRun& run, const Series::State& state);

/// A run's figures that are not metrics.
struct CsvFigures {
  std::string_view transfer;
  Seconds slo_ttft, slo_tbt;
  bool oracle;
  std::string_view livelock;
};

inline constexpr CsvColumnOf<CsvFigures> csv_system_cells[] = {
    {"transfer", "", "the transfer rule", [](auto& of) { return of.transfer; }},
    {"slo_ttft_s", "s", "promised to the first token; empty: not promised, or not the same to all requests",
     [](auto& of) { return of.slo_ttft.count(); }},
    {"slo_tbt_s", "s", "promised between tokens; empty: not promised, or not the same to all requests",
     [](auto& of) { return of.slo_tbt.count(); }},
    {"oracle", "", "whether the system knows how long each answer will be: it leads nothing",
     [](auto& of) { return of.oracle; }},
    {"livelock", "", "why the run was ended before its requests; empty: it was not",
     [](auto& of) { return of.livelock; }},
};
inline constexpr auto csv_system_columns = csv_columns(csv_system_cells);

/// Returns the columns above, followed by the metrics, which are named as in `for_each_metric`. A metric's name
/// contains its unit; docs/metrics.md defines it.
[[nodiscard]] std::vector<CsvColumn> csv_figure_columns();

/// Appends the cells of a run's figures, the metrics last.
void append_figures(CsvRow& row, const CsvFigures& of, const Metrics& metrics);

/// Appends one run's figures.
void append_system(std::string& out, const CsvRun& run, const CsvFigures& of, const Metrics& metrics);

} // namespace sluice

#ifndef SLUICE_REPORT_COMPILED
#include "sluice/report/csv_tables.inl.hpp"
#endif
