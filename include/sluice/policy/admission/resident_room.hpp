// SPDX-License-Identifier: Apache-2.0
// resident_room: device memory that a request takes if it computes its tokens with all KV there.
#pragma once

#include "sluice/state/view/view.hpp"

#include <cstdint>

namespace sluice {

/// Blocks of one layer that the request has once its pending tokens are computed.
[[nodiscard]] inline TokenBlocks blocks_after_pending(const View& view, const RequestRow& row) {
  return row.blocks_after(row.pending(), view.limits.block_tokens);
}
/// The same in all layers, in layer blocks.
[[nodiscard]] inline std::int64_t resident_room(const View& view, const RequestRow& row) {
  return blocks_after_pending(view, row).count() * view.geometry.layers;
}

} // namespace sluice
