// SPDX-License-Identifier: Apache-2.0
// SloClassTable: stores a value for each SLO class; requests with the same SLO form a class.
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

} // namespace sluice
