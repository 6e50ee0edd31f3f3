// SPDX-License-Identifier: Apache-2.0
// write_live: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/serve/live_json.hpp"

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <utility>

namespace sluice::detail {

inline void write_slo(JsonWriter& json, const SloAttainment& attainment, Seconds now) {
  json.key("arrival_s").value(attainment.arrival.count());
  json.key("slo_ttft_s").value(attainment.slo.ttft.count()).key("slo_tbt_s").value(attainment.slo.tbt.count());
  json.key("ttft_s");
  attainment.started() ? json.value((attainment.first - attainment.arrival).count()) : json.null();
  json.key("last_token_s");
  attainment.started() ? json.value(attainment.last.count()) : json.null();
  json.key("on_time").value(attainment.on_time).key("missed").value(attainment.missed + attainment.missing(now));
  json.key("slo").value(name_of(attainment.verdict(now)));
}

SLUICE_INLINE std::string places_of(const LiveRequest& request, int layers) {
  const char states = request.states_on_device ? 'k' : 's';
  std::string places(request.has_kv ? static_cast<std::size_t>(layers) : 0, 'd');
  for (std::size_t i = 0; i < places.size(); ++i) {
    const int layer = static_cast<int>(i);
    if (request.host.contains(layer)) places[i] = 'h';
    if (request.nowhere.contains(layer)) places[i] = request.hidden.contains(layer) ? states : 'n';
  }
  return places;
}

SLUICE_INLINE void write_live(JsonWriter& json, const LiveRequest& row, const LiveState& state) {
  json.begin_object().key("id").value(row.id).key("phase").value(name_of(row.phase));
  json.key("prompt").value(row.prompt).key("computed").value(row.computed).key("generated").value(row.generated);
  json.key("delivered").value(row.delivered).key("held").value(row.generated - row.delivered);
  json.key("layers").value(places_of(row, state.layers)).key("head");
  row.head == all_tokens || !row.has_kv ? json.null() : json.value(row.head.count());
  json.key("times_preempted").value(row.times_preempted).key("preempted_since_s");
  row.phase == LiveRequest::Phase::preempted ? json.value(row.preempted_since.count()) : json.null();
  write_slo(json, row.attainment, state.now);
  json.end_object();
}

SLUICE_INLINE void write_live(JsonWriter& json, const LivePlan& plan) {
  json.begin_object().key("number").value(plan.number).key("step").value(plan.step);
  json.key("time_s").value(plan.when.count()).key("requests").value(plan.requests).key("offload").value(plan.offload);
  json.key("away").begin_array();
  for (std::size_t i = 0; i < plan.away.size() && static_cast<std::int64_t>(i) < plan.offload; ++i)
    json.begin_array().value(plan.away[i].first).value(plan.away[i].second).end_array();
  json.end_array().key("streamed").value(plan.streamed).key("in_flight").value(plan.in_flight);
  json.key("predicted_s").value(plan.predicted.count()).key("bound_s").value(plan.bound.count());
  json.key("proven").value(plan.proven).key("binding").value(sluice::name_of(plan.binding));
  json.key("effort").value(plan.effort).key("wall_s").value(plan.wall.count()).end_object();
}

SLUICE_INLINE void write_live(JsonWriter& json, const LiveEvent& event) {
  json.begin_object().key("kind").value(name_of(event.kind)).key("id").value(event.id);
  json.key("time_s").value(event.when.count()).key("generated").value(event.generated);
  json.key("held").value(event.held);
  if (event.kind == LiveEvent::Kind::preempt) {
    json.key("kept").value(name_of(event.kept));
  } else if (event.kind == LiveEvent::Kind::resume) {
    json.key("away_s").value(event.away.count()).key("to_compute").value(event.to_compute);
  } else {
    json.key("ttft_s");
    event.first.count() >= 0 ? json.value(event.first.count()) : json.null();
    json.key("missed").value(event.missed).key("slo").value(name_of(event.verdict));
  }
  json.end_object();
}

template <class T, std::size_t most>
void write_recent(JsonWriter& json, std::string_view name, const Recent<T, most>& recent) {
  json.key(name).begin_array();
  recent.for_each([&](const T& one) { write_live(json, one); });
  json.end_array();
}

} // namespace sluice::detail

namespace sluice {

SLUICE_INLINE void write_live(std::string& to, const LiveState& state, double age_s) {
  JsonWriter json(to);
  json.begin_object().key("now_s").value(state.now.count()).key("age_s").rounded(age_s, 6);
  json.key("failure").value(state.failure).key("refusal").value(state.refusal);
  json.key("layers").value(state.layers).key("layer_block_bytes").value(state.layer_block_bytes);
  const auto fields = [&](std::initializer_list<std::pair<std::string_view, std::int64_t>> all) {
    for (const auto& [name, value] : all) json.key(name).value(value);
  };
  fields({{"steps", state.steps},
          {"plans", state.plans},
          {"preemptions", state.preemptions},
          {"ended", state.ended},
          {"cancelled", state.cancelled},
          {"refused", state.refused},
          {"running", state.running},
          {"waiting", state.waiting},
          {"preempted", state.preempted},
          {"device_used", state.device_used},
          {"device_capacity", state.device_capacity},
          {"host_used", state.host_used},
          {"host_capacity", state.host_capacity},
          {"to_device", state.to_device},
          {"to_host", state.to_host},
          {"weight_bytes", state.weights},
          {"released", state.released},
          {"held", state.held},
          {"missed", state.missed},
          {"last_tokens", state.last_tokens}});
  json.key("tier");
  if (state.tier) {
    json.begin_object();
    fields({{"capacity_bytes", state.tier->capacity * state.tier->block_bytes},
            {"bytes", state.tier->blocks * state.tier->block_bytes},
            {"asked", state.tier->asked},
            {"found", state.tier->found},
            {"from_disk", state.tier->from_disk},
            {"loaded", state.tier->loaded}});
    json.end_object();
  } else {
    json.null();
  }
  json.key("busy_s").value(state.busy_s).key("stall_s").value(state.stall_s);
  json.key("planning_s").value(state.planning_s).key("paused_s").value(state.paused_s);
  json.key("last_step_s").value(state.last_step_s).key("last_stall_s").value(state.last_stall_s);
  json.key("requests").begin_array();
  for (const LiveRequest& row : state.requests) detail::write_live(json, row, state);
  json.end_array().key("queue").begin_array();
  for (const LiveWaiting& row : state.queue) {
    json.begin_object().key("id").value(row.id).key("prompt").value(row.prompt);
    detail::write_slo(json, row.attainment, state.now);
    json.end_object();
  }
  json.end_array();
  detail::write_recent(json, "recent_plans", state.recent_plans);
  detail::write_recent(json, "recent_moves", state.recent_moves);
  detail::write_recent(json, "recent_ends", state.recent_ends);
  json.key("history");
  state.history.write(json);
  json.end_object();
}

} // namespace sluice
