// SPDX-License-Identifier: Apache-2.0
// Counters, gauges and histograms in Prometheus' text exposition format (version 0.0.4).
#pragma once

#include "sluice/report/observer/json_writer.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
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
  explicit PrometheusHistogram(std::span<const double> bounds)
      : bounds_(bounds.begin(), bounds.end()), counts_(bounds.size() + 1, 0) {}

  void observe(double value, std::int64_t times = 1) {
    const auto at = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
    counts_[static_cast<std::size_t>(at)] += times;
    sum_ += value * static_cast<double>(times);
    count_ += times;
  }
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

  PrometheusWriter(std::string& out, Labels common) : out_(out) {
    for (const auto& [name, value] : common) append_label(common_, name, value);
  }

  /// Writes a value that only grows; the format requires a name that ends in `_total`.
  void counter(std::string_view name, std::string_view help, double value, Labels labels = {}) {
    describe(name, help, "counter");
    sample(name, "", labels, "", value);
  }
  void gauge(std::string_view name, std::string_view help, double value, Labels labels = {}) {
    describe(name, help, "gauge");
    sample(name, "", labels, "", value);
  }
  void histogram(std::string_view name, std::string_view help, const PrometheusHistogram& values) {
    describe(name, help, "histogram");
    std::int64_t up_to = 0;
    for (std::size_t i = 0; i < values.counts().size(); ++i) {
      up_to += values.counts()[i];
      const std::string bound = i < values.bounds().size() ? number(values.bounds()[i]) : "+Inf";
      sample(name, "_bucket", {}, bound, static_cast<double>(up_to));
    }
    sample(name, "_sum", {}, "", values.sum());
    sample(name, "_count", {}, "", static_cast<double>(values.count()));
  }

 private:
  static std::string number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
    std::string text;
    JsonWriter(text).value(value);
    return text;
  }
  /// Escapes backslashes, quotes and line ends in the value.
  static void append_label(std::string& to, std::string_view name, std::string_view value) {
    if (!to.empty()) to += ',';
    to += name;
    to += "=\"";
    for (const char c : value) {
      if (c == '\\' || c == '"') to += '\\';
      if (c == '\n')
        to += "\\n";
      else
        to += c;
    }
    to += '"';
  }
  /// Writes the metric's header once per name: samples with the same name and different labels follow one another.
  void describe(std::string_view name, std::string_view help, std::string_view type) {
    if (name == last_) return;
    last_ = name;
    out_.append("# HELP ").append(name).append(" ").append(help).append("\n# TYPE ").append(name);
    out_.append(" ").append(type).append("\n");
  }
  void sample(std::string_view name, std::string_view suffix, Labels labels, std::string_view bound, double value) {
    std::string all = common_;
    for (const auto& [key, content] : labels) append_label(all, key, content);
    if (!bound.empty()) append_label(all, "le", bound);
    out_.append(name).append(suffix);
    if (!all.empty()) out_.append("{").append(all).append("}");
    out_.append(" ").append(number(value)).append("\n");
  }

  std::string& out_;
  std::string common_;
  std::string last_;
};

} // namespace sluice
