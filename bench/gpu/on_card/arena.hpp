// SPDX-License-Identifier: Apache-2.0
// take_pinned_memory: afterwards `new` returns memory that a GPU can access.
#pragma once

#include <cstddef>

namespace gpu_bench {

/// CUDA's error text if the allocation fails, else null.
const char* take_pinned_memory(std::size_t bytes);

} // namespace gpu_bench
