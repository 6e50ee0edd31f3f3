// SPDX-License-Identifier: Apache-2.0
// SloClassTable: a value for each SLO class, which are the SLOs that clients ask for.
#pragma once

#include "sluice/serve/prometheus.hpp"
#include "sluice/workload/request.hpp"

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

 private:
  static std::string text(Seconds seconds) {
    if (std::isinf(seconds.count())) return "none";
    char digits[32];
    std::snprintf(digits, sizeof digits, "%.6g", seconds.count());
    return digits;
  }
};

/// Requests with the same SLO are one class. Clients choose SLOs, so the first `most` have a class each, and all others
/// share one: a client cannot make the table grow.
template <class Value>
class SloClassTable {
 public:
  static constexpr std::size_t most = 16;

  /// `fresh`: the value of a new class.
  explicit SloClassTable(Value fresh = {}) : fresh_(std::move(fresh)) {}

  [[nodiscard]] Value& of(const Slo& slo) { return all_[place(slo)].value; }
  /// Calls `visit(name, value)` for each class, in order of their first request.
  template <class Visit>
  void each(Visit&& visit) const {
    for (std::size_t at = 0; at < all_.size(); ++at)
      visit(at < most ? SloClassName::of(all_[at].slo) : SloClassName{"other", "other"}, all_[at].value);
  }

 private:
  struct One {
    Slo slo;
    Value value;
  };
  std::size_t place(const Slo& slo) {
    for (std::size_t at = 0; at < all_.size() && at < most; ++at)
      if (all_[at].slo == slo) return at;
    if (all_.size() <= most) all_.push_back({slo, fresh_});
    return all_.size() - 1;
  }

  Value fresh_;
  std::vector<One> all_;
};

} // namespace sluice
