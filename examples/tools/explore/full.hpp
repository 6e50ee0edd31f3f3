// SPDX-License-Identifier: Apache-2.0
// The full product of sluice-explore: -DSLUICE_EXPLORE=full.
#pragma once

#include "sluice/policy/admission/largest_virtual_lag_first.hpp"
#include "sluice/policy/layout/all_layers.hpp"
#include "sluice/policy/placement/distance_placement.hpp"
#include "sluice/policy/placement/fewest_layers.hpp"
#include "sluice/policy/placement/token_wise.hpp"
#include "sluice/policy/relief/pause.hpp"
#include "sluice/policy/replan/every_step.hpp"
#include "sluice/policy/retention/keep_copied.hpp"
#include "sluice/policy/retention/keep_until_needed.hpp"
#include "sluice/policy/retention/move_to_host.hpp"
#include "sluice/policy/transfer/fair_share.hpp"
#include "sluice/policy/weights/parameter_remap.hpp"

#include "explore/names.hpp"

#include <cstddef>

namespace explored {

// The others are compared with the first policy of each role.
using Compositions = sluice::Product<
    sluice::Choices<sluice::AllResident, sluice::FewestLayers, sluice::DistancePlacement, sluice::TokenWise>,
    sluice::Choices<sluice::DeadlinePool, sluice::FairShare>,
    sluice::Choices<sluice::ResidentWeights, sluice::ParameterRemap>,
    sluice::Choices<sluice::Fcfs, sluice::FcfsPrefillFirst, sluice::LargestVirtualLagFirst>,
    sluice::Choices<sluice::PreemptNewest, sluice::PauseLargest>,
    sluice::Choices<sluice::Drop, sluice::MoveToHost, sluice::KeepUntilNeeded, sluice::KeepCopied>,
    sluice::Choices<sluice::OnBatchChange, sluice::EveryStep>, sluice::Choices<sluice::PerLayer, sluice::AllLayers>>;

inline constexpr const char* product_name = "full";

/// The number of translation units: one for each placement on each transfer rule, with and without lent weights.
/// CMakeLists.txt reads it.
inline constexpr std::size_t parts = 16;

} // namespace explored
