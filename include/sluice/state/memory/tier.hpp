// SPDX-License-Identifier: Apache-2.0
// Tier: a memory below the device, as data.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/state/memory/tier_store.hpp"

namespace sluice {

/// Host memory for the KV of ended requests. It is on the other side of the device's link, so its rates are the link's.
struct Tier {
  TokenBlocks capacity{0};
  Replacement replacement = Replacement::least_recent;

  friend constexpr bool operator==(const Tier&, const Tier&) = default;
};

} // namespace sluice
