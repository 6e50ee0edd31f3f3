// SPDX-License-Identifier: Apache-2.0
// measure: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/report/observer/measure.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

namespace sluice {

SLUICE_INLINE LatencyDistributions latencies(const Summary::State& state) {
  std::vector<WeightedSample> ttft, tpot, e2e;
  ttft.reserve(state.requests.size());
  for (const RequestRecord& request : state.requests) {
    if (request.started()) ttft.push_back({request.ttft().count(), 1});
    if (request.outcome != Outcome::served || !request.started()) continue;
    e2e.push_back({request.e2e().count(), 1});
    if (request.delivered.count() > 1) tpot.push_back({request.tpot().count(), 1});
  }
  return {Distribution{std::move(ttft)}, Distribution{std::move(tpot)}, Distribution{std::move(e2e)},
          Distribution{state.gaps}};
}

SLUICE_INLINE double queue_grows(const Summary::State& state) {
  std::vector<Seconds> arrivals, ends;
  for (const RequestRecord& request : state.requests) {
    if (!request.known) continue;
    arrivals.push_back(request.arrival);
    if (request.outcome == Outcome::unfinished) continue;
    const bool has_end = request.started() || request.outcome == Outcome::cancelled;
    ends.push_back(has_end ? request.last : request.arrival);
  }
  return queue_grows(std::move(arrivals), std::move(ends));
}

SLUICE_INLINE double queue_grows(std::vector<Seconds> arrivals, std::vector<Seconds> ends) {
  if (arrivals.size() < least_for_growth) return Metrics::absent;
  std::sort(arrivals.begin(), arrivals.end());
  std::sort(ends.begin(), ends.end());
  if (ends.empty() || ends.front() >= arrivals.back()) return Metrics::absent; // a batch to work off: there is no rate
  std::array<double, 4> means{};
  std::size_t ended = 0;
  for (std::size_t i = 0; i < means.size(); ++i) {
    const std::size_t begin = arrivals.size() * i / means.size(), behind = arrivals.size() * (i + 1) / means.size();
    for (std::size_t k = begin; k < behind; ++k) {
      while (ended < ends.size() && ends[ended] <= arrivals[k]) ++ended;
      means[i] += static_cast<double>(k + 1 - std::min(ended, k + 1)) / static_cast<double>(behind - begin);
    }
  }
  const bool rises = means[0] < means[1] && means[1] < means[2] && means[2] < means[3];
  return rises && means[3] >= std::max(1.5 * means[1], means[1] + 2) ? 1 : 0;
}

} // namespace sluice

namespace sluice::detail {

/// Deadlines missed for tokens that never came. An unfinished request is owed a token per SLO until the end of the run,
/// counted from its last delivery, or from its TTFT deadline (without one, from its arrival). The user of a refused
/// request knows about the refusal and does not wait, so each undelivered token is one deadline. Rejected: counting
/// until the end for refused requests too. One request refused early in a long run would then outweigh all tokens of
/// the other requests.
inline std::int64_t undelivered_deadlines(const RequestRecord& request, Seconds end) {
  if (request.outcome == Outcome::refused)
    return std::isinf(request.slo_tbt.count()) ? 0 : (request.output - request.delivered).count();
  if (request.started()) return deadlines_passed(request.last, end, request.slo_tbt);
  const Seconds promise = std::isinf(request.slo_ttft.count()) ? Seconds{0} : request.slo_ttft;
  return deadlines_passed(request.arrival + promise, end, request.slo_tbt);
}

SLUICE_INLINE void count_request(const RequestRecord& request, Seconds end, Metrics& m, PromiseCounts& counts) {
  ++m.requests;
  // A cancelled request is owed nothing afterwards: only its delivered tokens count.
  const bool left = request.outcome == Outcome::cancelled;
  const bool whole = request.delivered >= request.output;
  m.served += request.outcome == Outcome::served ? 1 : 0;
  m.refused += request.outcome == Outcome::refused ? 1 : 0;
  m.cancelled += left ? 1 : 0;
  m.unfinished += request.outcome == Outcome::unfinished ? 1 : 0;
  m.times_preempted += request.times_preempted;
  m.tokens_delivered += request.delivered.count();

  // The first token of a request ends no gap: of n tokens, n - 1 have a deadline.
  const std::int64_t owed =
      (left ? std::max(request.delivered, Tokens{1}) : std::max(request.output, request.delivered)).count() - 1;
  m.tokens_on_time += request.on_time;
  m.tokens_late += owed - request.on_time;
  m.deadlines_missed += request.missed;
  if (!whole && !left) {
    const std::int64_t missed = undelivered_deadlines(request, end);
    m.deadlines_missed += missed;
    m.deadlines_missed_undelivered += missed;
  }

  const bool owes_ttft = !std::isinf(request.slo_ttft.count()), owes_tpot = !std::isinf(request.slo_tbt.count());
  const bool met_ttft = request.started() && on_time(request.ttft(), request.slo_ttft, request.first);
  if (owes_ttft && (request.started() || !left)) {
    ++counts.owed_ttft;
    counts.met_ttft += met_ttft ? 1 : 0;
  }
  counts.any_tbt = counts.any_tbt || owes_tpot;
  if (left) return;
  const bool met_tpot = whole && on_time(request.tpot(), request.slo_tbt, request.last);
  if (owes_tpot) {
    ++counts.owed_tpot;
    counts.met_tpot += met_tpot ? 1 : 0;
  }
  if (owes_ttft || owes_tpot) {
    ++counts.owed_both;
    counts.met_both += whole && (met_ttft || !owes_ttft) && (met_tpot || !owes_tpot) ? 1 : 0;
  }
}

SLUICE_INLINE double share(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : Metrics::absent;
}

inline void count_memory(const Summary::State& state, Metrics& m) {
  const auto bytes = [&](LayerBlocks blocks) { return blocks.count() * state.layer_block_bytes.count(); };
  m.blocks_to_device = state.to_device.count();
  m.blocks_to_host = state.to_host.count();
  m.bytes_of_weights = state.weights.count();
  m.bytes_to_device = bytes(state.to_device) + m.bytes_of_weights;
  m.bytes_to_host = bytes(state.to_host);
  m.bytes_moved = m.bytes_to_device + m.bytes_to_host;
  m.device_peak_bytes = bytes(state.device_peak);
  m.device_capacity_bytes = bytes(state.device_capacity);
  m.host_peak_bytes = bytes(state.host_peak);
  m.device_peak_share = share(state.device_peak.count(), state.device_capacity.count());
  if (state.busy_s <= 0) return;
  const double mean_blocks = state.device_block_seconds / state.busy_s;
  m.device_mean_bytes = mean_blocks * static_cast<double>(state.layer_block_bytes.count());
  if (state.device_capacity.count() > 0)
    m.device_mean_share = mean_blocks / static_cast<double>(state.device_capacity.count());
}

inline void set_quantiles(const Distribution& of, double& mean, double& p50, double& p95, double& p99) {
  mean = of.mean();
  p50 = of.quantile(0.50);
  p95 = of.quantile(0.95);
  p99 = of.quantile(0.99);
}

/// Counts the metrics of sessions: jobs, TTFT by turn, and the share of the prompts that was found.
inline void count_sessions(const Summary::State& state, Metrics& m) {
  struct Job {
    std::uint32_t session;
    double begin, end;
    bool served;
  };
  std::vector<Job> turns;
  std::vector<WeightedSample> first, later, jobs;
  std::int64_t prompt = 0, found = 0, loaded = 0, fetched = 0;
  for (const RequestRecord& request : state.requests) {
    if (!request.known) continue;
    if (request.outcome == Outcome::served) {
      prompt += request.prompt.count();
      found += request.found.count();
      loaded += request.loaded.count();
      fetched += request.fetched;
    }
    if (request.session == 0) continue;
    if (request.started()) (request.turn == 0 ? first : later).push_back({request.ttft().count(), 1});
    turns.push_back({request.session, request.arrival.count(), request.last.count(),
                     request.outcome == Outcome::served && request.started()});
  }
  m.found_share = share(found, prompt);
  m.loaded_share = share(loaded, prompt);
  m.fetched_share = share(fetched, prompt);
  std::sort(turns.begin(), turns.end(), [](const Job& a, const Job& b) { return a.session < b.session; });
  for (std::size_t i = 0; i < turns.size();) {
    Job job = turns[i];
    for (; i < turns.size() && turns[i].session == job.session; ++i) {
      job.begin = std::min(job.begin, turns[i].begin);
      job.end = std::max(job.end, turns[i].end);
      job.served = job.served && turns[i].served;
    }
    ++m.sessions;
    if (!job.served) continue;
    ++m.sessions_served;
    jobs.push_back({job.end - job.begin, 1});
  }
  double ignored = 0;
  set_quantiles(Distribution{std::move(jobs)}, m.mean_job_s, m.p50_job_s, m.p95_job_s, m.p99_job_s);
  set_quantiles(Distribution{std::move(first)}, m.mean_ttft_first_turn_s, ignored, ignored, m.p99_ttft_first_turn_s);
  set_quantiles(Distribution{std::move(later)}, m.mean_ttft_later_turns_s, ignored, ignored, m.p99_ttft_later_turns_s);
}

} // namespace sluice::detail

namespace sluice {

SLUICE_INLINE Metrics measure(const Summary::State& state, Seconds end, const LatencyDistributions& of) {
  Metrics m;
  detail::PromiseCounts counts;
  double first_arrival = std::numeric_limits<double>::infinity();
  double last_delivery = -first_arrival;
  double longest = -1, longest_all = -1, all_s = 0;
  std::int64_t prompts = 0, left_out = 0;
  for (const RequestRecord& request : state.requests) {
    if (!request.known) continue;
    detail::count_request(request, end, m, counts);
    prompts += request.prompt.count();
    if (request.outcome == Outcome::refused || request.outcome == Outcome::unfinished)
      left_out += request.prompt.count();
    if (request.outcome != Outcome::cancelled) {
      // Refused requests count as waiting until the end, so that a system does not look faster because it refuses the
      // requests that would wait longest.
      const bool served = request.outcome == Outcome::served && request.started();
      all_s += served ? request.e2e().count() : (end - request.arrival).count();
      if (!request.started()) longest_all = std::max(longest_all, (end - request.arrival).count());
    }
    first_arrival = std::min(first_arrival, request.arrival.count());
    if (!request.started()) continue;
    last_delivery = std::max(last_delivery, request.last.count());
    // A request that was unfinished at the end has an open gap, which counts for the longest gap but not for the
    // quantiles.
    const bool open = request.delivered < request.output && request.outcome != Outcome::cancelled;
    if (request.delivered.count() > 1 || open)
      longest = std::max(longest, std::max(request.longest_gap, open ? end - request.last : Seconds{0}).count());
  }
  if (longest >= 0) m.longest_gap_s = longest;
  if (const double all = std::max(longest, longest_all); all >= 0) m.longest_gap_all_s = all;
  if (m.requests > m.cancelled) m.mean_e2e_all_s = all_s / static_cast<double>(m.requests - m.cancelled);

  m.per_token_attainment =
      counts.any_tbt ? detail::share(m.tokens_on_time, m.tokens_on_time + m.tokens_late) : m.absent;
  m.tbt_attainment = counts.any_tbt ? detail::share(m.tokens_on_time, m.tokens_on_time + m.deadlines_missed) : m.absent;
  m.ttft_attainment = detail::share(counts.met_ttft, counts.owed_ttft);
  m.tpot_attainment = detail::share(counts.met_tpot, counts.owed_tpot);
  m.slo_attainment = detail::share(counts.met_both, counts.owed_both);

  detail::set_quantiles(of.tbt, m.mean_tbt_s, m.p50_tbt_s, m.p95_tbt_s, m.p99_tbt_s);
  detail::set_quantiles(of.ttft, m.mean_ttft_s, m.p50_ttft_s, m.p95_ttft_s, m.p99_ttft_s);
  detail::set_quantiles(of.tpot, m.mean_tpot_s, m.p50_tpot_s, m.p95_tpot_s, m.p99_tpot_s);
  detail::set_quantiles(of.e2e, m.mean_e2e_s, m.p50_e2e_s, m.p95_e2e_s, m.p99_e2e_s);

  const double begin = state.rates_from.count() > 0 ? state.rates_from.count() : first_arrival;
  if (const double span = last_delivery - begin; span > 0) {
    m.throughput_tokens_per_s = static_cast<double>(m.tokens_delivered) / span;
    m.throughput_requests_per_min = 60 * static_cast<double>(m.served) / span;
  }
  const bool ends = !std::isinf(state.rates_until.count());
  const double until = ends ? state.rates_until.count() : last_delivery;
  if (ends) m.horizon_s = until - begin;
  if (const double span = until - begin; span > 0 && counts.owed_both > 0)
    m.goodput_requests_per_s = static_cast<double>(counts.met_both) / span;

  detail::count_memory(state, m);
  m.stall_s = state.stall_s;
  m.busy_s = state.busy_s;
  if (state.busy_s > 0) m.stall_share = state.stall_s / state.busy_s;
  if (state.decodes > 0) m.hosted_share = static_cast<double>(state.hosted) / static_cast<double>(state.decodes);

  m.plans = static_cast<std::int64_t>(state.planning_wall_s.size());
  m.planning_s = state.planning_total_s;
  m.planning_wall_s = state.planning_wall_total_s;
  m.planning_p99_us = 1e6 * Distribution{state.planning_s}.quantile(0.99);
  std::vector<WeightedSample> wall;
  wall.reserve(state.planning_wall_s.size());
  for (const float seconds : state.planning_wall_s) wall.push_back({double{seconds}, 1});
  m.planning_wall_p99_us = 1e6 * Distribution{std::move(wall)}.quantile(0.99);
  m.planning_wait_s = state.planning_wait_s;
  m.iterations = state.iterations;
  m.repeated_iterations = state.repeated;
  m.times_rebuilt = state.rebuilding;
  m.end_s = end.count();
  m.left_out_tokens_share = detail::share(left_out, prompts);
  m.queue_grows = queue_grows(state);
  detail::count_sessions(state, m);
  return m;
}

SLUICE_INLINE Metrics measure(const Summary::State& state, Seconds end) {
  return measure(state, end, latencies(state));
}

} // namespace sluice
