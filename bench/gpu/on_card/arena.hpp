// SPDX-License-Identifier: Apache-2.0
// take_pinned_memory: from then on `new` gives what a GPU reaches.
#pragma once

#include <cstddef>

namespace gpu_bench {

/// What CUDA said if it did not give so much, or null.
const char* take_pinned_memory(std::size_t bytes);

} // namespace gpu_bench
