// SPDX-License-Identifier: Apache-2.0
// Summary: the observer that records the metrics' inputs: one record per request, and the grouped gaps.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/report/observer/observer.hpp"
#include "sluice/report/observer/quantile.hpp"
#include "sluice/workload/request.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace sluice {

enum class Outcome : std::uint8_t {
  unfinished, ///< waiting, running or preempted when the run ended
  served,     ///< its last token was generated
  refused,    ///< the engine could not place it, or gave it up
  cancelled,  ///< its user left before its last token
};

/// One request as its user saw it. Times are on the run's clock.
struct RequestRecord {
  // The fields that a delivery accesses come first, in one cache line.
  Seconds first{0}; ///< first and last delivery; undefined while `delivered` is 0, except:
  Seconds last{0};  ///< of a request cancelled before its first token, when its user left
  Seconds longest_gap{0};
  Seconds slo_tbt{std::numeric_limits<double>::infinity()};
  Tokens delivered{0};
  std::int64_t on_time = 0; ///< tokens that followed the previous one within the SLO
  std::int64_t missed = 0;  ///< deadlines that passed between two deliveries

  Seconds arrival{0};
  Seconds slo_ttft{std::numeric_limits<double>::infinity()};
  Tokens prompt{0};
  Tokens output{0};
  std::int32_t times_preempted = 0;
  std::int32_t reason = -1;  ///< of a refused request: index into `reasons`
  std::uint32_t session = 0; ///< 0: belongs to no session
  std::int32_t turn = 0;
  Tokens found{0};  ///< prompt tokens whose KV was found when the request first joined
  Tokens loaded{0}; ///< the part of them that came from the tier
  Outcome outcome = Outcome::unfinished;
  bool known = false;       ///< false for an id that no event named
  std::int32_t fetched = 0; ///< tokens of `loaded` that a lower tier had
  std::int32_t priority = 0;

  [[nodiscard]] bool started() const { return delivered.count() > 0; }
  [[nodiscard]] Seconds ttft() const { return first - arrival; }
  [[nodiscard]] Seconds e2e() const { return last - arrival; }
  /// (last - first delivery) / (tokens - 1); 0 for a single token.
  [[nodiscard]] Seconds tpot() const {
    return delivered.count() > 1 ? (last - first) / static_cast<double>(delivered.count() - 1) : Seconds{0};
  }
};

/// Collects the data from which `measure` (report/observer/measure.hpp) computes metrics.
///
/// Memory: 128 bytes per request, 16 bytes per run of equal gaps (one or two per iteration), and at least 12 bytes per
/// plan. Only these vectors grow; `State::reserve` allocates them before the run.
struct Summary {
  using role = roles::Observer;
  using hears = Events<events::Submitted, events::Refused, events::Preempted, events::Ended, events::Cancelled,
                       events::Delivered, events::Planned, events::Iterated>;
  static constexpr bool wants_timeline = false;

  struct State {
    std::vector<RequestRecord> requests; ///< by id
    std::vector<std::string> reasons;    ///< reasons of refusals; equal neighbours share one
    std::vector<WeightedSample> gaps;    ///< in order of time; equal neighbours share a sample
    std::size_t common_gap = 0;          ///< the sample that grew last; the next gap most likely equals it

    std::vector<WeightedSample> planning_s; ///< virtual time of each plan; equal neighbours are grouped
    std::vector<float> planning_wall_s;     ///< wall time of each; single precision is finer than any clock here
    std::int64_t counted_plans = 0;         ///< plans whose policy reported no effort
    double planning_total_s = 0;
    double planning_wall_total_s = 0;

    std::int64_t iterations = 0;
    std::int64_t repeated = 0;
    std::int64_t decodes = 0, hosted = 0; ///< by the host's attention
    std::int64_t rebuilding = 0;          ///< requests of which an iteration rebuilt K and V, over all iterations
    double busy_s = 0;
    double stall_s = 0;
    double planning_wait_s = 0;
    double device_block_seconds = 0; ///< integral of the resident blocks over busy time
    LayerBlocks device_peak{0};
    LayerBlocks device_capacity{0}; ///< the largest value, if weights give up memory
    LayerBlocks host_peak{0};
    LayerBlocks to_device{0};
    LayerBlocks to_host{0};
    Bytes weights{0}; ///< streamed to the device
    Bytes layer_block_bytes{0};
    Seconds last_event{0}; ///< end of the last iteration, or a later delivery: the default end of the run
    Seconds rates_from{0}; ///< begin of the time that throughput and goodput divide by; 0: the first arrival
    Seconds rates_until{std::numeric_limits<double>::infinity()}; ///< its end for goodput; infinite: the last delivery

    /// Reserves memory for these numbers of requests and iterations, so that a run of that size allocates nothing.
    void reserve(std::size_t request_count, std::size_t iteration_count) {
      requests.reserve(request_count);
      gaps.reserve(2 * iteration_count);
      planning_s.reserve(iteration_count);
      planning_wall_s.reserve(iteration_count);
    }

    RequestRecord& record(RequestId id, const RequestSpec& spec) {
      if (index(id) >= requests.size()) requests.resize(std::size_t{index(id)} + 1);
      RequestRecord& record = requests[index(id)];
      if (!record.known) {
        record.known = true;
        record.arrival = spec.arrival;
        record.prompt = spec.prompt;
        record.output = spec.output;
        record.slo_tbt = spec.slo.tbt;
        record.slo_ttft = spec.slo.ttft;
        record.priority = spec.priority;
        record.session = spec.session;
        record.turn = spec.turn;
      }
      return record;
    }
    void add_gap(double gap_s, std::int64_t count) {
      if (!gaps.empty() && gaps[common_gap].value == gap_s) {
        gaps[common_gap].count += count;
      } else if (!gaps.empty() && gaps.back().value == gap_s) {
        common_gap = gaps.size() - 1;
        gaps.back().count += count;
      } else {
        gaps.push_back({gap_s, count});
      }
    }
  };

  void on(State& state, const events::Submitted& event) const {
    state.record(event.row.id, event.row.spec.whole(not_a_policy));
  }

  void on(State& state, const events::Refused& event) const {
    RequestRecord& record = state.record(event.id, event.spec);
    record.outcome = Outcome::refused;
    // Compares only with the last reason: reasons contain sizes and so often differ, and the cost of a search would
    // grow with the number of refused requests.
    if (state.reasons.empty() || state.reasons.back() != event.reason) state.reasons.emplace_back(event.reason);
    record.reason = static_cast<std::int32_t>(state.reasons.size()) - 1;
    state.last_event = std::max(state.last_event, event.now);
  }

  void on(State& state, const events::Preempted& event) const {
    ++state.record(event.row.id, event.row.spec.whole(not_a_policy)).times_preempted;
  }

  /// A request that ended early is owed no more tokens than it has generated.
  void on(State& state, const events::Ended& event) const {
    const RequestRow& row = event.row;
    RequestRecord& record = state.record(row.id, row.spec.whole(not_a_policy));
    record.outcome = Outcome::served;
    record.found = row.found;
    record.loaded = row.loaded;
    record.fetched = row.fetched;
    if (row.generated.count() > 0) record.output = row.generated;
    state.last_event = std::max(state.last_event, event.now);
  }

  void on(State& state, const events::Cancelled& event) const {
    RequestRecord& record = state.record(event.row.id, event.row.spec.whole(not_a_policy));
    record.outcome = Outcome::cancelled;
    if (!record.started()) record.last = event.now;
    state.last_event = std::max(state.last_event, event.now);
  }

  /// Called for every token. The fields are passed in registers, so the event need not be in memory.
  void on(State& state, const events::Delivered& event) const { deliver(state, event.row, event.count, event.when); }

  void on(State& state, const events::Planned& event) const {
    state.layer_block_bytes = event.view.geometry.layer_block_bytes;
    state.counted_plans += event.plan.effort.said() ? 0 : 1;
    state.planning_total_s += event.virtual_time.count();
    state.planning_wall_total_s += event.wall_time.count();
    if (!state.planning_s.empty() && state.planning_s.back().value == event.virtual_time.count())
      ++state.planning_s.back().count;
    else
      state.planning_s.push_back({event.virtual_time.count(), 1});
    state.planning_wall_s.push_back(static_cast<float>(event.wall_time.count()));
  }

  void on(State& state, const events::Iterated& event) const {
    const IterationRecord& record = event.record;
    ++state.iterations;
    state.repeated += record.repeated ? 1 : 0;
    state.decodes += record.decodes;
    state.hosted += record.hosted;
    state.rebuilding += record.rebuilding;
    state.busy_s += record.duration.count();
    state.stall_s += record.stall.count();
    state.planning_wait_s += record.planning.count();
    state.device_block_seconds += static_cast<double>(record.device_used.count()) * record.duration.count();
    state.device_peak = std::max(state.device_peak, record.device_used);
    state.device_capacity = std::max(state.device_capacity, record.device_capacity);
    state.host_peak = std::max(state.host_peak, record.host_used);
    state.to_device += record.to_device;
    state.to_host += record.to_host;
    state.weights += record.weights;
    state.last_event = std::max(state.last_event, record.start + record.duration);
  }

 private:
  /// The first of `count` tokens ends a gap; the others follow it at once. A gap that equals the SLO except for
  /// rounding (a deposit releases one token per SLO) is stored as the SLO itself, so that such gaps share a sample.
  static void deliver(State& state, const RequestRow& row, Tokens count, Seconds when) {
    RequestRecord& record = state.record(row.id, row.spec.whole(not_a_policy));
    std::int64_t at_once = count.count();
    if (at_once <= 0) return;
    if (record.started()) {
      Seconds gap = when - record.last;
      if (gap < 0.999 * record.slo_tbt) { // nearly every gap: too short for rounding to matter
        ++record.on_time;
      } else if (on_time(gap, record.slo_tbt, when)) {
        ++record.on_time;
        if (gap >= record.slo_tbt - Seconds{deadline_slack_s(record.slo_tbt.count(), when.count())})
          gap = record.slo_tbt;
      } else {
        record.missed += deadlines_missed(gap, record.slo_tbt, when);
      }
      record.longest_gap = std::max(record.longest_gap, gap);
      state.add_gap(gap.count(), 1);
    } else {
      record.first = when;
    }
    if (--at_once > 0) {
      record.on_time += at_once;
      state.add_gap(0, at_once);
    }
    record.last = when;
    record.delivered += count;
    if (when > state.last_event) state.last_event = when;
  }
};

static_assert(explain<Summary>());

// merged: combines the Summary records of several engines into one.

/// Merges the records of a node's engines: requests are concatenated (an id is then a position in that order), gaps and
/// plans are pooled, times and moved blocks are summed. Block sizes differ between models, so all blocks are converted
/// to the first engine's size.
[[nodiscard]] Summary::State merged(std::span<const Summary::State* const> parts);

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/report/observer/summary.inl.hpp"
#endif
