// SPDX-License-Identifier: Apache-2.0
// Audit: what a reviewer asks of a comparison, and what this one can answer.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/report/report.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// One question, and this comparison's answer.
struct AuditLine {
  std::string_view question;
  bool holds = true;  ///< a reviewer would accept the answer as it is
  std::string answer; ///< what is there; if it does not hold, also what to do
};

/// Asks of chance, windows, tuning, load, requests left out, oracles, livelocks, the sources of times, the machine,
/// charged planning, memory, and who leads in what. Each question is about all rows of the report; an answer names
/// those that it concerns.
[[nodiscard]] std::vector<AuditLine> audit_of(const ComparisonReport& report);

/// Returns the audit as text for a terminal: what does not hold first, then what does.
[[nodiscard]] std::string audit_text(const ComparisonReport& report);
/// The same as a table for the page.
[[nodiscard]] std::string audit_html(const ComparisonReport& report);

} // namespace sluice

#ifndef SLUICE_REPORT_COMPILED
#include "sluice/report/audit.inl.hpp"
#endif
