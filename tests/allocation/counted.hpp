// SPDX-License-Identifier: Apache-2.0
// How many allocations this program has made: operator new counts (steady_step_test.cpp).
#pragma once

#include <atomic>
#include <cstdint>

extern std::atomic<std::int64_t> allocations;
