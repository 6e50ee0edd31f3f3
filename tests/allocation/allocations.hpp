// SPDX-License-Identifier: Apache-2.0
// allocations: how many allocations this program has made so far. The operators are in steady_step_test.cpp.
#pragma once

#include <atomic>
#include <cstdint>

namespace allocation_tests {

extern std::atomic<std::int64_t> allocations;

} // namespace allocation_tests
