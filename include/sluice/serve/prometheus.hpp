// SPDX-License-Identifier: Apache-2.0
// Counters, gauges and histograms in Prometheus' text exposition format (version 0.0.4).
#pragma once

#include "sluice/core/compiled.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

/// Counts values per bucket. The counts become cumulative when they are written, as the format requires.
class PrometheusHistogram {
 public:
  /// `bounds` must ascend; values above the last bound count only in +Inf.
  explicit PrometheusHistogram(std::span<const double> bounds);

  void observe(double value, std::int64_t times = 1);
  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] double sum() const { return sum_; }
  [[nodiscard]] std::span<const double> bounds() const { return bounds_; }
  [[nodiscard]] std::span<const std::int64_t> counts() const { return counts_; }

 private:
  std::vector<double> bounds_;
  std::vector<std::int64_t> counts_; ///< per bucket, not cumulative
  double sum_ = 0;
  std::int64_t count_ = 0;
};

/// Writes metrics, all with the `common` labels, such as `model_name="demo"`.
class PrometheusWriter {
 public:
  using Labels = std::initializer_list<std::pair<std::string_view, std::string_view>>;

  PrometheusWriter(std::string& out, Labels common);

  /// Writes a value that only grows; the format requires a name that ends in `_total`.
  void counter(std::string_view name, std::string_view help, double value, Labels labels = {});
  void gauge(std::string_view name, std::string_view help, double value, Labels labels = {});
  void histogram(std::string_view name, std::string_view help, const PrometheusHistogram& values, Labels labels = {});

 private:
  static std::string number(double value);
  /// Escapes backslashes, quotes and line ends in the value.
  static void append_label(std::string& to, std::string_view name, std::string_view value);
  /// Writes the metric's header once per name: samples with the same name and different labels follow one another.
  void describe(std::string_view name, std::string_view help, std::string_view type);
  void sample(std::string_view name, std::string_view suffix, Labels labels, std::string_view bound, double value);

  std::string& out_;
  std::string common_;
  std::string last_;
};

// RequestPhases: how long requests wait, prefill and decode, in vLLM's histograms.

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

#ifndef SLUICE_COMPILED
#include "sluice/serve/prometheus.inl.hpp"
#endif
