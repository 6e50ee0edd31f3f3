// SPDX-License-Identifier: Apache-2.0
// Elements: converts single numbers to and from f32, f16 and bf16 bits, without a library.
#pragma once

#include "sluice/model/decoder/weights.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace sluice {

// Weights lie in memory as they lie in files: little-endian.
static_assert(std::endian::native == std::endian::little, "weights are read in place from little-endian files");

/// The nearest bf16 (ties to even); NaN stays NaN.
[[nodiscard]] constexpr std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

[[nodiscard]] constexpr float from_bf16(std::uint16_t half) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16);
}

/// The nearest IEEE binary16 (ties to even); numbers that are too large become infinite, and NaN stays NaN.
[[nodiscard]] constexpr std::uint16_t to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t size = bits & 0x7fffffffU;
  if (size > 0x7f800000U) return static_cast<std::uint16_t>(sign | 0x7e00U);
  if (size >= 0x477ff000U) return static_cast<std::uint16_t>(sign | 0x7c00U); // 65520 and above
  const int exponent = static_cast<int>(size >> 23) - 127;
  if (exponent < -25) return static_cast<std::uint16_t>(sign);
  const std::uint32_t mantissa = (size & 0x7fffffU) | 0x800000U;
  // Bits that do not fit: 13 of a normal number, one more per power of two below 2^-14.
  const int dropped = exponent >= -14 ? 13 : -1 - exponent;
  const std::uint32_t kept = mantissa >> dropped;
  const std::uint32_t rest = mantissa & ((1U << dropped) - 1U);
  const std::uint32_t half = 1U << (dropped - 1);
  const std::uint32_t rounded = kept + (rest > half || (rest == half && (kept & 1U) != 0) ? 1U : 0U);
  // A normal number's leading one adds 1 to the exponent field; so does a carry out of the mantissa.
  const std::uint32_t field = exponent >= -14 ? static_cast<std::uint32_t>(exponent + 14) << 10 : 0U;
  return static_cast<std::uint16_t>(sign | (field + rounded));
}

[[nodiscard]] constexpr float from_f16(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000U) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1fU;
  const std::uint32_t mantissa = half & 0x3ffU;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000U | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  const float size = static_cast<float>(mantissa) * 0x1p-24F;
  return sign != 0 ? -size : size;
}

/// Writes `value` as `type`: `bytes_of(type)` bytes at any address.
inline void store_element(std::byte* at, ElementType type, float value) {
  if (type == ElementType::f32) {
    std::memcpy(at, &value, sizeof value);
    return;
  }
  const std::uint16_t half = type == ElementType::bf16 ? to_bf16(value) : to_f16(value);
  std::memcpy(at, &half, sizeof half);
}

/// Reads a number stored as `type` at any address.
[[nodiscard]] inline float load_element(const std::byte* at, ElementType type) {
  if (type == ElementType::f32) {
    float value = 0;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  std::uint16_t half = 0;
  std::memcpy(&half, at, sizeof half);
  return type == ElementType::bf16 ? from_bf16(half) : from_f16(half);
}

} // namespace sluice
