// SPDX-License-Identifier: Apache-2.0
// aligned: the first place in a piece of memory that starts on a line of the cache, or on a page.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice {

/// `at`, or the next address that is a multiple of `bytes`, less than `bytes` further on: the memory must reach there.
/// `bytes` is a multiple of T's size, and `at` of T's alignment, which is its size.
template <class T>
[[nodiscard]] T* aligned(T* at, std::size_t bytes) {
  const std::size_t beyond = reinterpret_cast<std::uintptr_t>(at) % bytes;
  return at + (beyond == 0 ? 0 : (bytes - beyond) / sizeof(T));
}

} // namespace sluice
