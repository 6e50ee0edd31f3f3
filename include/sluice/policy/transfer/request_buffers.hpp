// SPDX-License-Identifier: Apache-2.0
// request_buffers: the blocks in flight if each request has a buffer of one layer (OrbitFlow, 3.3.1).
#pragma once

#include "sluice/policy/transfer/pipeline.hpp"

#include <span>

namespace sluice::detail {

/// One buffer for every request that offloads anything.
inline double request_buffers(std::span<const LayerStream> streams) {
  double blocks = 0;
  for (const LayerStream& stream : streams)
    if (!stream.layers.empty()) blocks += stream.blocks;
  return blocks;
}

} // namespace sluice::detail
