// SPDX-License-Identifier: Apache-2.0
// SloLead: the time by which a request must be served earlier than its SLO requires.
#pragma once

#include "sluice/workload/request.hpp"

#include <algorithm>
#include <cmath>

namespace sluice {

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
