// SPDX-License-Identifier: Apache-2.0
// trace_json: a Timeline in the trace event format, which ui.perfetto.dev and chrome://tracing open.
#pragma once

#include "sluice/observer/json_writer.hpp"
#include "sluice/observer/timeline.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {
namespace detail {

/// Writes the events of one trace. Times become whole nanoseconds before durations are taken, so that slices that
/// touch do not overlap by a rounding, which viewers show as one nested in the other.
class TraceWriter {
 public:
  enum Process : int { engine = 1, requests = 2 };
  enum Track : int { iterations = 1, plans = 2, compute = 3, stalls = 4, link = 10 };

  explicit TraceWriter(std::string& out) : json_(out) {}

  void write(const Timeline::State& state, std::string_view title) {
    json_.begin_object().field("displayTimeUnit", "ms").key("otherData").begin_object();
    json_.field("title", title).field("dropped_events", state.dropped).end_object();
    json_.key("traceEvents").begin_array();
    name_process(engine, "engine: " + std::string{title});
    name_track(engine, iterations, "iterations");
    name_track(engine, plans, "plans");
    for (const Timeline::Iteration& iteration : state.iterations) write(iteration, state);
    for (const Timeline::PlanMark& plan : state.plans) write(plan);
    write_detailed(state.detailed);
    write_requests(state);
    json_.line().end_array().end_object();
  }

 private:
  static std::int64_t ns(double seconds) { return std::llround(seconds * 1e9); }
  static std::string name(RequestId id) { return "r" + std::to_string(index(id)); }
  /// From 1, as people count.
  static std::string layer_name(int layer) { return "layer " + std::to_string(layer + 1); }

  JsonWriter& event(std::string_view type, std::string_view name, int process, std::int64_t track) {
    json_.line().begin_object().field("ph", type).field("name", name).field("pid", static_cast<int>(process));
    return json_.field("tid", track);
  }
  JsonWriter& slice(std::string_view name, int process, std::int64_t track, std::int64_t from_ns, std::int64_t to_ns) {
    event("X", name, process, track).key("ts").thousandths(from_ns);
    return json_.key("dur").thousandths(std::max(from_ns, to_ns) - from_ns);
  }
  void name_process(int process, std::string_view name) {
    event("M", "process_name", process, 0).key("args").begin_object().field("name", name).end_object().end_object();
  }
  void name_track(int process, std::int64_t track, std::string_view name) {
    event("M", "thread_name", process, track).key("args").begin_object().field("name", name).end_object().end_object();
    event("M", "thread_sort_index", process, track).key("args").begin_object();
    json_.field("sort_index", track).end_object().end_object();
  }
  /// One counter of several series, which viewers stack.
  template <class... Fields>
  void counter(std::string_view name, std::int64_t at_ns, const Fields&... fields) {
    event("C", name, engine, 0).key("ts").thousandths(at_ns).key("args").begin_object();
    (json_.field(fields.name, fields.value), ...);
    json_.end_object().end_object();
  }
  struct Count {
    std::string_view name;
    double value;
  };

  void write(const Timeline::Iteration& it, const Timeline::State& state) {
    const std::int64_t from = ns(it.start.count());
    const std::int64_t to = ns((it.start + it.duration).count());
    slice(it.decodes == 0 ? "prefill" : it.tokens > it.decodes ? "mixed" : "decode", engine, iterations, from, to);
    json_.key("args").begin_object().field("step", it.step).field("tokens", it.tokens).field("decodes", it.decodes);
    json_.field("stall_ms", it.stall.count() * 1e3).field("waits_for_planner_ms", it.planning.count() * 1e3);
    json_.field("repeated", it.repeated).end_object().end_object();

    const double mib = static_cast<double>(state.layer_block_bytes.count()) / (1 << 20);
    const double scale = mib > 0 ? mib : 1;
    const std::string unit = mib > 0 ? " (MiB)" : " (layer blocks)";
    const auto blocks = [&](LayerBlocks count) { return static_cast<double>(count.count()) * scale; };
    counter("device KV" + unit, from, Count{"resident", blocks(it.device_used)});
    counter("room for transfers" + unit, from, Count{"in flight", blocks(it.in_flight)});
    counter("host KV" + unit, from, Count{"offloaded", blocks(it.host_used)});
    counter("requests", from, Count{"running", static_cast<double>(it.running)},
            Count{"waiting", static_cast<double>(it.waiting)}, Count{"preempted", static_cast<double>(it.preempted)});
    const double stalled = it.duration.count() > 0 ? 100 * it.stall.count() / it.duration.count() : 0;
    counter("stall (% of iteration)", from, Count{"stall", stalled});
  }

  /// Several plans of one instant (infeasible, a request paused, planned again) stand one after the other.
  void write(const Timeline::PlanMark& plan) {
    const std::int64_t from = std::max(ns(plan.when.count()), plans_until_);
    plans_until_ = from + ns(plan.took.count());
    slice("plan", engine, plans, from, plans_until_).key("args").begin_object();
    json_.field("requests", plan.requests).field("offloading", plan.offloading).field("nodes", plan.effort);
    json_.field("binding", name_of(plan.binding)).field("predicted_ms", plan.predicted.count() * 1e3);
    json_.end_object().end_object();
  }

  void write_detailed(const std::vector<RecordedIteration>& detailed) {
    if (detailed.empty()) return;
    name_track(engine, compute, "compute, layer by layer");
    name_track(engine, stalls, "stalls");
    std::vector<std::int64_t> lane_end; // of each track of the link: transfers of several requests overlap
    for (const RecordedIteration& it : detailed) {
      for (const LayerSlice& layer : it.layer_slices) {
        const std::int64_t from = ns(it.start_s + layer.start_s);
        slice(layer_name(layer.layer), engine, compute, from, ns(it.start_s + layer.end_s));
        json_.end_object();
        if (layer.stall_s <= 0) continue;
        slice(layer.cause == StallCause::room ? "waits for room" : "waits for the link", engine, stalls,
              ns(it.start_s + layer.start_s - layer.stall_s), from);
        json_.key("args")
            .begin_object()
            .field("layer", layer.layer + 1)
            .field("step", it.step)
            .end_object()
            .end_object();
      }
      write_transfers(it, lane_end);
    }
    for (std::size_t lane = 0; lane < lane_end.size(); ++lane)
      name_track(engine, link + static_cast<int>(lane),
                 "link, host to device" + (lane > 0 ? " " + std::to_string(lane + 1) : std::string{}));
  }

  /// Each transfer goes to the first track that is free; a transfer that runs on into the next iteration is told there.
  void write_transfers(const RecordedIteration& it, std::vector<std::int64_t>& lane_end) {
    std::vector<TransferSlice> sorted = it.transfers;
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const TransferSlice& a, const TransferSlice& b) { return a.start_s < b.start_s; });
    for (const TransferSlice& transfer : sorted) {
      const std::int64_t from = ns(it.start_s + std::max(0.0, transfer.start_s));
      const std::int64_t to = ns(it.start_s + std::min(transfer.end_s, it.duration_s));
      if (to <= from) continue;
      std::size_t lane = 0;
      while (lane < lane_end.size() && lane_end[lane] > from) ++lane;
      if (lane == lane_end.size()) lane_end.push_back(0);
      lane_end[lane] = to;
      const bool next = it.layers > 0 && transfer.layer >= it.layers;
      const RequestId* owner = it.owner_of(transfer);
      const std::string whose = owner != nullptr ? name(*owner) : it.of_weights(transfer) ? "weights" : "all together";
      std::string what = whose + ", " + layer_name(next ? transfer.layer - it.layers : transfer.layer);
      if (next) what += " of the next token";
      slice(what, engine, link + static_cast<int>(lane), from, to).key("args").begin_object();
      json_.field("for", whose);
      json_.field("step", it.step).end_object().end_object();
    }
  }

  void write_requests(const Timeline::State& state) {
    std::vector<Timeline::RequestSlice> all = state.slices;
    for (Timeline::RequestSlice open : state.open) {
      if (open.phase == Phase::ended) continue;
      open.end = std::max(open.start, state.last_event);
      all.push_back(open);
    }
    if (all.empty() && state.refusals.empty()) return;
    name_process(requests, "requests");
    std::vector<bool> named;
    const auto track = [&](RequestId id) {
      if (index(id) >= named.size()) named.resize(std::size_t{index(id)} + 1);
      if (!named[index(id)]) name_track(requests, std::int64_t{index(id)} + 1, name(id));
      named[index(id)] = true;
      return std::int64_t{index(id)} + 1;
    };
    for (const Timeline::RequestSlice& life : all) {
      const std::string_view phase = life.phase == Phase::waiting   ? "waiting"
                                     : life.phase == Phase::running ? "running"
                                                                    : "preempted";
      const std::int64_t at = track(life.id);
      slice(phase, requests, at, ns(life.start.count()), ns(life.end.count()));
      json_.end_object();
    }
    for (const Timeline::Refusal& refusal : state.refusals) {
      const std::int64_t at = track(refusal.id);
      event("i", "refused", requests, at).key("ts").thousandths(ns(refusal.when.count())).field("s", "t");
      json_.key("args").begin_object().field("reason", refusal.reason).end_object().end_object();
    }
  }

  JsonWriter json_;
  std::int64_t plans_until_ = 0;
};

} // namespace detail

/// The trace as JSON text: tracks for iterations, plans, layers, stalls and transfers, counters for memory and queue,
/// and one track a request. Deterministic.
[[nodiscard]] inline std::string trace_json(const Timeline::State& state, std::string_view title) {
  std::string text;
  detail::TraceWriter(text).write(state, title);
  text += '\n';
  return text;
}

} // namespace sluice
