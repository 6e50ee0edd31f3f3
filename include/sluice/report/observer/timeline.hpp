// SPDX-License-Identifier: Apache-2.0
// Timeline: the observer that records a stretch of a run for a trace viewer (written by
// report/observer/trace_json.hpp).
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/report/observer/chosen_iteration.hpp"
#include "sluice/report/observer/observer.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

// PeakWindow: keeps the part of a long sequence around its most important item.

/// Keeps at most `capacity` neighbouring items around the *peak*, which is known only when the sequence has ended. Up
/// to half of the items precede the peak, or more if fewer follow it. A sequence that fits is kept whole.
///
/// Holds at most 1.5 `capacity` items: the kept ones, and the latest half, which would precede another peak. Their
/// memory is reused. Rejected: two runs, one to find the peak and one to record its surroundings. They would double the
/// most expensive work and require a repeatable run, but a run on a real machine is not repeatable.
template <class T>
class PeakWindow {
 public:
  /// Returns a place for the next item. The caller must overwrite it, because it may hold an earlier item's data.
  /// `peak`: this item is more important than all earlier ones, as the first item always is.
  T& push(std::size_t capacity, bool peak) {
    SLUICE_ASSERT(capacity >= 2, "room for an item and a neighbour");
    const std::size_t before = capacity / 2;
    ++seen_;
    if (peak || kept_.empty()) {
      join();
      peak_ = kept_.size();
    } else if (closed_ || (kept_.size() >= capacity && peak_ <= before)) {
      closed_ = true;
      if (recent_.size() >= before) {
        drop_front(recent_);
        gap_ = true;
      }
      return add(recent_);
    }
    T& place = add(kept_);
    while (kept_.size() > capacity) {
      drop_front(kept_);
      --peak_;
    }
    return place;
  }

  [[nodiscard]] bool empty() const { return kept_.empty(); }
  [[nodiscard]] std::size_t size() const { return kept_.size(); }
  [[nodiscard]] std::int64_t seen() const { return seen_; } ///< number of all pushed items
  [[nodiscard]] auto begin() const { return kept_.begin(); }
  [[nodiscard]] auto end() const { return kept_.end(); }
  [[nodiscard]] const T& front() const { return kept_.front(); }
  [[nodiscard]] const T& back() const { return kept_.back(); }
  [[nodiscard]] const T& operator[](std::size_t i) const { return kept_[i]; }
  [[nodiscard]] const T& peak() const { return kept_[peak_]; }
  /// Returns the oldest item that may still be kept at the end.
  [[nodiscard]] const T& oldest() const { return kept_.front(); }

 private:
  /// Handles a new peak: the latest items replace the kept ones.
  void join() {
    if (!closed_) return;
    if (gap_)
      while (!kept_.empty()) drop_front(kept_);
    for (T& item : recent_) kept_.push_back(std::move(item));
    recent_.clear();
    closed_ = gap_ = false;
  }
  void drop_front(std::deque<T>& items) {
    spare_ = std::move(items.front());
    items.pop_front();
  }
  T& add(std::deque<T>& items) {
    items.push_back(std::move(spare_));
    spare_ = T{};
    return items.back();
  }

  std::deque<T> kept_, recent_; ///< `recent_`: the last items, once `kept_` is closed
  T spare_{};                   ///< the next item reuses its memory
  std::size_t peak_ = 0;        ///< index in `kept_`
  std::int64_t seen_ = 0;
  bool closed_ = false; ///< `kept_` is full after the peak
  bool gap_ = false;    ///< items were dropped between `kept_` and `recent_`
};

/// The point around which a Timeline is recorded.
struct TraceAt {
  enum class Point : std::uint8_t {
    worst_stall, ///< the iteration with the longest stall; if none stalls, the one that moved most, else the first that
                 ///< decodes
    time,        ///< the iteration that runs at `time`
    all,         ///< no point: all iterations in full, while there is room
  };
  Point point = Point::worst_stall;
  Seconds time{0};

  friend constexpr bool operator==(const TraceAt&, const TraceAt&) = default;
};

/// Records iterations, plans and requests' phases, and every layer, transfer and stall of the iterations around one
/// point. Everything is bounded: for a longer run, the surroundings of that point are kept, and omitted items are
/// counted.
///
/// Every iteration is evaluated again, because it may precede the worst stall.
struct Timeline {
  using role = roles::Observer;
  using hears = Events<events::Submitted, events::Refused, events::Preempted, events::Resumed, events::Ended,
                       events::Cancelled, events::Delivered, events::Planned, events::Iterated>;
  static constexpr bool wants_timeline = true;

  TraceAt at{};
  std::size_t max_iterations = 5'000;
  std::size_t max_detailed = 64; ///< iterations with their layers and transfers
  std::size_t max_requests = 1'000'000;
  std::size_t max_slices = 20'000; ///< of requests
  std::size_t max_plans = 10'000;

  /// Makes the Timeline for --trace-at. An iteration in full takes a few kilobytes.
  [[nodiscard]] static Timeline of(TraceAt at) {
    Timeline timeline;
    timeline.at = at;
    if (at.point == TraceAt::Point::all) {
      timeline.max_iterations = timeline.max_slices = timeline.max_plans = 200'000;
      timeline.max_detailed = 20'000;
    }
    return timeline;
  }

  struct Iteration {
    std::int64_t step = 0;
    Seconds start{0}, duration{0}, stall{0}, planning{0};
    std::int64_t batch = 0, tokens = 0, decodes = 0, running = 0, waiting = 0, preempted = 0;
    LayerBlocks device_used{0}, device_capacity{0}, in_flight{0}, host_used{0}, to_device{0}, to_host{0};
    Bytes weights{0};
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
  /// Ranks an iteration; earlier fields take precedence.
  struct Interest {
    double stall_s = -1;
    std::int64_t moved_blocks = 0;
    bool decodes = false;

    friend constexpr auto operator<=>(const Interest&, const Interest&) = default;
  };

  struct State {
    PeakWindow<Iteration> iterations;
    PeakWindow<RecordedIteration> detailed;
    Interest most;
    std::deque<RequestSlice> slices;
    std::vector<RequestSlice> open; ///< each request's current phase, by id; `end` is not yet valid
    std::deque<PlanMark> plans;
    std::deque<Refusal> refusals;
    std::int64_t dropped = 0; ///< items within the kept stretch that were dropped because there was no room
    std::int64_t all_plans = 0;
    Seconds last_event{0};
    Bytes layer_block_bytes{0};
    LayerBlocks device_capacity{0};
  };

  void on(State& state, const events::Submitted& event) const {
    const RequestRow& row = event.row;
    if (index(row.id) >= max_requests) {
      ++state.dropped;
      return;
    }
    if (index(row.id) >= state.open.size()) state.open.resize(std::size_t{index(row.id)} + 1, nobody());
    state.open[index(row.id)] = {row.id, Phase::waiting, row.spec.arrival, Seconds{0}};
  }
  void on(State& state, const events::Refused& event) const {
    if (RequestSlice* open = of(state, event.id)) close(state, *open, event.now, Phase::ended);
    keep(state, state.refusals, {event.id, event.now, std::string{event.reason}}, max_slices,
         [](const Refusal& of) { return of.when; });
  }
  void on(State& state, const events::Preempted& event) const {
    started(state, event.row);
    if (RequestSlice* open = of(state, event.row.id)) close(state, *open, event.now, Phase::preempted);
  }
  void on(State& state, const events::Resumed& event) const {
    if (RequestSlice* open = of(state, event.row.id)) close(state, *open, event.now, Phase::running);
  }
  void on(State& state, const events::Ended& event) const {
    started(state, event.row);
    if (RequestSlice* open = of(state, event.row.id)) close(state, *open, event.now, Phase::ended);
  }
  void on(State& state, const events::Cancelled& event) const {
    const RequestRow& row = event.row;
    if (row.phase != Phase::waiting) started(state, row);
    if (RequestSlice* open = of(state, row.id)) close(state, *open, event.now, Phase::ended);
  }
  void on(State& state, const events::Delivered& event) const {
    if (event.row.delivered == event.count) started(state, event.row);
  }
  void on(State& state, const events::Planned& event) const {
    const Plan& plan = event.plan;
    state.layer_block_bytes = event.view.geometry.layer_block_bytes;
    ++state.all_plans;
    std::int64_t offloading = 0;
    for (const RequestPlan& part : plan.requests) offloading += part.holding.all_resident() ? 0 : 1;
    keep(state, state.plans,
         {event.view.now, event.virtual_time, plan.predicted_step, static_cast<std::int64_t>(plan.requests.size()),
          offloading, plan.effort, plan.binding},
         max_plans, [](const PlanMark& of) { return of.when + of.took; });
  }

  void on(State& state, const events::Iterated& event) const {
    const IterationRecord& record = event.record;
    state.last_event = std::max(state.last_event, record.start + record.duration);
    state.device_capacity = std::max(state.device_capacity, record.device_capacity);
    const bool peak = counts_most(state, record);
    state.iterations.push(max_iterations, peak) = {.step = record.step,
                                                   .start = record.start,
                                                   .duration = record.duration,
                                                   .stall = record.stall,
                                                   .planning = record.planning,
                                                   .batch = static_cast<std::int64_t>(record.batch.size()),
                                                   .tokens = record.tokens.count(),
                                                   .decodes = record.decodes,
                                                   .running = record.running,
                                                   .waiting = record.waiting,
                                                   .preempted = record.preempted,
                                                   .device_used = record.device_used,
                                                   .device_capacity = record.device_capacity,
                                                   .in_flight = record.in_flight,
                                                   .host_used = record.host_used,
                                                   .to_device = record.to_device,
                                                   .to_host = record.to_host,
                                                   .weights = record.weights,
                                                   .repeated = record.repeated};
    detail::record_iteration(record, event.replay, state.detailed.push(max_detailed, peak));
  }

 private:
  static constexpr RequestSlice nobody() { return {RequestId{}, Phase::ended, Seconds{0}, Seconds{0}}; }

  [[nodiscard]] bool counts_most(State& state, const IterationRecord& record) const {
    // Until the wanted time is reached, every iteration is nearer to it than all earlier ones.
    if (at.point == TraceAt::Point::time) return record.start <= at.time;
    const double stall_s = record.stall.count() > 1e-12 ? record.stall.count() : 0;
    const Interest own{stall_s, (record.to_device + record.to_host).count(), record.decodes > 0};
    if (!(own > state.most)) return false;
    state.most = own;
    return true;
  }

  static RequestSlice* of(State& state, RequestId id) {
    return index(id) < state.open.size() && state.open[index(id)].phase != Phase::ended ? &state.open[index(id)]
                                                                                        : nullptr;
  }
  /// No event reports a request's first start, but the row contains it, and every later event includes the row.
  void started(State& state, const RequestRow& row) const {
    if (RequestSlice* open = of(state, row.id); open != nullptr && open->phase == Phase::waiting)
      close(state, *open, std::max(open->start, row.running_since), Phase::running);
  }
  void close(State& state, RequestSlice& open, Seconds now, Phase next) const {
    keep(state, state.slices, {open.id, open.phase, open.start, now}, max_slices,
         [](const RequestSlice& of) { return of.end; });
    open.phase = next;
    open.start = now;
    state.last_event = std::max(state.last_event, now);
  }
  /// Adds an event, and drops those that ended before the stretch that may be kept.
  template <class Event, class End>
  static void keep(State& state, std::deque<Event>& events, Event event, std::size_t most, End&& end) {
    events.push_back(std::move(event));
    const bool whole = state.iterations.seen() == static_cast<std::int64_t>(state.iterations.size());
    if (!whole)
      while (!events.empty() && end(events.front()) < state.iterations.oldest().start) events.pop_front();
    if (events.size() <= most) return;
    events.pop_front();
    ++state.dropped;
  }
};

static_assert(explain<Timeline>());

} // namespace sluice
