// SPDX-License-Identifier: Apache-2.0
// The SLOs of a comparison: from its flags, its classes or its trace.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/units.hpp"
#include "sluice/workload/request.hpp"
#include "sluice/workload/slo_classes.hpp"

#include "compare/comparison.hpp"

#include <span>
#include <string>
#include <vector>

namespace compared {

/// The SLOs that requests have of their own, from classes or from the trace.
struct OwnSlos {
  std::vector<sluice::SloClass> classes;  ///< infinite where a request has none; empty: no request has any SLO or
                                          ///< priority, or they have too many different ones
  bool all_ttft = false, all_tbt = false; ///< whether every request has one
  bool several = false;                   ///< they differ
  sluice::Slo shortest{};
  std::string note{};
};

/// `recorded`: the requests as recorded or generated, from whose own SLOs every seed draws.
OwnSlos own_slos_of(const Options& options, std::span<const sluice::RequestSpec> recorded);

/// Sets the SLOs from the flags, except where every request has its own. `computed`: the base SLO between tokens, where
/// no flag states it. Error: a flag has no effect.
sluice::Status set_slos(const Options& options, const OwnSlos& own, sluice::Seconds computed, Comparison& c);

} // namespace compared
