// SPDX-License-Identifier: Apache-2.0
// Outcome: what one run gave.
#pragma once

#include "sluice/report/report.hpp"

#include <string>
#include <vector>

namespace compared {

struct Outcome {
  sluice::SystemReport report;
  std::string trace; ///< for a trace viewer; empty unless details were wanted
  /// Of a node: each tenant's own, named by it; `report` is then of all together.
  std::vector<Outcome> tenants{};
};

} // namespace compared
