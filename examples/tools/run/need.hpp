// SPDX-License-Identifier: Apache-2.0
// least_blocks: the least KV memory with which a system serves one request alone.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/workload/request.hpp"

#include "run/job.hpp"

#include <optional>

namespace running {

/// The smallest `setup.device_blocks` (in addition to all weights; negative if weights must stream) with which `system`
/// serves `request` alone to its end; empty if no device memory is enough.
///
/// Found by search: the engine itself serves the request in a world that computes nothing. A system's need is the sum
/// of its placement, its transfer rule's memory for blocks in flight, its layout and its weights' slots, and only the
/// engine computes that sum.
std::optional<sluice::LayerBlocks> least_blocks(const engines::System& system, const engines::Setup& setup,
                                                const sluice::RequestSpec& request);

/// The smallest `setup.host_blocks` with which the request is served alone if device memory is unlimited; empty if no
/// host memory is enough.
std::optional<sluice::LayerBlocks> least_host_blocks(const engines::System& system, const engines::Setup& setup,
                                                     const sluice::RequestSpec& request);

} // namespace running
