// SPDX-License-Identifier: Apache-2.0
// SloClassTable: a value for each SLO class, which are the SLOs that clients ask for.
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

/// An SLO class, as metrics name it: seconds, `none`, or `other`.
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

/// Requests whose SLOs have the same name are one class: two classes with one name would be one time series of
/// Prometheus with two values. Clients choose SLOs, so the first `most` have a class each, and all others share one: a
/// client cannot make the table grow.
template <class Value>
class SloClassTable {
 public:
  static constexpr std::size_t most = 16;

  /// `fresh`: the value of a new class.
  explicit SloClassTable(Value fresh = {}) : fresh_(std::move(fresh)) {}

  /// The SLO's class, which is made if there is none.
  [[nodiscard]] Value& of(const Slo& slo) {
    SloClassName name = SloClassName::of(slo);
    const std::size_t at = place(name);
    if (at == all_.size()) all_.push_back({at < most ? std::move(name) : SloClassName{"other", "other"}, fresh_});
    return all_[at].value;
  }
  /// The SLO's class; null if there is none.
  [[nodiscard]] const Value* find(const Slo& slo) const {
    const std::size_t at = place(SloClassName::of(slo));
    return at < all_.size() ? &all_[at].value : nullptr;
  }
  /// Calls `visit(name, value)` for each class, in order of their first request.
  template <class Visit>
  void each(Visit&& visit) const {
    for (const One& one : all_) visit(one.name, one.value);
  }

 private:
  struct One {
    SloClassName name;
    Value value;
  };
  /// Where the class is, or would be added.
  [[nodiscard]] std::size_t place(const SloClassName& name) const {
    std::size_t at = 0;
    while (at < std::min(all_.size(), most) && all_[at].name != name) ++at;
    return at;
  }

  Value fresh_;
  std::vector<One> all_;
};

} // namespace sluice
