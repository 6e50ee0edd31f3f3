// SPDX-License-Identifier: Apache-2.0
// prometheus: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/report/observer/json_writer.hpp"
#include "sluice/serve/prometheus.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace sluice {

SLUICE_INLINE PrometheusHistogram::PrometheusHistogram(std::span<const double> bounds)
    : bounds_(bounds.begin(), bounds.end()), counts_(bounds.size() + 1, 0) {}

SLUICE_INLINE void PrometheusHistogram::observe(double value, std::int64_t times) {
  const auto at = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  counts_[static_cast<std::size_t>(at)] += times;
  sum_ += value * static_cast<double>(times);
  count_ += times;
}

SLUICE_INLINE PrometheusWriter::PrometheusWriter(std::string& out, Labels common) : out_(out) {
  for (const auto& [name, value] : common) append_label(common_, name, value);
}

SLUICE_INLINE void PrometheusWriter::counter(std::string_view name, std::string_view help, double value,
                                             Labels labels) {
  describe(name, help, "counter");
  sample(name, "", labels, "", value);
}

SLUICE_INLINE void PrometheusWriter::gauge(std::string_view name, std::string_view help, double value, Labels labels) {
  describe(name, help, "gauge");
  sample(name, "", labels, "", value);
}

SLUICE_INLINE void PrometheusWriter::histogram(std::string_view name, std::string_view help,
                                               const PrometheusHistogram& values, Labels labels) {
  describe(name, help, "histogram");
  std::int64_t up_to = 0;
  for (std::size_t i = 0; i < values.counts().size(); ++i) {
    up_to += values.counts()[i];
    const std::string bound = i < values.bounds().size() ? number(values.bounds()[i]) : "+Inf";
    sample(name, "_bucket", labels, bound, static_cast<double>(up_to));
  }
  sample(name, "_sum", labels, "", values.sum());
  sample(name, "_count", labels, "", static_cast<double>(values.count()));
}

SLUICE_INLINE std::string PrometheusWriter::number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  std::string text;
  JsonWriter(text).value(value);
  return text;
}

SLUICE_INLINE void PrometheusWriter::append_label(std::string& to, std::string_view name, std::string_view value) {
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

SLUICE_INLINE void PrometheusWriter::describe(std::string_view name, std::string_view help, std::string_view type) {
  if (name == last_) return;
  last_ = name;
  out_.append("# HELP ").append(name).append(" ").append(help).append("\n# TYPE ").append(name);
  out_.append(" ").append(type).append("\n");
}

SLUICE_INLINE void PrometheusWriter::sample(std::string_view name, std::string_view suffix, Labels labels,
                                            std::string_view bound, double value) {
  std::string all = common_;
  for (const auto& [key, content] : labels) append_label(all, key, content);
  if (!bound.empty()) append_label(all, "le", bound);
  out_.append(name).append(suffix);
  if (!all.empty()) out_.append("{").append(all).append("}");
  out_.append(" ").append(number(value)).append("\n");
}

} // namespace sluice
