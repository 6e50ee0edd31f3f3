// SPDX-License-Identifier: Apache-2.0
// Outcome: the result of one run.
#pragma once

#include "sluice/report/report.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace compared {

/// CSV rows, without headers.
struct CsvRows {
  std::string requests, series, iterations;
  std::string tokens;                   ///< compressed
  std::int64_t iterations_left_out = 0; ///< rows that were not kept
};

struct Outcome {
  sluice::SystemReport report;
  std::string trace; ///< for a trace viewer; empty without details
  CsvRows csv{};     ///< empty without files
  /// For a node: each tenant's own outcome, with the tenant's name; `report` then covers all tenants together.
  std::vector<Outcome> tenants{};
};

} // namespace compared
