// SPDX-License-Identifier: Apache-2.0
// Timeline: the observer that keeps a stretch of a run for a trace viewer (observer/trace_json.hpp writes it).
#pragma once

#include "sluice/observer/chosen_iteration.hpp"
#include "sluice/observer/observer.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// Keeps iterations, plans and the lives of requests within a window of the run's clock, and of some iterations every
/// layer, transfer and stall. Everything is bounded: an event that finds no room is counted in `dropped`.
struct Timeline {
  using role = roles::Observer;
  static constexpr bool wants_timeline = true;

  Seconds from{0}; ///< events that end before are left out
  Seconds until{std::numeric_limits<double>::infinity()};
  std::size_t max_iterations = 5'000;
  std::size_t max_detailed = 64; ///< iterations with their layers and transfers, from the first one that decodes
  std::size_t max_requests = 1'000;
  std::size_t max_slices = 20'000; ///< of requests
  std::size_t max_plans = 5'000;

  /// The window of `half` before and after `time`.
  [[nodiscard]] static Timeline around(Seconds time, Seconds half) {
    Timeline timeline;
    timeline.from = time - half;
    timeline.until = time + half;
    return timeline;
  }

  struct Iteration {
    std::int64_t step = 0;
    Seconds start{0}, duration{0}, stall{0}, planning{0};
    std::int64_t tokens = 0, decodes = 0, running = 0, waiting = 0, preempted = 0;
    LayerBlocks device_used{0}, in_flight{0}, host_used{0};
    bool repeated = false;
  };
  struct RequestSlice {
    RequestId id{};
    Phase phase = Phase::waiting;
    Seconds start{0}, end{0};
  };
  struct PlanMark {
    Seconds when{0}, took{0}, predicted{0};
    std::int64_t requests = 0, offloading = 0, effort = 0;
    Binding binding = Binding::none;
  };
  struct Refusal {
    RequestId id{};
    Seconds when{0};
    std::string reason;
  };

  struct State {
    std::vector<Iteration> iterations;
    std::vector<RecordedIteration> detailed;
    std::vector<RequestSlice> slices;
    std::vector<RequestSlice> open; ///< by id: what each request is doing; `end` means nothing yet
    std::vector<PlanMark> plans;
    std::vector<Refusal> refusals;
    std::int64_t dropped = 0;
    Seconds last_event{0};
    Bytes layer_block_bytes{0};
    LayerBlocks device_capacity{0};
  };

  void submitted(State& state, const RequestRow& row) const {
    if (index(row.id) >= max_requests) {
      ++state.dropped;
      return;
    }
    if (index(row.id) >= state.open.size()) state.open.resize(std::size_t{index(row.id)} + 1, nobody());
    state.open[index(row.id)] = {row.id, Phase::waiting, row.spec.arrival, Seconds{0}};
  }
  void refused(State& state, RequestId id, const RequestSpec& /*spec*/, Seconds now, std::string_view reason) const {
    if (RequestSlice* open = of(state, id)) close(state, *open, now, Phase::ended);
    if (!within(now, now)) return;
    if (state.refusals.size() < max_requests)
      state.refusals.push_back({id, now, std::string{reason}});
    else
      ++state.dropped;
  }
  void preempted(State& state, const RequestRow& row, Kept /*kept*/, Seconds now) const {
    started(state, row);
    if (RequestSlice* open = of(state, row.id)) close(state, *open, now, Phase::preempted);
  }
  void resumed(State& state, const RequestRow& row, Seconds now) const {
    if (RequestSlice* open = of(state, row.id)) close(state, *open, now, Phase::running);
  }
  void ended(State& state, const RequestRow& row, Seconds now) const {
    started(state, row);
    if (RequestSlice* open = of(state, row.id)) close(state, *open, now, Phase::ended);
  }
  void cancelled(State& state, const RequestRow& row, Seconds now) const {
    if (row.phase != Phase::waiting) started(state, row);
    if (RequestSlice* open = of(state, row.id)) close(state, *open, now, Phase::ended);
  }
  void delivered(State& state, const RequestRow& row, Tokens count, Seconds /*when*/) const {
    if (row.delivered == count) started(state, row);
  }
  void planned(State& state, const View& view, const Plan& plan, Seconds virtual_time, Seconds /*wall*/) const {
    state.layer_block_bytes = view.geometry.layer_block_bytes;
    if (!within(view.now, view.now)) return;
    if (state.plans.size() >= max_plans) {
      ++state.dropped;
      return;
    }
    std::int64_t offloading = 0;
    for (const RequestPlan& part : plan.requests) offloading += part.holding.all_resident() ? 0 : 1;
    state.plans.push_back({view.now, virtual_time, plan.predicted_step, static_cast<std::int64_t>(plan.requests.size()),
                           offloading, plan.effort, plan.binding});
  }

  template <class Replay>
  void iterated(State& state, const IterationRecord& record, const Replay& replay) const {
    const Seconds end = record.start + record.duration;
    state.last_event = std::max(state.last_event, end);
    if (!within(record.start, end)) return;
    if (state.iterations.size() >= max_iterations) {
      ++state.dropped;
      return;
    }
    state.device_capacity = std::max(state.device_capacity, record.device_capacity);
    state.iterations.push_back({record.step, record.start, record.duration, record.stall, record.planning,
                                record.tokens.count(), record.decodes, record.running, record.waiting, record.preempted,
                                record.device_used, record.in_flight, record.host_used, record.repeated});
    const bool decoding = record.decodes > 0 || !state.detailed.empty();
    if (decoding && state.detailed.size() < max_detailed)
      detail::record_iteration(record, replay, state.detailed.emplace_back());
  }

 private:
  static constexpr RequestSlice nobody() { return {RequestId{}, Phase::ended, Seconds{0}, Seconds{0}}; }
  [[nodiscard]] bool within(Seconds start, Seconds end) const { return end >= from && start <= until; }
  static RequestSlice* of(State& state, RequestId id) {
    return index(id) < state.open.size() && state.open[index(id)].phase != Phase::ended ? &state.open[index(id)]
                                                                                        : nullptr;
  }
  /// No hook tells of the first start; the row does, and every later event carries the row.
  void started(State& state, const RequestRow& row) const {
    if (RequestSlice* open = of(state, row.id); open != nullptr && open->phase == Phase::waiting)
      close(state, *open, std::max(open->start, row.running_since), Phase::running);
  }
  void close(State& state, RequestSlice& open, Seconds now, Phase next) const {
    if (within(open.start, now)) {
      if (state.slices.size() < max_slices)
        state.slices.push_back({open.id, open.phase, open.start, now});
      else
        ++state.dropped;
    }
    open.phase = next;
    open.start = now;
    state.last_event = std::max(state.last_event, now);
  }
};

static_assert(explain<Timeline>());

} // namespace sluice
