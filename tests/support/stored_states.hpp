// SPDX-License-Identifier: Apache-2.0
// stored_states: how many device blocks a layer's hidden states fill, state by state.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/state/memory/holding.hpp"

#include <cstdint>

namespace sluice::testing {

/// Device blocks that the hidden states of `blocks` token blocks of one layer fill, one whole state after the other.
[[nodiscard]] inline std::int64_t stored_states(std::int64_t blocks, HiddenSize size, Tokens block_tokens) {
  // A token block's states have `size.hidden` bytes, so in units of a byte per token block one has as many.
  const std::int64_t state = size.hidden.count(), block = size.kv.count() * block_tokens.count();
  std::int64_t taken = 0, left = 0;
  for (std::int64_t token = 0; token < blocks * block_tokens.count(); ++token) {
    if (left < state) {
      ++taken;
      left = block;
    }
    left -= state;
  }
  return taken;
}

} // namespace sluice::testing
