// SPDX-License-Identifier: Apache-2.0
// ServeMetrics: a server's metrics as its clients see them, under vLLM's names.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/serve/generation.hpp"
#include "sluice/serve/openai_reply.hpp"
#include "sluice/serve/prometheus.hpp"
#include "sluice/serve/slo_attainment.hpp"
#include "sluice/serve/slo_class_table.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>

namespace sluice {

// WrittenSlos: SLO attainment as clients see it, when tokens are written to their connections.

/// Counts first tokens, gaps and deadlines at the write, against the SLOs that clients asked for (docs/metrics.md).
/// Measures delivery: from when a token was due until it was written.
///
/// `lead` is how much earlier than its SLO an engine must serve a request so that delivery does not break it: the P99,
/// over the newest answers, of an answer's slowest delivery, and at least a fifth of the SLO until a hundred answers
/// have ended. One late token breaks an answer's SLO, so the P99 of single tokens would break nearly every long answer.
/// Tokens that come together, as when a deposit is emptied at the end, were not due one by one and are left out.
class WrittenSlos {
 public:
  /// An answer that the engine has accepted; its request came at `arrival`.
  void begin(GenerationId id, const Slo& slo, double arrival);
  /// `tokens` of an answer, due at `due`, were written at `now`.
  void written(GenerationId id, std::int64_t tokens, double due, double now);
  /// The last token of an answer was written.
  void end(GenerationId id);
  /// The client left: deadlines count up to `now`. Before the first token is due, nothing is decided, nor counted.
  void leave(GenerationId id, double now);
  /// The server failed the answer, which misses its SLO.
  void fail(GenerationId id);
  /// The answer belongs to a request of which another answer was refused, and with it the request.
  void forget(GenerationId id) { live_.erase(id); }

  /// For a request with this SLO.
  [[nodiscard]] SloLead lead(const Slo& slo) const;
  /// As far as it was measured.
  [[nodiscard]] SloLead lead() const { return {Seconds{first_.quantile(0.99)}, Seconds{later_.quantile(0.99)}}; }
  [[nodiscard]] std::int64_t on_time() const { return on_time_; }
  [[nodiscard]] std::int64_t missed() const { return missed_; }
  [[nodiscard]] std::int64_t first_in_time() const { return first_in_time_; }
  [[nodiscard]] std::int64_t first_late() const { return first_late_; }

  void write(PrometheusWriter& to) const;

 private:
  struct Live {
    SloAttainment kept;
    double slowest; ///< delivery of a token after the first, seconds
  };
  struct Verdicts {
    std::int64_t met = 0, missed = 0;
  };
  static constexpr std::size_t window = 256, few = 100; // few: as in ForecastErrors

  void count(const SloAttainment& kept, Seconds now);

  std::unordered_map<GenerationId, Live> live_;
  SloClassTable<Verdicts> classes_;
  RecentQuantile first_{window}, later_{window};
  std::int64_t on_time_ = 0, missed_ = 0, first_in_time_ = 0, first_late_ = 0;
};

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
  std::int64_t cached_tokens = 0;    ///< of these prompts' tokens, those whose KV was loaded from a tier
  std::int64_t generation_tokens = 0;

  void ended(FinishReason reason, double seconds, const AnsweredLength& length = {});

  void write(PrometheusWriter& to) const;
};

} // namespace sluice

#ifndef SLUICE_SERVER_COMPILED
#include "sluice/serve/serve_metrics.inl.hpp"
#endif
