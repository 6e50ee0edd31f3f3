// SPDX-License-Identifier: Apache-2.0
// Lanes: how the two directions of a link share it.
#pragma once

#include <cstdint>

namespace sluice {

enum class Lanes : std::uint8_t {
  shared,   ///< one lane: while both directions are active they share one rate, less the mix loss
  each_way, ///< one lane each way: both run at once, each at its own rate less the mix loss
};

} // namespace sluice
