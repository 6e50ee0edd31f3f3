// SPDX-License-Identifier: Apache-2.0
// Stored numbers as lanes: reads f32, f16 and bf16 in place and widens them in registers.
#pragma once

#include "sluice/model/decoder/eigen/lanes.hpp"
#include "sluice/model/decoder/weights.hpp"

#include <Eigen/Core>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace sluice {

/// Widens one 16-bit number. Exact: every f16 and bf16 is a float.
[[nodiscard]] inline float widened(std::uint16_t bits, ElementType type) {
  if (type == ElementType::bf16) return std::bit_cast<float>(std::uint32_t{bits} << 16);
  return Eigen::half_impl::half_to_float(Eigen::half_impl::raw_uint16_to_half(bits));
}

/// The sixteen numbers at `from`, which need not be aligned.
template <ElementType type>
[[nodiscard]] Lanes16 load_stored(const std::byte* from) {
  if constexpr (type == ElementType::f32) {
    return Lanes16::load(reinterpret_cast<const float*>(from));
  } else {
#if defined(EIGEN_VECTORIZE_AVX512)
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    if constexpr (type == ElementType::bf16) {
      return {{_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16))}};
    } else {
      return {{_mm512_cvtph_ps(bits)}};
    }
#elif defined(EIGEN_VECTORIZE_AVX2) && defined(__F16C__)
    Lanes16 lanes;
    for (int i = 0; i < Lanes16::packets; ++i) {
      const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from) + i);
      if constexpr (type == ElementType::bf16) {
        lanes.part[i] = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
      } else {
        lanes.part[i] = _mm256_cvtph_ps(bits);
      }
    }
    return lanes;
#else
    std::uint16_t bits[Lanes16::count];
    std::memcpy(bits, from, sizeof bits);
    float wide[Lanes16::count];
    for (int i = 0; i < Lanes16::count; ++i) wide[i] = widened(bits[i], type);
    return Lanes16::load(wide);
#endif
  }
}

/// The `count` (1 .. 16) numbers at `from`, followed by zeros: reads nothing beyond them.
template <ElementType type>
[[nodiscard]] Lanes16 load_stored(const std::byte* from, int count) {
  if (count >= Lanes16::count) return load_stored<type>(from);
  alignas(64) std::byte padded[Lanes16::count * sizeof(float)] = {};
  std::memcpy(padded, from, static_cast<std::size_t>(count) * bytes_of(type));
  return load_stored<type>(padded);
}

/// The same for floats.
[[nodiscard]] inline Lanes16 load_floats(const float* from, int count) {
  return load_stored<ElementType::f32>(reinterpret_cast<const std::byte*>(from), count);
}
/// The first `count` lanes.
inline void store_floats(const Lanes16& lanes, float* to, int count) {
  if (count >= Lanes16::count) return lanes.store(to);
  float all[Lanes16::count];
  lanes.store(all);
  std::memcpy(to, all, static_cast<std::size_t>(count) * sizeof(float));
}

/// Calls `visit` with the type as a constant: `visit(std::integral_constant<ElementType, …>)`.
template <class Visit>
void with_type(ElementType type, const Visit& visit) {
  switch (type) {
  case ElementType::f32:
    return visit(std::integral_constant<ElementType, ElementType::f32>{});
  case ElementType::f16:
    return visit(std::integral_constant<ElementType, ElementType::f16>{});
  case ElementType::bf16:
    return visit(std::integral_constant<ElementType, ElementType::bf16>{});
  }
}

/// A row of `count` stored numbers as floats: an embedding, a norm's scale, a bias.
template <ElementType type>
void widen(const std::byte* row, std::int64_t count, float* to) {
  std::int64_t at = 0;
  for (; at + Lanes16::count <= count; at += Lanes16::count)
    load_stored<type>(row + at * bytes_of(type)).store(to + at);
  const int left = static_cast<int>(count - at);
  if (left > 0) store_floats(load_stored<type>(row + at * bytes_of(type), left), to + at, left);
}
inline void widen(const std::byte* row, ElementType type, std::int64_t count, float* to) {
  with_type(type, [&](auto constant) { widen<decltype(constant)::value>(row, count, to); });
}

} // namespace sluice
