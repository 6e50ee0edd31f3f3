// SPDX-License-Identifier: Apache-2.0
// Outcome: what one run gave.
#pragma once

#include "sluice/report/report.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace compared {

/// Rows of CSV, without their heads.
struct CsvRows {
  std::string requests, series, iterations;
  std::int64_t iterations_left_out = 0; ///< of the rows
};

struct Outcome {
  sluice::SystemReport report;
  std::string trace; ///< for a trace viewer; empty unless details were wanted
  CsvRows csv{};     ///< empty unless files are wanted
  /// Of a node: each tenant's own, named by it; `report` is then of all together.
  std::vector<Outcome> tenants{};
};

} // namespace compared
