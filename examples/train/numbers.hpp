// SPDX-License-Identifier: Apache-2.0
// Numbers: float arrays aligned to 64 bytes.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace training {

/// In an unaligned array Eigen computes the elements before the first whole vector one by one, and its vector square
/// root differs from the scalar one in the last bit: results would depend on the array's address.
template <class T>
struct AlignedAllocator {
  using value_type = T;
  static constexpr std::align_val_t alignment{64};

  AlignedAllocator() = default;
  template <class Other>
  AlignedAllocator(const AlignedAllocator<Other>& /*other*/) {} // NOLINT(google-explicit-constructor): as all have it

  [[nodiscard]] T* allocate(std::size_t count) { return static_cast<T*>(::operator new(count * sizeof(T), alignment)); }
  void deallocate(T* at, std::size_t /*count*/) { ::operator delete(at, alignment); }

  friend bool operator==(const AlignedAllocator&, const AlignedAllocator&) { return true; }
};

using Numbers = std::vector<float, AlignedAllocator<float>>;

} // namespace training
