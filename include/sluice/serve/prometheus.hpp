// SPDX-License-Identifier: Apache-2.0
// Counters, gauges and histograms in Prometheus' text exposition format (version 0.0.4).
#pragma once

#include "sluice/core/compiled.hpp"

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
  void histogram(std::string_view name, std::string_view help, const PrometheusHistogram& values);

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

} // namespace sluice

#ifndef SLUICE_SERVER_COMPILED
#include "sluice/serve/prometheus.inl.hpp"
#endif
