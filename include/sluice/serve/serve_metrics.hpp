// SPDX-License-Identifier: Apache-2.0
// ServeMetrics: a server's metrics as its clients see them, under vLLM's names.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/serve/openai_reply.hpp"
#include "sluice/serve/prometheus.hpp"
#include "sluice/serve/written_slos.hpp"

#include <array>
#include <cstdint>

namespace sluice {

namespace detail {

// vLLM's histogram bounds, so that its dashboards work unchanged.
inline constexpr std::array<double, 22> ttft_bounds{0.001, 0.005, 0.01, 0.02,  0.04,  0.06,  0.08, 0.1,
                                                    0.25,  0.5,   0.75, 1.0,   2.5,   5.0,   7.5,  10.0,
                                                    20.0,  40.0,  80.0, 160.0, 640.0, 2560.0};
inline constexpr std::array<double, 19> itl_bounds{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,  0.3,  0.4, 0.5,
                                                   0.75, 1.0,   2.5,  5.0,   7.5, 10.0, 20.0, 40.0, 80.0};
inline constexpr std::array<double, 21> e2e_bounds{0.3,  0.5,  0.8,   1.0,   1.5,   2.0,    2.5,
                                                   5.0,  10.0, 15.0,  20.0,  30.0,  40.0,   50.0,
                                                   60.0, 120., 240.0, 480.0, 960.0, 1920.0, 7680.0};
inline constexpr std::array<double, 14> delivery_bounds{0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01,
                                                        0.015,  0.02,  0.03,  0.05,  0.1,   0.25,   1.0};

// 1, 2, 5, 10, … up to a million tokens, which exceeds most models' context.
inline constexpr std::array<double, 19> token_bounds{1.,  2.,  5.,  10., 20., 50., 100., 200., 500., 1e3,
                                                     2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5,  5e5,  1e6};
inline constexpr std::array<double, 5> choice_bounds{1, 2, 5, 10, 20};

} // namespace detail

/// The requested and actual length of an answer, in tokens.
struct AnsweredLength {
  std::int64_t prompt = 0, generated = 0, most = 0;
  int choices = 1; ///< number of answers to its prompt
};

/// Latencies are measured when the server sends: from a request's arrival to the piece that contains its tokens.
struct ServeMetrics {
  PrometheusHistogram ttft{detail::ttft_bounds};
  PrometheusHistogram itl{detail::itl_bounds};
  PrometheusHistogram e2e{detail::e2e_bounds};
  PrometheusHistogram delivery{detail::delivery_bounds}; ///< per token: from when it was due until it was written
  WrittenSlos slos;
  PrometheusHistogram prompts{detail::token_bounds};  ///< prompt tokens of answers that ended by themselves
  PrometheusHistogram lengths{detail::token_bounds};  ///< generated tokens of these answers
  PrometheusHistogram most{detail::token_bounds};     ///< max_tokens of these answers
  PrometheusHistogram choices{detail::choice_bounds}; ///< n of these answers
  std::int64_t requests = 0;
  std::int64_t stopped = 0, cut = 0; ///< answers that ended with a stop, or at their maximum length
  std::int64_t left = 0;             ///< requests whose client disconnected
  std::int64_t refused = 0;          ///< requests refused by a gate or the engine, also later than on arrival
  std::int64_t over_requests = 0;    ///< requests refused because of their key's requests per minute
  std::int64_t over_tokens = 0;      ///< requests refused because of their key's tokens per minute
  std::int64_t failed = 0;           ///< requests that failed after the engine had accepted them
  std::int64_t prompt_tokens = 0;    ///< of requests that were not refused on arrival
  std::int64_t generation_tokens = 0;

  void ended(FinishReason reason, double seconds, const AnsweredLength& length = {});

  void write(PrometheusWriter& to) const;
};

} // namespace sluice

#ifndef SLUICE_SERVER_COMPILED
#include "sluice/serve/serve_metrics.inl.hpp"
#endif
