// SPDX-License-Identifier: Apache-2.0
// least_blocks: the least KV memory with which a system runs a request that is alone.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/workload/request.hpp"

#include "run/job.hpp"

#include <optional>

namespace running {

/// The smallest `setup.device_blocks` (beside all weights; below 0 where weights must stream) with which `system`
/// serves `request` to its end when nobody else is there; nothing where no device memory is enough.
///
/// By trying: the engine itself serves it, on a world in which nothing is computed. What a system needs is the sum of
/// its placement, its transfer rule's room in flight, its layout and its weights' slots, and nobody knows that sum
/// better than who counts it.
std::optional<sluice::LayerBlocks> least_blocks(const engines::System& system, const engines::Setup& setup,
                                                const sluice::RequestSpec& request);

/// The smallest `setup.host_blocks` with which it is served alone where the device's memory is no matter; nothing where
/// no host memory is enough.
std::optional<sluice::LayerBlocks> least_host_blocks(const engines::System& system, const engines::Setup& setup,
                                                     const sluice::RequestSpec& request);

} // namespace running
