// SPDX-License-Identifier: Apache-2.0
// RequestPhases: how long requests wait, prefill and decode, in vLLM's histograms.
#pragma once

#include "sluice/serve/prometheus.hpp"

#include <array>
#include <cstdint>

namespace sluice {
namespace detail {

// vLLM's histogram bounds for whole requests and for tokens.
inline constexpr std::array<double, 21> request_bounds{0.3,  0.5,  0.8,   1.0,   1.5,   2.0,    2.5,
                                                       5.0,  10.0, 15.0,  20.0,  30.0,  40.0,   50.0,
                                                       60.0, 120., 240.0, 480.0, 960.0, 1920.0, 7680.0};
inline constexpr std::array<double, 19> token_time_bounds{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,  0.3,  0.4, 0.5,
                                                          0.75, 1.0,   2.5,  5.0,   7.5, 10.0, 20.0, 40.0, 80.0};

} // namespace detail

/// Counts requests that generated a token. A preempted request's pauses belong to the phase in which it was preempted.
class RequestPhases {
 public:
  /// Records the seconds from arrival to the first iteration, from there to the first token, and from there to the last
  /// of `tokens`.
  void observe(double queue, double prefill, double decode, std::int64_t tokens) {
    queue_.observe(queue);
    prefill_.observe(prefill);
    decode_.observe(decode);
    inference_.observe(prefill + decode);
    if (tokens > 1) per_token_.observe(decode / static_cast<double>(tokens - 1));
  }
  void write(PrometheusWriter& to) const {
    to.histogram("vllm:request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.", queue_);
    to.histogram("vllm:request_prefill_time_seconds", "Histogram of time spent in PREFILL phase for request.",
                 prefill_);
    to.histogram("vllm:request_decode_time_seconds", "Histogram of time spent in DECODE phase for request.", decode_);
    to.histogram("vllm:request_inference_time_seconds", "Histogram of time spent in RUNNING phase for request.",
                 inference_);
    to.histogram("vllm:request_time_per_output_token_seconds",
                 "Histogram of time_per_output_token_seconds per request.", per_token_);
  }

 private:
  PrometheusHistogram queue_{detail::request_bounds}, prefill_{detail::request_bounds}, decode_{detail::request_bounds},
      inference_{detail::request_bounds}, per_token_{detail::token_time_bounds};
};

} // namespace sluice
