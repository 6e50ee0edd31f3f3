// SPDX-License-Identifier: Apache-2.0
// check_threads, check_address_space: what a run will ask the operating system for, asked before it begins.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/world/local/memory.hpp"

#include "run/options.hpp"

namespace running {

/// Starts as many threads as the run will have, for a moment. Asked beforehand, since a pool that got some of its
/// threads cannot give them back by throwing.
sluice::Status check_threads(int threads);

/// Whether the system has addresses for both memories; the error names the larger one's flag.
sluice::Status check_address_space(const Options& options, const sluice::LocalMemory& memory);

} // namespace running
