// SPDX-License-Identifier: Apache-2.0
// SharedArray and Packet: what a kernel's Shared is made of, and the 16 bytes that a thread moves at once.
#pragma once

#include "kernels/element.hpp"

#include <cstddef>

namespace sluice::kernels {

/// 16 bytes: what one thread loads, stores or copies at once.
template <class T>
struct alignas(16) Packet {
  static constexpr int size = static_cast<int>(16 / sizeof(T));
  T of[static_cast<std::size_t>(size)];
};

/// One load of 16 bytes from global memory that nobody writes while the kernel runs (`ld.global.nc`).
template <class T>
SLUICE_DEVICE Packet<T> load_packet(const T* from) {
#if defined(__CUDA_ARCH__)
  const uint4 raw = __ldg(reinterpret_cast<const uint4*>(from));
  return *reinterpret_cast<const Packet<T>*>(&raw);
#else
  return *reinterpret_cast<const Packet<T>*>(from);
#endif
}

template <class T>
SLUICE_DEVICE void store_packet(T* to, const Packet<T>& packet) {
  *reinterpret_cast<Packet<T>*>(to) = packet;
}

/// An array in shared memory. On the host an index out of bounds ends the program: ASan sees the end of Shared alone.
template <class T, int n>
struct SharedArray {
  static constexpr int size = n;
  T of[static_cast<std::size_t>(n)];

  SLUICE_DEVICE T& operator[](int i) {
#if !defined(__CUDA_ARCH__)
    if (i < 0 || i >= n) __builtin_trap();
#endif
    return of[i];
  }
  SLUICE_DEVICE const T& operator[](int i) const {
#if !defined(__CUDA_ARCH__)
    if (i < 0 || i >= n) __builtin_trap();
#endif
    return of[i];
  }
};

/// Room in shared memory for a block primitive (`Cta::inclusive_scan`), whose layout is the Cta's business: CUB's on a
/// GPU. Reused only after a `sync()`.
template <class T, int threads>
struct alignas(16) ScanRoom {
  std::byte of[(threads + 2 * warp_lanes) * sizeof(T)]; // CUB takes a third of it, the emulator all
};

} // namespace sluice::kernels
