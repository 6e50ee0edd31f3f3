// SPDX-License-Identifier: Apache-2.0
// EngineFigures: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/serve/engine_figures.hpp"
#include "sluice/serve/live_json.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace sluice {

SLUICE_INLINE void EngineFigures::entered(RequestId id, const RequestSpec& spec, const Asked& asked,
                                          Seconds predicted_ttft, Seconds submitted) {
  const SloAttainment attainment{.slo = asked.slo, .arrival = spec.arrival};
  Note note{attainment, ahead_of(asked.slo, asked.lead), predicted_ttft};
  note.submitted = submitted;
  notes_.insert_or_assign(index(id), note);
  queue_.push_back({index(id), spec.prompt.count(), attainment});
}

SLUICE_INLINE void EngineFigures::hear(const AnyEvent& event) {
  event.visit(hears{}, [this](const auto& of_its_type) { this->on(of_its_type); });
}

SLUICE_INLINE void EngineFigures::on(const events::Delivered& event) {
  const std::int64_t count = event.count.count();
  const Seconds when = event.when;
  state_.released += count;
  const auto found = notes_.find(index(event.row.id));
  if (found == notes_.end() || count < 1) return;
  Note& note = found->second;
  const SloAttainment::Counted counted = note.attainment.release(count, when);
  state_.missed += counted.missed;
  if (!counted.first) return;
  state_.prompts += event.row.spec.prompt.count();
  state_.found_on_device += (event.row.found - event.row.loaded).count();
  if (note.predicted_ttft.count() < 0) return;
  ++state_.forecast_first_tokens;
  state_.forecast_error_s += std::abs((when - note.attainment.arrival - note.predicted_ttft).count());
}

SLUICE_INLINE void EngineFigures::on(const events::Preempted& event) {
  ++state_.preemptions;
  LiveEvent shown = event_of(LiveEvent::Kind::preempt, event.row, event.now);
  shown.kept = event.kept;
  state_.recent_moves.add(shown);
}

SLUICE_INLINE void EngineFigures::on(const events::Resumed& event) {
  LiveEvent shown = event_of(LiveEvent::Kind::resume, event.row, event.now);
  shown.away = event.now - event.row.preempted_since;
  shown.to_compute = event.row.pending().count();
  state_.paused_s += shown.away.count();
  state_.recent_moves.add(shown);
}

SLUICE_INLINE void EngineFigures::on(const events::Ended& event) {
  ++state_.ended;
  over(LiveEvent::Kind::end, event.row, event.now);
}

SLUICE_INLINE void EngineFigures::on(const events::Cancelled& event) {
  ++state_.cancelled;
  over(LiveEvent::Kind::cancel, event.row, event.now);
}

SLUICE_INLINE void EngineFigures::on(const events::Refused& event) {
  if (!notes_.contains(index(event.id))) return;
  refused(event.reason);
  forget(index(event.id));
}

SLUICE_INLINE void EngineFigures::refused(std::string_view reason, bool foreseen) {
  ++state_.refused;
  if (foreseen) ++state_.forecast_refused;
  state_.refusal = reason;
}

SLUICE_INLINE void EngineFigures::forecast(double took_s) {
  ++state_.forecasts;
  state_.forecasting_s += took_s;
}

SLUICE_INLINE const SloAttainment* EngineFigures::attainment(RequestId id) const {
  const auto found = notes_.find(index(id));
  return found == notes_.end() ? nullptr : &found->second.attainment;
}

SLUICE_INLINE Slo EngineFigures::firm(RequestId id) const {
  const auto found = notes_.find(index(id));
  return found == notes_.end() ? Slo{} : found->second.firm;
}

SLUICE_INLINE void EngineFigures::on(const events::Planned& event) {
  const View& view = event.view;
  const Plan& plan = event.plan;
  ++state_.plans;
  state_.planning_s += event.wall_time.count();
  LivePlan shown;
  shown.number = state_.plans;
  shown.step = view.step;
  shown.when = view.now;
  shown.requests = static_cast<std::int64_t>(plan.requests.size());
  for (const RequestPlan& part : plan.requests) {
    const int layers = part.holding.away().count();
    if (layers == 0) continue;
    const auto at = static_cast<std::size_t>(shown.offload++);
    if (at < LivePlan::most_named) shown.away[at] = {index(view.row(part.slot).id), layers};
  }
  shown.streamed = plan.weights.streamed.count();
  shown.in_flight = plan.in_flight.count();
  shown.predicted = plan.predicted_step;
  shown.bound = plan.lower_bound;
  shown.proven = plan.proven_optimal;
  shown.binding = plan.binding;
  shown.effort = plan.effort;
  shown.wall = event.wall_time;
  state_.recent_plans.add(shown);
}

SLUICE_INLINE void EngineFigures::forecast_errors(const ForecastErrors& errors) {
  if (errors.measured() == state_.forecast_errors_measured) return;
  state_.forecast_errors_measured = errors.measured();
  state_.forecast_errors.clear();
  errors.each([&](const SloClassName& name, const ForecastErrorsOfClass& of) {
    state_.forecast_errors.push_back({name, ForecastErrorQuantiles::of(of.ttft), ForecastErrorQuantiles::of(of.gap)});
  });
}

SLUICE_INLINE void EngineFigures::on(const events::Iterated& event) {
  const IterationRecord& record = event.record;
  ++state_.steps;
  state_.busy_s += record.duration.count();
  state_.stall_s += record.stall.count();
  state_.to_device += record.to_device.count();
  state_.to_host += record.to_host.count();
  state_.weights += record.weights.count();
  state_.last_step_s = record.duration.count();
  state_.last_stall_s = record.stall.count();
  state_.last_tokens = record.tokens.count();
}

SLUICE_INLINE void EngineFigures::update(const View& view, const std::optional<HostTierCounts>& tier,
                                         std::int64_t at_gate) {
  state_.now = view.now;
  state_.tier = tier;
  state_.layers = view.geometry.layers;
  state_.block_tokens = view.limits.block_tokens.count();
  state_.layer_block_bytes = view.geometry.layer_block_bytes.count();
  state_.running = static_cast<std::int64_t>(view.running.size());
  // No list names the rows that wait. A row that is free says that its request has ended.
  state_.loading = std::count_if(view.rows.begin(), view.rows.end(), [](const RequestRow& row) {
    return row.waits && (row.phase == Phase::waiting || row.phase == Phase::preempted);
  });
  state_.waiting = view.waiting + at_gate;
  state_.at_gate = at_gate;
  state_.preempted = static_cast<std::int64_t>(view.preempted.size());
  state_.device_used = view.ledger->device().used().count();
  state_.device_capacity = view.ledger->device().capacity().count();
  state_.host_used = view.ledger->host().used().count();
  state_.host_capacity = view.ledger->host().capacity().count();
  state_.requests.clear();
  state_.held = 0;
  bool entered = false;
  for (const auto* list : {&view.running, &view.preempted})
    for (const Slot slot : *list) entered |= show(view.row(slot), list == &view.preempted);
  if (entered) std::erase_if(queue_, [&](const LiveWaiting& waiting) { return !waits(waiting.id); });
  state_.queue.assign(queue_.begin(),
                      queue_.begin() + static_cast<std::ptrdiff_t>(std::min(queue_.size(), LiveState::most_waiting)));
  state_.history.add({view.now.count(), state_.running, state_.waiting, state_.preempted, state_.device_used,
                      state_.device_capacity, state_.host_used, state_.to_device, state_.to_host, state_.released,
                      state_.missed, state_.busy_s, state_.stall_s});
  publish();
}

SLUICE_INLINE void EngineFigures::failed(std::string_view why) {
  state_.failure = why;
  state_.running = state_.waiting = state_.preempted = state_.loading = state_.at_gate = state_.held = 0;
  state_.requests.clear();
  state_.queue.clear();
  publish();
}

SLUICE_INLINE void EngineFigures::metrics(PrometheusWriter& to) const {
  const std::lock_guard lock{mutex_};
  const LiveState& s = published_;
  const auto whole = [](std::int64_t count) { return static_cast<double>(count); };
  to.gauge("vllm:num_requests_running", "Number of requests in model execution batches.", whole(s.running));
  to.gauge("vllm:num_requests_waiting", "Number of requests waiting to be processed.", whole(s.waiting + s.preempted));
  to.gauge("vllm:num_requests_waiting_by_reason", "Number of requests waiting to be processed, by reason.",
           whole(s.waiting + s.preempted - s.loading - s.at_gate), {{"reason", "capacity"}});
  to.gauge("vllm:num_requests_waiting_by_reason", "", whole(s.loading), {{"reason", "deferred"}});
  to.gauge("vllm:num_requests_waiting_by_reason", "", whole(s.at_gate), {{"reason", "gate"}});
  to.gauge("vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.",
           s.device_capacity > 0 ? whole(s.device_used) / whole(s.device_capacity) : 0);
  to.counter("vllm:num_preemptions_total", "Cumulative number of preemptions from the engine.", whole(s.preemptions));
  phases_.write(to);
  to.gauge("vllm:cache_config_info", "Information of the LLMEngine CacheConfig.", 1,
           {{"block_size", std::to_string(s.block_tokens)},
            {"num_gpu_blocks", std::to_string(s.layers > 0 ? s.device_capacity / s.layers : 0)},
            {"num_cpu_blocks", std::to_string(s.layers > 0 ? s.host_capacity / s.layers : 0)},
            {"enable_prefix_caching", s.tier || s.found_on_device > 0 ? "True" : "False"}});
  to.counter("vllm:prefix_cache_queries_total", "Prefix cache queries, in terms of number of queried tokens.",
             whole(s.tier ? s.tier->asked : s.prompts));
  to.counter("vllm:prefix_cache_hits_total", "Prefix cache hits, in terms of number of cached tokens.",
             whole(s.found_on_device));
  if (s.tier) write_tier(to, *s.tier);
  to.gauge("sluice:num_requests_preempted", "Requests that are paused.", whole(s.preempted));
  to.counter("sluice:paused_seconds_total", "Time for which requests that came back had been paused.", s.paused_s);
  to.counter("sluice:steps_total", "Iterations of the engine.", whole(s.steps));
  to.counter("sluice:busy_seconds_total", "Time in iterations.", s.busy_s);
  to.counter("sluice:stall_seconds_total", "Time that computing waited for transfers.", s.stall_s);
  to.counter("sluice:blocks_to_device_total", "Layer blocks of KV fetched from the host.", whole(s.to_device));
  to.counter("sluice:blocks_to_host_total", "Layer blocks of KV moved to the host.", whole(s.to_host));
  to.counter("sluice:weight_bytes_total", "Bytes of weights streamed to the device.", whole(s.weights));
  to.counter("sluice:plans_total", "Plans made.", whole(s.plans));
  to.counter("sluice:planning_seconds_total", "Wall time of planning.", s.planning_s);
  to.counter("sluice:tokens_released_total", "Tokens that the engine has handed over.", whole(s.released));
  to.gauge("sluice:deposit_tokens", "Tokens made and held back.", whole(s.held));
  to.counter("sluice:forecasts_total", "Looks ahead by a gate; a newcomer that it holds gets several.",
             whole(s.forecasts));
  to.counter("sluice:forecast_refused_total", "Newcomers refused because a promise would break.",
             whole(s.forecast_refused));
  to.counter("sluice:forecast_unlooked_total",
             "Newcomers for whom there was no time to look ahead, by what became of them.", whole(s.unlooked_admitted),
             {{"admitted", "true"}});
  to.counter("sluice:forecast_unlooked_total", "", whole(s.unlooked_refused), {{"admitted", "false"}});
  for (std::size_t at = 0; at <= gate_classes.size(); ++at)
    for (const bool admitted : {false, true})
      to.counter("sluice:gate_answers_total", "What the gates answered, by the prompt's length in tokens.",
                 whole(s.gate_answers[at][admitted ? 1 : 0]),
                 {{"prompt_below", at < gate_classes.size() ? std::to_string(gate_classes[at]) : "+Inf"},
                  {"admitted", admitted ? "true" : "false"}});
  to.counter("sluice:forecast_seconds_total", "Time of the engine's thread that looking ahead took.", s.forecasting_s);
  to.gauge("sluice:forecast_slowdown", "Of iterations: what they take over what the cost model says, as measured.",
           s.forecast_slowdown);
  to.counter("sluice:forecast_first_tokens_total", "First tokens that came and had been predicted.",
             whole(s.forecast_first_tokens));
  to.counter("sluice:forecast_ttft_error_seconds_total", "Sum of how far they were from the prediction.",
             s.forecast_error_s);
  write_errors(to, s);
  to.counter("sluice:ended_total", "Requests that ended by themselves.", whole(s.ended));
  to.counter("sluice:cancelled_total", "Requests whose client left.", whole(s.cancelled));
}

SLUICE_INLINE std::string EngineFigures::live(Clock::time_point now) const {
  LiveState copy;
  double age = 0;
  {
    const std::lock_guard lock{mutex_};
    copy = published_;
    age = std::chrono::duration<double>(now - published_at_).count();
  }
  std::string text;
  write_live(text, copy, std::max(0.0, age));
  return text;
}

SLUICE_INLINE void EngineFigures::write_tier(PrometheusWriter& to, const HostTierCounts& tier) {
  const auto whole = [](std::int64_t count) { return static_cast<double>(count); };
  to.counter("vllm:external_prefix_cache_queries_total",
             "External prefix cache queries from KV connector cross-instance cache sharing, in terms of number of "
             "queried tokens.",
             whole(tier.asked));
  to.counter("vllm:external_prefix_cache_hits_total",
             "External prefix cache hits from KV connector cross-instance cache sharing, in terms of number of "
             "cached tokens.",
             whole(tier.loaded));
  // vLLM has replaced the counters by transfer type, and keeps them for compatibility.
  for (const auto& [type, moved] : {std::pair{"CPU_to_GPU", &tier.to_device}, {"GPU_to_CPU", &tier.to_host}})
    to.counter("vllm:kv_offload_total_bytes_total", "Number of bytes offloaded by KV connector", whole(moved->bytes),
               {{"transfer_type", type}});
  for (const auto& [type, moved] : {std::pair{"CPU_to_GPU", &tier.to_device}, {"GPU_to_CPU", &tier.to_host}})
    to.counter("vllm:kv_offload_total_time_total", "Total time measured by all KV offloading operations",
               moved->seconds, {{"transfer_type", type}});
  to.counter("vllm:kv_offload_load_bytes_total", "Bytes loaded from offload storage to GPU.",
             whole(tier.to_device.bytes));
  to.counter("vllm:kv_offload_load_time_total", "Load time from offload storage to GPU, in seconds.",
             tier.to_device.seconds);
  to.counter("vllm:kv_offload_store_bytes_total", "Bytes stored from GPU to offload storage.",
             whole(tier.to_host.bytes));
  to.counter("vllm:kv_offload_store_time_total", "Store time from GPU to offload storage, in seconds.",
             tier.to_host.seconds);
  to.counter(
      "sluice:tier_found_tokens_total",
      "Tokens of prompts whose KV was found, by tier, whether it was loaded or not; of a disk only what was read.",
      whole(tier.found - tier.from_disk), {{"tier", "host"}});
  to.counter("sluice:tier_found_tokens_total", "", whole(tier.from_disk), {{"tier", "disk"}});
  // Each metric of the host, and of the disk if there is one.
  const auto both = [&](const auto& write, const char* name, const char* help, std::int64_t host, std::int64_t disk) {
    write(name, help, whole(host), "host");
    if (tier.disk.capacity > 0) write(name, "", whole(disk), "disk");
  };
  const auto gauge = [&to](const char* name, const char* help, double value, const char* of) {
    to.gauge(name, help, value, {{"tier", of}});
  };
  const auto counter = [&to](const char* name, const char* help, double value, const char* of) {
    to.counter(name, help, value, {{"tier", of}});
  };
  both(gauge, "sluice:tier_capacity_bytes", "Memory of a tier.", tier.capacity * tier.block_bytes, tier.disk.capacity);
  both(gauge, "sluice:tier_used_bytes", "Memory of a tier that has KV of ended requests.",
       tier.blocks * tier.block_bytes, tier.disk.bytes);
  both(counter, "sluice:tier_stored_blocks_total", "Token blocks that a tier got.", tier.stored, tier.disk.written);
  both(counter, "sluice:tier_evicted_blocks_total", "Token blocks that a tier has evicted.", tier.evicted,
       tier.disk.evicted);
  to.counter("sluice:tier_refused_blocks_total",
             "Token blocks of ended requests for which a tier had no room: a request exceeds it, or others are pinned "
             "(by sessions, by prompts that wait, or until they have been copied for the disk), worth more, or on "
             "their way.",
             whole(tier.refused), {{"tier", "host"}});
  if (tier.disk.capacity > 0) {
    gauge("sluice:tier_waiting_blocks", "Token blocks that are on their way to a tier.", whole(tier.disk.waiting),
          "disk");
    counter("sluice:tier_faults_total", "Reads and writes of a tier that failed, and damaged records.",
            whole(tier.disk.faults), "disk");
  }
  to.gauge("sluice:tier_pinned_bytes", "Memory of a tier that sessions pin.", whole(tier.pinned * tier.block_bytes),
           {{"tier", "host"}});
  to.counter("sluice:tier_pins_total", "Pins that sessions asked for.", whole(tier.pins), {{"tier", "host"}});
  to.counter("sluice:tier_lost_pins_total",
             "Of these, pins that were refused or ended early, for lack of room or of their key's share.",
             whole(tier.lost_pins), {{"tier", "host"}});
  to.counter("sluice:tier_read_bytes_total", "KV read from a tier.", whole(tier.disk_reads.bytes), {{"tier", "disk"}});
  to.counter("sluice:tier_read_seconds_total", "Time of these reads, one after the other.", tier.disk_reads.seconds,
             {{"tier", "disk"}});
}

SLUICE_INLINE void EngineFigures::write_errors(PrometheusWriter& to, const LiveState& state) {
  static constexpr const char* name = "sluice:forecast_error_seconds";
  static constexpr const char* help = "TTFT and longest gap of the newest requests, measured less foretold, by SLO "
                                      "class. The quantile 0.99 is the margin of forecasts.";
  for (const auto& of : state.forecast_errors)
    for (const auto& [what, errors] : {std::pair{"ttft", &of.ttft}, {"gap", &of.gap}})
      if (errors->count > 0)
        for (std::size_t at = 0; at < ForecastErrorQuantiles::shares.size(); ++at)
          to.gauge(name, help, errors->seconds[at],
                   {{"ttft", of.name.ttft},
                    {"tbt", of.name.tbt},
                    {"of", what},
                    {"quantile", ForecastErrorQuantiles::names[at]}});
}

SLUICE_INLINE void EngineFigures::publish() {
  const Clock::time_point at = Clock::now();
  const std::lock_guard lock{mutex_};
  published_ = state_;
  published_at_ = at;
}

SLUICE_INLINE bool EngineFigures::waits(std::uint32_t id) const {
  const auto found = notes_.find(id);
  return found != notes_.end() && found->second.waits;
}

SLUICE_INLINE void EngineFigures::forget(std::uint32_t id) {
  if (waits(id)) std::erase_if(queue_, [&](const LiveWaiting& waiting) { return waiting.id == id; });
  notes_.erase(id);
}

SLUICE_INLINE bool EngineFigures::show(const RequestRow& row, bool preempted) {
  LiveRequest shown;
  shown.id = index(row.id);
  shown.phase = preempted                                                 ? LiveRequest::Phase::preempted
                : row.generated.count() > 0 && row.pending().count() <= 1 ? LiveRequest::Phase::decode
                                                                          : LiveRequest::Phase::prefill;
  shown.prompt = row.spec.prompt.count();
  shown.computed = row.computed.count();
  shown.generated = row.generated.count();
  shown.delivered = row.delivered.count();
  shown.has_kv = row.blocks.count() > 0;
  shown.host = row.holding.host;
  shown.nowhere = row.holding.nowhere;
  shown.hidden = row.holding.hidden;
  shown.states_on_device = row.holding.states_on_device;
  shown.head = row.holding.head;
  shown.times_preempted = row.times_preempted;
  shown.preempted_since = row.preempted_since;
  state_.held += row.deposit().count();
  bool first = false;
  if (const auto found = notes_.find(shown.id); found != notes_.end()) {
    shown.attainment = found->second.attainment;
    first = std::exchange(found->second.waits, false);
    if (first) found->second.scheduled = std::max(shown.attainment.arrival, state_.now - Seconds{state_.last_step_s});
  } else { // the request arrived before this object was made
    shown.attainment = {.slo = row.spec.slo, .arrival = row.spec.arrival};
  }
  state_.requests.push_back(shown);
  return first;
}

SLUICE_INLINE LiveEvent EngineFigures::event_of(LiveEvent::Kind kind, const RequestRow& row, Seconds now) {
  LiveEvent event;
  event.kind = kind;
  event.id = index(row.id);
  event.when = now;
  event.generated = row.generated.count();
  event.held = row.deposit().count();
  return event;
}

SLUICE_INLINE void EngineFigures::note_phases(const Note& note, const RequestRow& row) {
  const SloAttainment& at = note.attainment;
  if (!at.started()) return;
  const Seconds scheduled = note.scheduled.count() < 0 ? at.first : std::min(note.scheduled, at.first);
  const std::lock_guard lock{mutex_};
  phases_.observe((scheduled - at.arrival).count(), (at.first - scheduled).count(), (at.last - at.first).count(),
                  row.delivered.count());
}

SLUICE_INLINE void EngineFigures::over(LiveEvent::Kind kind, const RequestRow& row, Seconds now) {
  LiveEvent event = event_of(kind, row, now);
  if (const auto found = notes_.find(event.id); found != notes_.end()) {
    const SloAttainment& attainment = found->second.attainment;
    if (attainment.started()) event.first = attainment.first - attainment.arrival;
    note_phases(found->second, row);
    event.missed = attainment.missed;
    event.verdict = attainment.verdict(attainment.started() ? attainment.last : now);
    if (served_ != nullptr)
      served_->over({row.id, row.spec.whole(not_a_policy), row.generated, attainment, found->second.scheduled, now,
                     kind == LiveEvent::Kind::cancel, found->second.submitted});
  }
  forget(event.id);
  state_.recent_ends.add(event);
}

} // namespace sluice
