// SPDX-License-Identifier: Apache-2.0
// SloAttainment: one request's SLO attainment during serving.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/units.hpp"
#include "sluice/workload/request.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace sluice {

/// A request's SLO attainment, computed from the tokens that its user has received. Counts like the metrics: a gap
/// within the TBT is a token on time; a longer gap misses the deadlines that pass in it.
struct SloAttainment {
  Slo slo;
  Seconds arrival{0};
  Seconds first{-1};  ///< when the first token was delivered; below 0: not yet
  Seconds last{0};    ///< when the newest token was delivered
  Seconds longest{0}; ///< longest gap between two tokens
  std::int64_t on_time = 0, missed = 0;

  enum class Verdict : std::uint8_t { none, met, missed };
  /// The changes caused by one release.
  struct Counted {
    bool first = false; ///< the release included the first token
    std::int64_t on_time = 0, missed = 0;
  };

  [[nodiscard]] bool started() const { return first.count() >= 0; }
  [[nodiscard]] bool paces() const { return !std::isinf(slo.tbt.count()); }
  /// Returns the number of deadlines that have passed since the newest token.
  [[nodiscard]] std::int64_t missing(Seconds now) const { return started() ? deadlines_passed(last, now, slo.tbt) : 0; }
  /// Returns whether the first token was late, or is still missing after its deadline.
  [[nodiscard]] bool first_is_late(Seconds now) const;
  [[nodiscard]] bool has_slo() const { return !std::isinf(slo.ttft.count()) || paces(); }
  [[nodiscard]] Verdict verdict(Seconds now) const;
  /// Returns whether the same deliveries would miss another SLO.
  [[nodiscard]] bool misses(const Slo& by, Seconds now) const;
  /// Records that `count` tokens, at least one, reach the user together.
  Counted release(std::int64_t count, Seconds when);
};

// SloLead: the time by which a request must be served earlier than its SLO requires.

/// Seconds by which an engine must be earlier than a client's SLO, for the first token and for each later one.
struct SloLead {
  Seconds ttft{0}, tbt{0};

  friend SloLead operator+(const SloLead& a, const SloLead& b) { return {a.ttft + b.ttft, a.tbt + b.tbt}; }
  friend bool operator==(const SloLead&, const SloLead&) = default;
};

/// Returns the lead while too little has been measured: a fifth of the SLO. An absent SLO has no lead.
[[nodiscard]] inline SloLead unmeasured_lead(const Slo& slo) {
  const auto part = [](Seconds limit) { return std::isinf(limit.count()) ? Seconds{0} : limit * 0.2; };
  return {part(slo.ttft), part(slo.tbt)};
}

/// Returns the SLO less the lead, but at least half of the SLO: if delivery needs more than half, a faster engine does
/// not help. An absent SLO stays absent.
[[nodiscard]] inline Slo ahead_of(const Slo& slo, const SloLead& lead) {
  const auto less = [](Seconds limit, Seconds by) { return std::max(limit - std::max(by, Seconds{0}), limit * 0.5); };
  return {less(slo.ttft, lead.ttft), less(slo.tbt, lead.tbt)};
}

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/serve/slo_attainment.inl.hpp"
#endif
