// SPDX-License-Identifier: Apache-2.0
// SharedArray and Packet: the arrays of a kernel's Shared, and the 16 bytes that a thread moves at once.
#pragma once

#include "kernels/element.hpp"

#include <cstddef>
#include <cstdint>

namespace sluice::kernels {

/// 16 bytes: the unit that one thread loads, stores or copies at once.
template <class T>
struct alignas(16) Packet {
  static constexpr int size = static_cast<int>(16 / sizeof(T));
  T of[static_cast<std::size_t>(size)];
};

#if !defined(__CUDACC__)
/// Called on the host for a packet whose address is no multiple of 16, which the processor would accept but a GPU would
/// not. It ends the program; a replacement may report the thread.
inline void (*misaligned_packet)(const char* file, unsigned line) = [](const char*, unsigned) { __builtin_trap(); };
#endif

/// Call it before 16 bytes are loaded or stored at once.
SLUICE_DEVICE void check_packet([[maybe_unused]] const void* at) {
#if !defined(__CUDACC__)
  if (reinterpret_cast<std::uintptr_t>(at) % 16 != 0) misaligned_packet(__FILE__, __LINE__);
#endif
}

/// One load of 16 bytes from global memory that is not written while the kernel runs (`ld.global.nc`).
template <class T>
SLUICE_DEVICE Packet<T> load_packet(const T* from) {
#if defined(__CUDA_ARCH__)
  const uint4 raw = __ldg(reinterpret_cast<const uint4*>(from));
  return *reinterpret_cast<const Packet<T>*>(&raw);
#else
  check_packet(from);
  return *reinterpret_cast<const Packet<T>*>(from);
#endif
}

/// The same for memory that this kernel may have written.
template <class T>
SLUICE_DEVICE Packet<T> load_written_packet(const T* from) {
  check_packet(from);
  return *reinterpret_cast<const Packet<T>*>(from);
}

template <class T>
SLUICE_DEVICE void store_packet(T* to, const Packet<T>& packet) {
  check_packet(to);
  *reinterpret_cast<Packet<T>*>(to) = packet;
}

/// An array in shared memory. On the host an index out of bounds ends the program: ASan detects only the end of Shared.
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

/// Room in shared memory for a block primitive (`Cta::inclusive_scan`), whose layout the Cta defines (CUB's on a GPU).
/// Reuse it only after a `sync()`.
template <class T, int threads>
struct alignas(16) ScanRoom {
  std::byte of[(threads + 2 * warp_lanes) * sizeof(T)]; // CUB takes a third of it, the emulator all
};

// aligned: whether memory can be accessed in packets of 16 bytes, for the assertions of a kernel's grid().

/// Whether each of these addresses is a multiple of 16 (null is). Runs on the host, so it cannot check addresses in a
/// table in device memory.
template <class... At>
[[nodiscard]] inline bool aligned(const At*... at) {
  return ((reinterpret_cast<std::uintptr_t>(at) % 16 == 0) && ...);
}

} // namespace sluice::kernels
