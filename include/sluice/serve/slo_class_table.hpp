// SPDX-License-Identifier: Apache-2.0
// Values for each SLO class, and quantiles of the newest values, from which a server learns its leads.
#pragma once

#include "sluice/serve/prometheus.hpp"
#include "sluice/workload/request.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

// SloClassTable: stores a value for each SLO class; requests with the same SLO form a class.

/// The name of an SLO class in metrics: seconds, `none`, or `other`.
struct SloClassName {
  std::string ttft, tbt;

  [[nodiscard]] static SloClassName of(const Slo& slo) { return {text(slo.ttft), text(slo.tbt)}; }
  friend bool operator==(const SloClassName&, const SloClassName&) = default;

 private:
  static std::string text(Seconds seconds) {
    if (std::isinf(seconds.count())) return "none";
    char digits[32];
    std::snprintf(digits, sizeof digits, "%.6g", seconds.count());
    return digits;
  }
};

/// Requests whose SLOs have the same name form one class, because two classes with one name would be one Prometheus
/// time series with two values. Clients choose SLOs, so only the first `most` get their own class, and all others share
/// one: clients cannot make the table grow.
template <class Value>
class SloClassTable {
 public:
  static constexpr std::size_t most = 16;

  /// `fresh`: the initial value of a class.
  explicit SloClassTable(Value fresh = {}) : fresh_(std::move(fresh)) {}

  /// Returns the SLO's class; adds it if necessary.
  [[nodiscard]] Value& of(const Slo& slo) {
    SloClassName name = SloClassName::of(slo);
    const std::size_t at = place(name);
    if (at == all_.size()) all_.push_back({at < most ? std::move(name) : SloClassName{"other", "other"}, fresh_});
    return all_[at].value;
  }
  /// Returns the SLO's class; null if there is none.
  [[nodiscard]] const Value* find(const Slo& slo) const {
    const std::size_t at = place(SloClassName::of(slo));
    return at < all_.size() ? &all_[at].value : nullptr;
  }
  /// Calls `visit(name, value)` for each class, in order of their first requests.
  template <class Visit>
  void each(Visit&& visit) const {
    for (const One& one : all_) visit(one.name, one.value);
  }

 private:
  struct One {
    SloClassName name;
    Value value;
  };
  /// Returns the position of the class, or where it would be added.
  [[nodiscard]] std::size_t place(const SloClassName& name) const {
    std::size_t at = 0;
    while (at < std::min(all_.size(), most) && all_[at].name != name) ++at;
    return at;
  }

  Value fresh_;
  std::vector<One> all_;
};

// RecentQuantile: quantiles of the newest values.

/// Keeps the newest `window` values (at least one). Quantiles use the nearest rank, as docs/metrics.md defines them, so
/// the P99 of fewer than a hundred values is the largest value.
class RecentQuantile {
 public:
  explicit RecentQuantile(std::size_t window) : window_(window) {}

  void add(double value) {
    if (values_.size() < window_)
      values_.push_back(value);
    else
      values_[next_] = value;
    next_ = (next_ + 1) % window_;
  }
  [[nodiscard]] std::size_t size() const { return values_.size(); }
  /// `share`: above 0, at most 1. Returns 0 if there are no values.
  [[nodiscard]] double quantile(double share) const {
    if (values_.empty()) return 0;
    std::vector<double> sorted = values_;
    const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
    const auto at = sorted.begin() + static_cast<std::ptrdiff_t>(std::clamp<std::size_t>(rank, 1, sorted.size()) - 1);
    std::nth_element(sorted.begin(), at, sorted.end());
    return *at;
  }

 private:
  std::size_t window_;
  std::size_t next_ = 0;
  std::vector<double> values_;
};

} // namespace sluice
