// SPDX-License-Identifier: Apache-2.0
// ServeMetrics: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/serve/serve_metrics.hpp"

#include <algorithm>
#include <cmath>

namespace sluice {

SLUICE_SERVER_INLINE void WrittenSlos::begin(GenerationId id, const Slo& slo, double arrival) {
  live_.insert_or_assign(id, Live{{.slo = slo, .arrival = Seconds{arrival}}, 0});
}

SLUICE_SERVER_INLINE void WrittenSlos::written(GenerationId id, std::int64_t tokens, double due, double now) {
  const auto found = live_.find(id);
  if (found == live_.end() || tokens < 1) return;
  Live& live = found->second;
  const double took = std::max(0.0, now - due);
  if (!live.kept.started())
    first_.add(took);
  else if (tokens == 1)
    live.slowest = std::max(live.slowest, took);
  const SloAttainment::Counted counted = live.kept.release(tokens, Seconds{now});
  on_time_ += counted.on_time;
  missed_ += counted.missed;
  if (counted.first && !std::isinf(live.kept.slo.ttft.count()))
    (live.kept.first_is_late(Seconds{now}) ? first_late_ : first_in_time_) += 1;
}

SLUICE_SERVER_INLINE void WrittenSlos::end(GenerationId id) {
  const auto found = live_.find(id);
  if (found == live_.end()) return;
  if (found->second.kept.started()) {
    later_.add(found->second.slowest);
    count(found->second.kept, found->second.kept.last);
  }
  live_.erase(found);
}

SLUICE_SERVER_INLINE void WrittenSlos::leave(GenerationId id, double now) {
  const auto found = live_.find(id);
  if (found == live_.end()) return;
  const SloAttainment& kept = found->second.kept;
  missed_ += kept.missing(Seconds{now});
  if (kept.started() || kept.first_is_late(Seconds{now})) count(kept, Seconds{now});
  live_.erase(found);
}

SLUICE_SERVER_INLINE void WrittenSlos::fail(GenerationId id) {
  const auto found = live_.find(id);
  if (found == live_.end()) return;
  if (found->second.kept.has_slo()) ++classes_.of(found->second.kept.slo).missed;
  live_.erase(found);
}

SLUICE_SERVER_INLINE SloLead WrittenSlos::lead(const Slo& slo) const {
  const SloLead measured = lead(), little = unmeasured_lead(slo);
  return {first_.size() < few ? std::max(measured.ttft, little.ttft) : measured.ttft,
          later_.size() < few ? std::max(measured.tbt, little.tbt) : measured.tbt};
}

SLUICE_SERVER_INLINE void WrittenSlos::write(PrometheusWriter& to) const {
  const auto whole = [](std::int64_t count) { return static_cast<double>(count); };
  to.counter("sluice:tokens_on_time_total", "Tokens written within the SLO after another.", whole(on_time_));
  to.counter("sluice:deadlines_missed_total", "Deadlines for a token that passed without one.", whole(missed_));
  to.counter("sluice:first_tokens_total", "First tokens with an SLO, by whether they were written in time.",
             whole(first_in_time_), {{"in_time", "true"}});
  to.counter("sluice:first_tokens_total", "", whole(first_late_), {{"in_time", "false"}});
  classes_.each([&](const SloClassName& name, const Verdicts& of) {
    for (const bool met : {true, false})
      to.counter("sluice:slo_answers_total",
                 "Answers with an SLO that are over, by SLO class and by whether every token was written in time.",
                 whole(met ? of.met : of.missed),
                 {{"ttft", name.ttft}, {"tbt", name.tbt}, {"met", met ? "true" : "false"}});
  });
  to.gauge("sluice:delivery_lead_seconds",
           "How much earlier than the SLO the engine serves, because delivery takes that long.", lead().ttft.count(),
           {{"of", "ttft"}});
  to.gauge("sluice:delivery_lead_seconds", "", lead().tbt.count(), {{"of", "tbt"}});
}

SLUICE_SERVER_INLINE void WrittenSlos::count(const SloAttainment& kept, Seconds now) {
  const SloAttainment::Verdict verdict = kept.verdict(now);
  if (verdict == SloAttainment::Verdict::none) return;
  Verdicts& of = classes_.of(kept.slo);
  (verdict == SloAttainment::Verdict::met ? of.met : of.missed) += 1;
}

SLUICE_SERVER_INLINE void ServeMetrics::ended(FinishReason reason, double seconds, const AnsweredLength& length) {
  (reason == FinishReason::stop ? stopped : cut) += 1;
  e2e.observe(seconds);
  prompts.observe(static_cast<double>(length.prompt));
  lengths.observe(static_cast<double>(length.generated));
  most.observe(static_cast<double>(length.most));
  choices.observe(length.choices);
}

SLUICE_SERVER_INLINE void ServeMetrics::write(PrometheusWriter& to) const {
  const auto whole = [](std::int64_t count) { return static_cast<double>(count); };
  to.histogram("vllm:time_to_first_token_seconds", "Histogram of time to first token in seconds.", ttft);
  to.histogram("vllm:inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", itl);
  to.histogram("vllm:e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", e2e);
  to.histogram("vllm:request_prompt_tokens", "Number of prefill tokens processed.", prompts);
  to.histogram("vllm:request_generation_tokens", "Number of generation tokens processed.", lengths);
  // vLLM's metric covers all answers to a prompt; here each answer is its own request of the engine.
  to.histogram("vllm:request_max_num_generation_tokens", "Histogram of maximum number of requested generation tokens.",
               lengths);
  to.histogram("vllm:request_params_max_tokens", "Histogram of the max_tokens request parameter.", most);
  to.histogram("vllm:request_params_n", "Histogram of the n request parameter.", choices);
  to.histogram("sluice:delivery_seconds", "Time from when a token was due to when it was written.", delivery);
  to.counter("vllm:prompt_tokens_total", "Number of prefill tokens processed.", whole(prompt_tokens));
  to.counter("vllm:prompt_tokens_cached_total", "Number of cached prompt tokens (local + external).",
             whole(cached_tokens));
  to.counter("vllm:generation_tokens_total", "Number of generation tokens processed.", whole(generation_tokens));
  to.counter("vllm:request_success_total", "Count of successfully processed requests.", whole(stopped),
             {{"finished_reason", "stop"}});
  to.counter("vllm:request_success_total", "", whole(cut), {{"finished_reason", "length"}});
  to.counter("vllm:request_success_total", "", whole(left), {{"finished_reason", "abort"}});
  to.counter("vllm:request_success_total", "", whole(failed), {{"finished_reason", "error"}});
  slos.write(to);
  to.counter("sluice:requests_total", "Requests that an engine was asked for.", whole(requests));
  to.counter("sluice:refused_total", "Requests that a gate or the engine refused.", whole(refused));
  to.counter("sluice:rate_limited_total", "Requests refused by their key's limits.", whole(over_requests),
             {{"limit", "requests"}});
  to.counter("sluice:rate_limited_total", "", whole(over_tokens), {{"limit", "tokens"}});
}

} // namespace sluice
