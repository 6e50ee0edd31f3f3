// SPDX-License-Identifier: Apache-2.0
// The product of sluice-explore for prefixes in tiers: -DSLUICE_EXPLORE=tiers.
#pragma once

#include "sluice/engine/systems/prefix_tiers.hpp"

#include "explore/names.hpp"

#include <cstddef>

template <>
inline constexpr std::string_view sluice::alias_of<sluice::OldestSessionFirst> = "OldestSessionFirst";

namespace explored {

// The others are compared with the first policy of each role.
using Compositions = sluice::Product<
    sluice::Choices<sluice::Fcfs, sluice::OldestSessionFirst>,
    sluice::Choices<sluice::KeepUntilOverwritten, sluice::Drop>,
    sluice::Choices<sluice::NoCaching, sluice::VllmOffloadRule, sluice::LmcacheRule, sluice::HiCacheRule,
                    sluice::HiCacheBackRule, sluice::KvbmRule, sluice::MooncakeStoreRule, sluice::QueueAware,
                    sluice::PinSessions, sluice::MeetInTheMiddle<sluice::VllmOffloadRule>,
                    sluice::IfFaster<sluice::HiCacheRule>, sluice::IfFaster<sluice::LeastWaste>>>;

inline constexpr const char* product_name = "tiers";

/// The number of translation units: one for each admission. CMakeLists.txt reads it.
inline constexpr std::size_t parts = 2;

} // namespace explored
