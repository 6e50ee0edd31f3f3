// SPDX-License-Identifier: Apache-2.0
// Outcome: what one run gave.
#pragma once

#include "sluice/report/report.hpp"

#include <string>

namespace compared {

struct Outcome {
  sluice::SystemReport report;
  std::string trace; ///< for a trace viewer; empty unless details were wanted
};

} // namespace compared
