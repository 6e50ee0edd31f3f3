// SPDX-License-Identifier: Apache-2.0
// check_threads, check_address_space: check before a run that the operating system will grant its threads and memory.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/world/local/memory.hpp"

#include "run/options.hpp"

namespace running {

/// Briefly starts as many threads as the run will have, one more if its host attends. Checked in advance, because a
/// pool that got only some of its threads cannot release them by throwing.
sluice::Status check_threads(int threads, bool host_attends);

/// Checks that the system has address space for both memories; the error names the larger one's flag.
sluice::Status check_address_space(const Options& options, const sluice::LocalMemory& memory);

} // namespace running
