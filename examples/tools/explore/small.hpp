// SPDX-License-Identifier: Apache-2.0
// The small product of sluice-explore, which every build compiles.
#pragma once

#include "sluice/policy/admission/largest_virtual_lag_first.hpp"
#include "sluice/policy/placement/distance_placement.hpp"
#include "sluice/policy/placement/fewest_layers.hpp"
#include "sluice/policy/relief/pause.hpp"
#include "sluice/policy/retention/keep_until_needed.hpp"
#include "sluice/policy/retention/move_to_host.hpp"
#include "sluice/policy/transfer/fair_share.hpp"

#include "explore/names.hpp"

#include <cstddef>

namespace explored {

// The others are compared with the first policy of each role.
using Compositions =
    sluice::Product<sluice::Choices<sluice::AllResident, sluice::FewestLayers, sluice::DistancePlacement>,
                    sluice::Choices<sluice::DeadlinePool, sluice::FairShare>,
                    sluice::Choices<sluice::Fcfs, sluice::FcfsPrefillFirst, sluice::LargestVirtualLagFirst>,
                    sluice::Choices<sluice::PreemptNewest, sluice::PauseLargest>,
                    sluice::Choices<sluice::Drop, sluice::MoveToHost, sluice::KeepUntilNeeded>>;

inline constexpr const char* product_name = "small";

/// The number of translation units: one for each placement on each transfer rule. CMakeLists.txt reads it.
inline constexpr std::size_t parts = 6;

} // namespace explored
