// SPDX-License-Identifier: Apache-2.0
// ServeMetrics: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/serve/serve_metrics.hpp"

namespace sluice {

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
