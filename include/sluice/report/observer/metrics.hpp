// SPDX-License-Identifier: Apache-2.0
// Metrics: every number of one run, under its name in report.json.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>

namespace sluice {

/// The numbers of one run (docs/metrics.md defines each). A number that does not exist, such as the P99 without gaps,
/// or an attainment without an SLO, is NaN; reports write it as null or as a dash.
///
/// Plain doubles and counts, with the unit in the name; the names are report.json's keys.
struct Metrics {
  static constexpr double absent = std::numeric_limits<double>::quiet_NaN();

  double tbt_attainment = absent; ///< of the tokens after the first ones: it does not count the wait
  double per_token_attainment = absent;
  double tpot_attainment = absent;
  double ttft_attainment = absent;
  double slo_attainment = absent; ///< share of requests that met both their TTFT and their TPOT SLO

  double mean_tbt_s = absent, p50_tbt_s = absent, p95_tbt_s = absent, p99_tbt_s = absent;
  double mean_ttft_s = absent, p50_ttft_s = absent, p95_ttft_s = absent, p99_ttft_s = absent;
  double mean_tpot_s = absent, p50_tpot_s = absent, p95_tpot_s = absent, p99_tpot_s = absent;
  double mean_e2e_s = absent, p50_e2e_s = absent, p95_e2e_s = absent, p99_e2e_s = absent;
  double longest_gap_s = absent;
  double mean_e2e_all_s = absent;    ///< of all requests except cancelled ones; refused and unfinished requests count
                                     ///< until the run's end
  double longest_gap_all_s = absent; ///< the same, including the wait of requests that never received a token

  double throughput_tokens_per_s = absent;
  double throughput_requests_per_min = absent;
  double goodput_requests_per_s = absent; ///< counts requests that met both SLOs
  double horizon_s = absent; ///< what goodput divides by if a horizon ends it; absent: it ends with the last delivery

  std::int64_t bytes_moved = 0; ///< in both directions
  std::int64_t bytes_to_device = 0;
  std::int64_t bytes_of_weights = 0; ///< the part of the bytes to the device that consists of streamed weights
  std::int64_t bytes_to_host = 0;
  std::int64_t blocks_to_device = 0; ///< layer blocks
  std::int64_t blocks_to_host = 0;
  double stall_share = absent;  ///< of the time that iterations took
  double hosted_share = absent; ///< of the decodes, those that the host attended
  double stall_s = 0;
  double busy_s = 0; ///< time that iterations took

  std::int64_t device_peak_bytes = 0; ///< resident KV
  double device_mean_bytes = absent;  ///< over the time that iterations took
  std::int64_t device_capacity_bytes = 0;
  double device_peak_share = absent; ///< of the KV capacity
  double device_mean_share = absent;
  std::int64_t host_peak_bytes = 0;

  std::int64_t plans = 0;
  double planning_s = 0;           ///< on the engine's clock: reproducible
  double planning_p99_us = absent; ///< of a single plan, on the same clock
  double planning_wall_s = 0;      ///< the planner's wall time on this machine
  double planning_wall_p99_us = absent;
  double planning_wait_s = 0; ///< time that iterations waited for the planner
  std::int64_t iterations = 0;
  std::int64_t repeated_iterations = 0; ///< no new decision was ready, so the last one ran again
  std::int64_t times_rebuilt = 0;       ///< requests of which an iteration rebuilt K and V, over all iterations

  std::int64_t requests = 0;
  std::int64_t served = 0;
  std::int64_t refused = 0;
  std::int64_t cancelled = 0; ///< cancelled by their users
  std::int64_t unfinished = 0;
  double left_out_tokens_share = absent; ///< of all prompt tokens, those of requests that were refused or left
  double queue_grows = absent;           ///< 1 if the requests in the system become more to the end (`queue_grows` in
                                         ///< measure.hpp), 0 if not; with several seeds the share of them
  std::int64_t times_preempted = 0;
  std::int64_t tokens_delivered = 0;
  std::int64_t tokens_on_time = 0;   ///< tokens that followed the previous one within the SLO
  std::int64_t tokens_late = 0;      ///< tokens that did not, or were never delivered; for per-token attainment
  std::int64_t deadlines_missed = 0; ///< for TBT attainment
  std::int64_t deadlines_missed_undelivered = 0; ///< part of these: for tokens that were never delivered
  double end_s = absent;                         ///< end of the run

  std::int64_t sessions = 0;
  std::int64_t sessions_served = 0; ///< sessions whose requests were all served
  double mean_job_s = absent, p50_job_s = absent, p95_job_s = absent, p99_job_s = absent; ///< of served sessions
  double mean_ttft_first_turn_s = absent, mean_ttft_later_turns_s = absent;
  double p99_ttft_first_turn_s = absent, p99_ttft_later_turns_s = absent;
  double found_share = absent;    ///< of the served requests' prompt tokens, the share whose KV was found
  double loaded_share = absent;   ///< the share loaded from the tier below the device
  double fetched_share = absent;  ///< the share of those tokens that a tier below the first had
  double findable_share = absent; ///< the largest share that memories of this size allow, if it was asked for
};

/// Whether JSON has the number: one that only few systems use is left out where it is 0 or absent, so that it changes
/// no report of the others.
constexpr bool in_json(std::string_view name, double number) {
  return (name != "times_rebuilt" && name != "hosted_share" && name != "horizon_s") || number > 0;
}

/// Calls `visit(name, number)` for every number, in the order of report.json. For non-const metrics, `number` is a
/// reference.
template <class AnyMetrics, class Visit>
  requires std::same_as<std::remove_cv_t<AnyMetrics>, Metrics>
constexpr void for_each_metric(AnyMetrics& m, Visit&& visit) {
  visit("tbt_attainment", m.tbt_attainment);
  visit("per_token_attainment", m.per_token_attainment);
  visit("tpot_attainment", m.tpot_attainment);
  visit("ttft_attainment", m.ttft_attainment);
  visit("slo_attainment", m.slo_attainment);
  visit("mean_tbt_s", m.mean_tbt_s);
  visit("p50_tbt_s", m.p50_tbt_s);
  visit("p95_tbt_s", m.p95_tbt_s);
  visit("p99_tbt_s", m.p99_tbt_s);
  visit("mean_ttft_s", m.mean_ttft_s);
  visit("p50_ttft_s", m.p50_ttft_s);
  visit("p95_ttft_s", m.p95_ttft_s);
  visit("p99_ttft_s", m.p99_ttft_s);
  visit("mean_tpot_s", m.mean_tpot_s);
  visit("p50_tpot_s", m.p50_tpot_s);
  visit("p95_tpot_s", m.p95_tpot_s);
  visit("p99_tpot_s", m.p99_tpot_s);
  visit("mean_e2e_s", m.mean_e2e_s);
  visit("p50_e2e_s", m.p50_e2e_s);
  visit("p95_e2e_s", m.p95_e2e_s);
  visit("p99_e2e_s", m.p99_e2e_s);
  visit("longest_gap_s", m.longest_gap_s);
  visit("throughput_tokens_per_s", m.throughput_tokens_per_s);
  visit("throughput_requests_per_min", m.throughput_requests_per_min);
  visit("goodput_requests_per_s", m.goodput_requests_per_s);
  visit("horizon_s", m.horizon_s);
  visit("bytes_moved", m.bytes_moved);
  visit("bytes_to_device", m.bytes_to_device);
  visit("bytes_of_weights", m.bytes_of_weights);
  visit("bytes_to_host", m.bytes_to_host);
  visit("blocks_to_device", m.blocks_to_device);
  visit("blocks_to_host", m.blocks_to_host);
  visit("stall_share", m.stall_share);
  visit("hosted_share", m.hosted_share);
  visit("stall_s", m.stall_s);
  visit("busy_s", m.busy_s);
  visit("device_peak_bytes", m.device_peak_bytes);
  visit("device_mean_bytes", m.device_mean_bytes);
  visit("device_capacity_bytes", m.device_capacity_bytes);
  visit("device_peak_share", m.device_peak_share);
  visit("device_mean_share", m.device_mean_share);
  visit("host_peak_bytes", m.host_peak_bytes);
  visit("plans", m.plans);
  visit("planning_s", m.planning_s);
  visit("planning_p99_us", m.planning_p99_us);
  visit("planning_wall_s", m.planning_wall_s);
  visit("planning_wall_p99_us", m.planning_wall_p99_us);
  visit("planning_wait_s", m.planning_wait_s);
  visit("iterations", m.iterations);
  visit("repeated_iterations", m.repeated_iterations);
  visit("requests", m.requests);
  visit("served", m.served);
  visit("refused", m.refused);
  visit("cancelled", m.cancelled);
  visit("unfinished", m.unfinished);
  visit("times_preempted", m.times_preempted);
  visit("tokens_delivered", m.tokens_delivered);
  visit("tokens_on_time", m.tokens_on_time);
  visit("tokens_late", m.tokens_late);
  visit("deadlines_missed", m.deadlines_missed);
  visit("deadlines_missed_undelivered", m.deadlines_missed_undelivered);
  visit("end_s", m.end_s);
  visit("sessions", m.sessions);
  visit("sessions_served", m.sessions_served);
  visit("mean_job_s", m.mean_job_s);
  visit("p50_job_s", m.p50_job_s);
  visit("p95_job_s", m.p95_job_s);
  visit("p99_job_s", m.p99_job_s);
  visit("mean_ttft_first_turn_s", m.mean_ttft_first_turn_s);
  visit("p99_ttft_first_turn_s", m.p99_ttft_first_turn_s);
  visit("mean_ttft_later_turns_s", m.mean_ttft_later_turns_s);
  visit("p99_ttft_later_turns_s", m.p99_ttft_later_turns_s);
  visit("found_share", m.found_share);
  visit("mean_e2e_all_s", m.mean_e2e_all_s);
  visit("longest_gap_all_s", m.longest_gap_all_s);
  visit("loaded_share", m.loaded_share);
  visit("fetched_share", m.fetched_share);
  visit("findable_share", m.findable_share);
  visit("times_rebuilt", m.times_rebuilt);
  visit("left_out_tokens_share", m.left_out_tokens_share);
  visit("queue_grows", m.queue_grows);
}

} // namespace sluice
