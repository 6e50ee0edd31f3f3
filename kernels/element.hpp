// SPDX-License-Identifier: Apache-2.0
// The number types in a device's memory: f32, f16 and bf16, and their conversion to f32 and back.
#pragma once

#include "sluice/model/decoder/kinds.hpp"

#include "kernels/device.hpp"

#include <cmath>
#include <type_traits>

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

namespace sluice::kernels {

/// The bits of a bfloat16. Not CUDA's struct, which the emulator's compilers lack.
struct Bf16 {
  std::uint16_t bits;
};
/// The bits of an IEEE binary16.
struct F16 {
  std::uint16_t bits;
};

/// The C++ type of a number of `type`.
template <ElementType type>
using ElementOf =
    std::conditional_t<type == ElementType::bf16, Bf16, std::conditional_t<type == ElementType::f16, F16, float>>;

template <class T>
concept Element = std::is_same_v<T, float> || std::is_same_v<T, F16> || std::is_same_v<T, Bf16>;

SLUICE_DEVICE float widen(float x) { return x; }

SLUICE_DEVICE float widen(Bf16 x) {
#if defined(__CUDA_ARCH__)
  return __uint_as_float(static_cast<std::uint32_t>(x.bits) << 16);
#else
  return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16);
#endif
}

SLUICE_DEVICE float widen(F16 x) {
#if defined(__CUDA_ARCH__)
  return __half2float(__ushort_as_half(x.bits));
#else
  const std::uint32_t sign = (x.bits & 0x8000U) << 16U;
  const std::uint32_t exponent = (static_cast<std::uint32_t>(x.bits) >> 10U) & 31U;
  const std::uint32_t mantissa = x.bits & 1023U;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000U | (mantissa << 13U));
  const float magnitude = exponent != 0 ? std::bit_cast<float>(((exponent + 112) << 23U) | (mantissa << 13U))
                                        : static_cast<float>(mantissa) * 0x1p-24F;
  return sign != 0 ? -magnitude : magnitude;
#endif
}

/// The nearest number of type `T`, ties to even, as the hardware rounds.
template <Element T>
SLUICE_DEVICE T narrow(float x) {
  if constexpr (std::is_same_v<T, float>) {
    return x;
  } else if constexpr (std::is_same_v<T, Bf16>) {
#if defined(__CUDA_ARCH__)
    return Bf16{__bfloat16_as_ushort(__float2bfloat16_rn(x))};
#else
    const auto bits = std::bit_cast<std::uint32_t>(x);
    if ((bits & 0x7fffffffU) > 0x7f800000U) return Bf16{0x7fff}; // a NaN, as __float2bfloat16_rn makes it
    return Bf16{static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U)};
#endif
  } else {
#if defined(__CUDA_ARCH__)
    return F16{__half_as_ushort(__float2half_rn(x))};
#else
    const auto bits = std::bit_cast<std::uint32_t>(x);
    const std::uint32_t sign = (bits >> 16U) & 0x8000U;
    const std::uint32_t magnitude = bits & 0x7fffffffU;
    const auto signed_bits = [sign](std::uint32_t rest) { return F16{static_cast<std::uint16_t>(sign | rest)}; };
    if (magnitude > 0x7f800000U) return F16{0x7fff};
    if (magnitude >= 0x477ff000U) return signed_bits(0x7c00U); // 65520 and above
    if (magnitude < 0x38800000U)                               // a subnormal: the nearest multiple of 2^-24
      return signed_bits(static_cast<std::uint32_t>(std::nearbyint(std::bit_cast<float>(magnitude) * 0x1p24F)));
    return signed_bits((magnitude - 0x38000000U + 0xfffU + ((magnitude >> 13U) & 1U)) >> 13U);
#endif
  }
}

/// Two numbers of 16 bits in one word, as `mma` reads them, the first in the low half.
template <Element T>
  requires(sizeof(T) == 2)
SLUICE_DEVICE std::uint32_t pair_of(float first, float second) {
  return narrow<T>(first).bits | (static_cast<std::uint32_t>(narrow<T>(second).bits) << 16U);
}

} // namespace sluice::kernels
