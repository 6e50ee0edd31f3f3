// SPDX-License-Identifier: Apache-2.0
// OrbitFlowHeader: the server's limits in an OrbitFlow trace.
#pragma once

#include "sluice/core/units.hpp"

#include <cstdint>

namespace sluice {

/// The server's limits, which an OrbitFlow trace has in addition to its requests.
struct OrbitFlowHeader {
  std::int64_t batch_size = 1;      ///< requests that run together
  Tokens max_model_len{1};          ///< tokens of a batch
  TokenBlocks budget{1};            ///< `num_gpu_blocks_override`: the device's KV budget
  TokenBlocks peak_batch_blocks{1}; ///< the most blocks that any batch of the trace needs
  std::int64_t requests = 0;        ///< counted on opening

  friend constexpr bool operator==(const OrbitFlowHeader&, const OrbitFlowHeader&) = default;
};

} // namespace sluice
