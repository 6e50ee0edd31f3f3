// SPDX-License-Identifier: Apache-2.0
// trace_json: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/report/observer/json_writer.hpp"
#include "sluice/report/observer/trace_json.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace sluice::detail {

/// Writes the events of one trace. Times are rounded to nanoseconds before durations are computed, so that adjacent
/// slices do not overlap by a rounding error, which viewers would show as nesting.
class TraceWriter {
 public:
  enum Process : int { engine = 1, requests = 2 };
  enum Track : int { extent = 1, iterations = 2, plans = 3, compute = 4, stalls = 5, link = 10 };

  explicit TraceWriter(std::string& out) : json_(out) {}

  void write(const Timeline::State& state, std::string_view title, std::string_view made_by) {
    json_.begin_object().field("displayTimeUnit", "ms").key("otherData").begin_object();
    if (!made_by.empty()) json_.field("made_by", made_by);
    json_.field("title", title);
    write_extent(state);
    json_.end_object();
    json_.key("traceEvents").begin_array();
    name_process(engine, "engine: " + std::string{title});
    mark_extent(state);
    name_track(engine, iterations, "iterations");
    name_track(engine, plans, "plans");
    for (const Timeline::Iteration& iteration : state.iterations) write(iteration, state);
    for (const Timeline::PlanMark& plan : state.plans)
      if (overlaps(state, plan.when, plan.when + plan.took)) write(plan);
    write_detailed(state.detailed);
    write_requests(state);
    json_.line().end_array().end_object();
  }

 private:
  static std::int64_t ns(double seconds) { return std::llround(seconds * 1e9); }
  static std::string name(RequestId id) { return "r" + std::to_string(index(id)); }
  /// Numbered from 1, for people.
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
  /// Writes one counter of several series, which viewers stack.
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

  /// Returns whether the state has the whole run.
  static bool is_whole(const Timeline::State& state) {
    return state.iterations.seen() == static_cast<std::int64_t>(state.iterations.size());
  }
  static bool overlaps(const Timeline::State& state, Seconds from, Seconds to) {
    if (is_whole(state)) return true;
    const Timeline::Iteration& last = state.iterations.back();
    return to >= state.iterations.front().start && from <= last.start + last.duration;
  }

  /// Writes the numbers of items that the file contains and omits.
  void write_extent(const Timeline::State& state) {
    const auto count = [&](std::string_view name, std::size_t shown, std::int64_t all) {
      json_.key(name).begin_object().field("shown", shown).field("of", all).end_object();
    };
    count("iterations", state.iterations.size(), state.iterations.seen());
    count("iterations_with_layers", state.detailed.size(), state.detailed.seen());
    const auto shown = [&](const Timeline::PlanMark& plan) {
      return overlaps(state, plan.when, plan.when + plan.took);
    };
    count("plans", static_cast<std::size_t>(std::count_if(state.plans.begin(), state.plans.end(), shown)),
          state.all_plans);
    if (!state.detailed.empty()) {
      const RecordedIteration& peak = state.detailed.peak();
      json_.field("around_step", peak.step).field("around_s", peak.start_s).field("its_stall_s", peak.stall_s);
    }
    json_.field("dropped_events", state.dropped);
  }

  /// Writes the same information as a track above the others, which marks the recorded stretches.
  void mark_extent(const Timeline::State& state) {
    if (state.detailed.empty()) return;
    name_track(engine, extent, "what is shown");
    const auto end_of = [](const RecordedIteration& it) { return ns(it.start_s + it.duration_s); };
    const std::int64_t from = ns(state.detailed.front().start_s), to = end_of(state.detailed.back());
    const std::int64_t first = std::min(from, ns(state.iterations.front().start.count()));
    const Timeline::Iteration& last = state.iterations.back();
    const auto step = [](std::int64_t number) { return std::to_string(number); };
    const auto told = [&](const std::string& text, std::int64_t begin, std::int64_t end) {
      slice(text, engine, extent, begin, end);
      json_.end_object();
    };
    if (first < from) told("layers and transfers left out", first, from);
    told("layers, transfers and stalls of iterations " + step(state.detailed.front().step) + " to " +
             step(state.detailed.back().step) + ", of " + std::to_string(state.detailed.seen()) + " iterations",
         from, to);
    if (const std::int64_t end = ns((last.start + last.duration).count()); end > to)
      told("layers and transfers left out", to, end);
    if (!is_whole(state)) {
      event("i",
            "this trace has " + std::to_string(state.iterations.size()) + " of " +
                std::to_string(state.iterations.seen()) + " iterations: others lie before or after",
            engine, extent)
          .key("ts")
          .thousandths(first)
          .field("s", "t")
          .end_object();
    }
    const RecordedIteration& peak = state.detailed.peak();
    if (peak.stall_s <= 0) return;
    event("i", "iteration " + step(peak.step) + ", which stalls", engine, extent)
        .key("ts")
        .thousandths(ns(peak.start_s));
    json_.field("s", "p");
    json_.key("args").begin_object().field("step", peak.step).field("stall_ms", peak.stall_s * 1e3);
    json_.end_object().end_object();
  }

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

  /// Several plans at one instant (infeasible, a request paused, planned again) are shown one after the other.
  void write(const Timeline::PlanMark& plan) {
    const std::int64_t from = std::max(ns(plan.when.count()), plans_until_);
    plans_until_ = from + ns(plan.took.count());
    slice("plan", engine, plans, from, plans_until_).key("args").begin_object();
    json_.field("requests", plan.requests).field("offloading", plan.offloading).field("nodes", plan.effort);
    json_.field("binding", name_of(plan.binding)).field("predicted_ms", plan.predicted.count() * 1e3);
    json_.end_object().end_object();
  }

  void write_detailed(const PeakWindow<RecordedIteration>& detailed) {
    if (detailed.empty()) return;
    name_track(engine, compute, "compute, layer by layer");
    name_track(engine, stalls, "stalls");
    std::vector<std::int64_t> lane_end; // by track of the link: transfers of several requests overlap
    for (const RecordedIteration& it : detailed) {
      for (const LayerSlice& layer : it.layer_slices) {
        const std::int64_t from = ns(it.start_s + layer.start_s);
        slice(layer_name(layer.layer), engine, compute, from, ns(it.start_s + layer.end_s));
        json_.end_object();
        if (layer.stall_s <= 0) continue;
        slice(layer.cause == StallCause::room   ? "waits for room"
              : layer.cause == StallCause::host ? "waits for the host"
                                                : "waits for the link",
              engine, stalls, ns(it.start_s + layer.start_s - layer.stall_s), from);
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

  /// An interval on the link, in seconds from the iteration's start.
  struct OnLink {
    double start_s, end_s;
    std::string what, whose;
  };
  /// Returns the layers' transfers, and the waits without such a transfer. Whole requests that return, and evictions
  /// that free room, use the link before any layer's transfer; the evaluator reports only the wait for them.
  static std::vector<OnLink> on_link(const RecordedIteration& it) {
    std::vector<OnLink> all;
    for (const TransferSlice& transfer : it.transfers) {
      const bool next = it.layers > 0 && transfer.layer >= it.layers;
      const RequestId* owner = it.owner_of(transfer);
      const std::string whose = owner != nullptr ? name(*owner) : it.of_weights(transfer) ? "weights" : "all together";
      std::string what = whose + ", " + layer_name(next ? transfer.layer - it.layers : transfer.layer);
      if (next) what += " of the next token";
      all.push_back({std::max(0.0, transfer.start_s), std::min(transfer.end_s, it.duration_s), std::move(what), whose});
    }
    for (const LayerSlice& layer : it.layer_slices) {
      const double from = layer.start_s - layer.stall_s;
      if (layer.stall_s <= 0 || std::any_of(it.transfers.begin(), it.transfers.end(), [&](const TransferSlice& other) {
            return other.start_s < layer.start_s && other.end_s > from;
          }))
        continue;
      all.push_back({from, layer.start_s, "whole requests, or evictions, before any layer", "the plan"});
    }
    std::stable_sort(all.begin(), all.end(), [](const OnLink& a, const OnLink& b) { return a.start_s < b.start_s; });
    return all;
  }

  /// Each transfer goes to the first free track. If it continues in the next iteration, it is written there.
  void write_transfers(const RecordedIteration& it, std::vector<std::int64_t>& lane_end) {
    for (const OnLink& transfer : on_link(it)) {
      const std::int64_t from = ns(it.start_s + transfer.start_s), to = ns(it.start_s + transfer.end_s);
      if (to <= from) continue;
      std::size_t lane = 0;
      while (lane < lane_end.size() && lane_end[lane] > from) ++lane;
      if (lane == lane_end.size()) lane_end.push_back(0);
      lane_end[lane] = to;
      slice(transfer.what, engine, link + static_cast<int>(lane), from, to).key("args").begin_object();
      json_.field("for", transfer.whose);
      json_.field("step", it.step).end_object().end_object();
    }
  }

  void write_requests(const Timeline::State& state) {
    std::vector<Timeline::RequestSlice> all;
    for (const Timeline::RequestSlice& life : state.slices)
      if (overlaps(state, life.start, life.end)) all.push_back(life);
    for (Timeline::RequestSlice open : state.open) {
      if (open.phase == Phase::ended) continue;
      open.end = std::max(open.start, state.last_event);
      if (overlaps(state, open.start, open.end)) all.push_back(open);
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
      if (!overlaps(state, refusal.when, refusal.when)) continue;
      const std::int64_t at = track(refusal.id);
      event("i", "refused", requests, at).key("ts").thousandths(ns(refusal.when.count())).field("s", "t");
      json_.key("args").begin_object().field("reason", refusal.reason).end_object().end_object();
    }
  }

  JsonWriter json_;
  std::int64_t plans_until_ = 0;
};

} // namespace sluice::detail

namespace sluice {

SLUICE_INLINE std::string trace_json(const Timeline::State& state, std::string_view title, std::string_view made_by) {
  std::string text;
  detail::TraceWriter(text).write(state, title, made_by);
  text += '\n';
  return text;
}

} // namespace sluice
