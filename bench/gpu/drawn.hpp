// SPDX-License-Identifier: Apache-2.0
// Numbers: random numbers, each computed from its index: a GPU fills gigabytes with them in milliseconds, and a
// reference on the host needs no copy of them.
#pragma once

#include "kernels/element.hpp"

#include <cstdint>

namespace gpu_bench {

/// Number i is mean + scale * u, with u uniform in [-1, 1) from the seed and i, rounded to an element.
struct Numbers {
  std::uint64_t seed = 1;
  float scale = 1, mean = 0;

  template <sluice::kernels::Element T = sluice::kernels::Bf16>
  [[nodiscard]] SLUICE_DEVICE T stored(std::uint64_t i) const {
    std::uint64_t x = (i + seed * 0x632be59bd9b4e019ULL) * 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 29U)) * 0xbf58476d1ce4e5b9ULL;
    const float u = static_cast<float>(static_cast<std::int32_t>(x >> 40U) - (1 << 23)) * 0x1p-23F;
#if defined(__CUDA_ARCH__)
    return sluice::kernels::narrow<T>(__fadd_rn(mean, __fmul_rn(scale, u))); // fused they would be other numbers
#else
    return sluice::kernels::narrow<T>(mean + scale * u);
#endif
  }
  template <sluice::kernels::Element T = sluice::kernels::Bf16>
  [[nodiscard]] SLUICE_DEVICE double at(std::uint64_t i) const {
    return static_cast<double>(sluice::kernels::widen(stored<T>(i)));
  }
};

} // namespace gpu_bench
