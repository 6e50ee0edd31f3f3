// SPDX-License-Identifier: Apache-2.0
// Lanes16: sixteen floats in as many registers as they take; how stored numbers become lanes, and their exponential.
#pragma once

#include "sluice/model/decoder/weights.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

// g++ 12 warns about registers that its own vector headers leave uninitialised on purpose.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <Eigen/Core>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

namespace sluice {

namespace detail {

/// Calls `body(i)` for the constants i = 0 .. N - 1, as separate statements. Loops over arrays of lanes are written
/// this way because g++ -O2 does not unroll such a `for`, and keeps the array in memory instead of registers.
/// (Attention over heads of 128 took 3.8 times as long.)
template <int N, class Body>
[[gnu::always_inline]] inline void unrolled(const Body& body) {
  [&]<int... i>(std::integer_sequence<int, i...>) __attribute__((always_inline)) {
    (body(std::integral_constant<int, i>{}), ...);
  }
  (std::make_integer_sequence<int, N>{});
}

inline constexpr int cache_line = 64; // bytes

/// Prefetches `Lines` cache lines from `at` on.
///
/// Call it directly, never from a function or lambda that might not be inlined: to g++ 12 a function that only
/// prefetches has no effect, and g++ drops the call before it can be inlined. (g++ once dropped these prefetches
/// unnoticed, and attention alternated between reading and computing.) The test `decoder.asks_ahead` looks for them in
/// the program.
template <int Lines>
[[gnu::always_inline]] inline void ask_for(const std::byte* at) {
  [&]<int... i>(std::integer_sequence<int, i...>) __attribute__((always_inline)) {
    (__builtin_prefetch(at + i * cache_line), ...);
  }
  (std::make_integer_sequence<int, Lines>{});
}

using FloatPacket = Eigen::internal::packet_traits<float>::type;
inline constexpr int packet_width = static_cast<int>(sizeof(FloatPacket) / sizeof(float));

} // namespace detail

/// Sixteen partial sums, or sixteen consecutive numbers. One register of AVX-512, two of AVX, four of SSE or NEON: an
/// operation does the same to each lane at any width, so sums have the same bits on all of them, given fused
/// multiply-adds.
///
/// Rejected: Eigen's own expressions and products, which choose blocking, peeling and the order of a sum by sizes and
/// addresses: a row's result then depends on the number of rows.
struct Lanes16 {
  static constexpr int count = 16;
  static constexpr int packets = count / detail::packet_width;

  detail::FloatPacket part[packets];

  [[nodiscard]] static Lanes16 all(float value) {
    Lanes16 lanes;
    detail::unrolled<packets>([&](auto i) { lanes.part[i] = Eigen::internal::pset1<detail::FloatPacket>(value); });
    return lanes;
  }
  [[nodiscard]] static Lanes16 zero() { return all(0); }
  [[nodiscard]] static Lanes16 load(const float* from) {
    Lanes16 lanes;
    detail::unrolled<packets>(
        [&](auto i) { lanes.part[i] = Eigen::internal::ploadu<detail::FloatPacket>(from + i * detail::packet_width); });
    return lanes;
  }
  void store(float* to) const {
    detail::unrolled<packets>([&](auto i) { Eigen::internal::pstoreu(to + i * detail::packet_width, part[i]); });
  }

  friend Lanes16 operator+(const Lanes16& a, const Lanes16& b) {
    return each(a, b, [](const auto& x, const auto& y) { return Eigen::internal::padd(x, y); });
  }
  friend Lanes16 operator-(const Lanes16& a, const Lanes16& b) {
    return each(a, b, [](const auto& x, const auto& y) { return Eigen::internal::psub(x, y); });
  }
  friend Lanes16 operator*(const Lanes16& a, const Lanes16& b) {
    return each(a, b, [](const auto& x, const auto& y) { return Eigen::internal::pmul(x, y); });
  }
  friend Lanes16 operator/(const Lanes16& a, const Lanes16& b) {
    return each(a, b, [](const auto& x, const auto& y) { return Eigen::internal::pdiv(x, y); });
  }
  [[nodiscard]] friend Lanes16 larger(const Lanes16& a, const Lanes16& b) {
    return each(a, b, [](const auto& x, const auto& y) { return Eigen::internal::pmax(x, y); });
  }
  [[nodiscard]] friend Lanes16 smaller(const Lanes16& a, const Lanes16& b) {
    return each(a, b, [](const auto& x, const auto& y) { return Eigen::internal::pmin(x, y); });
  }
  /// a * b + c, rounded once.
  [[nodiscard]] friend Lanes16 fused(const Lanes16& a, const Lanes16& b, const Lanes16& c) {
    Lanes16 lanes;
    detail::unrolled<packets>([&](auto i) { lanes.part[i] = Eigen::internal::pmadd(a.part[i], b.part[i], c.part[i]); });
    return lanes;
  }

 private:
  template <class Operation>
  static Lanes16 each(const Lanes16& a, const Lanes16& b, const Operation& operation) {
    Lanes16 lanes;
    detail::unrolled<packets>([&](auto i) { lanes.part[i] = operation(a.part[i], b.part[i]); });
    return lanes;
  }
};

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wignored-attributes" // as Eigen does: a register type as a template argument
#endif

namespace detail {

/// The first two steps of `sum`; four lanes remain.
template <std::size_t packets>
[[nodiscard]] Eigen::internal::Packet4f fold(const FloatPacket (&part)[packets]) {
  using namespace Eigen::internal;
  if constexpr (packets == 1)
    return predux_half_dowto4(predux_half_dowto4(part[0]));
  else if constexpr (packets == 2)
    return predux_half_dowto4(padd(part[0], part[1]));
  else
    return padd(padd(part[0], part[2]), padd(part[1], part[3]));
}

} // namespace detail

/// The sum of the lanes, always by the same tree: lane i takes lane i + 8, then i + 4, i + 2, i + 1.
[[nodiscard]] inline float sum(const Lanes16& lanes) {
  float four[4];
  Eigen::internal::pstoreu(four, detail::fold(lanes.part));
  return (four[0] + four[2]) + (four[1] + four[3]);
}

/// `sum` of four at once.
[[gnu::always_inline]] inline void sum_four(const Lanes16& a, const Lanes16& b, const Lanes16& c, const Lanes16& d,
                                            float* sums) {
  using namespace Eigen::internal;
  PacketBlock<Packet4f, 4> block;
  block.packet[0] = detail::fold(a.part);
  block.packet[1] = detail::fold(b.part);
  block.packet[2] = detail::fold(c.part);
  block.packet[3] = detail::fold(d.part);
  ptranspose(block);
  pstoreu(sums, padd(padd(block.packet[0], block.packet[2]), padd(block.packet[1], block.packet[3])));
}

/// `sum` of sixteen: with AVX-512 two shuffles and an addition join two trees, so a sum costs two shuffles instead of
/// four.
[[gnu::always_inline]] inline void sum_sixteen(const Lanes16* lanes, float* sums) {
#if defined(EIGEN_VECTORIZE_AVX512)
  __m512 four[4]; // quarter i of four[j] holds lanes[4 * i + j] after adding lanes i + 8 and i + 4
  detail::unrolled<4>([&](auto j) __attribute__((always_inline)) {
    const auto eighth = [&](int a, int b) {
      const __m512 x = lanes[4 * a + j].part[0];
      const __m512 y = lanes[4 * b + j].part[0];
      return _mm512_add_ps(_mm512_shuffle_f32x4(x, y, 0x44), _mm512_shuffle_f32x4(x, y, 0xee));
    };
    const __m512 x = eighth(0, 1);
    const __m512 y = eighth(2, 3);
    four[j] = _mm512_add_ps(_mm512_shuffle_f32x4(x, y, 0x88), _mm512_shuffle_f32x4(x, y, 0xdd));
  });
  const auto halves = [](__m512 x, __m512 y) {
    return _mm512_add_ps(_mm512_shuffle_ps(x, y, 0x44), _mm512_shuffle_ps(x, y, 0xee));
  };
  const __m512 x = halves(four[0], four[1]);
  const __m512 y = halves(four[2], four[3]);
  _mm512_storeu_ps(sums, _mm512_add_ps(_mm512_shuffle_ps(x, y, 0x88), _mm512_shuffle_ps(x, y, 0xdd)));
#else
  detail::unrolled<4>(
      [&](auto i) { sum_four(lanes[4 * i], lanes[4 * i + 1], lanes[4 * i + 2], lanes[4 * i + 3], sums + 4 * i); });
#endif
}

/// The largest lane; the order does not matter.
[[nodiscard]] inline float largest(const Lanes16& lanes) {
  detail::FloatPacket most = lanes.part[0];
  for (int i = 1; i < Lanes16::packets; ++i) most = Eigen::internal::pmax(most, lanes.part[i]);
  return Eigen::internal::predux_max(most);
}

/// 2^n for whole numbers n in -126 .. 127, given as the floats 1.5 * 2^23 + n: the low bits, which hold n, move into
/// the exponent of 1.0.
[[nodiscard]] inline Lanes16 power_of_two(const Lanes16& shifted) {
  using namespace Eigen::internal;
  using Whole = unpacket_traits<detail::FloatPacket>::integer_packet;
  const Whole one = pset1<Whole>(0x3f800000);
  Lanes16 lanes;
  for (int i = 0; i < Lanes16::packets; ++i) {
    const Whole moved = plogical_shift_left<23>(preinterpret<Whole>(shifted.part[i]));
    lanes.part[i] = preinterpret<detail::FloatPacket>(padd(moved, one));
  }
  return lanes;
}

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

// The exponential and SiLU of sixteen lanes: a number's result has the same bits in every lane.

/// e^x within 2 units in the last place for x in -87 .. 88; for other x, the value at the nearer end. The polynomial is
/// that of Cephes' expf (S. Moshier), on x minus the nearest multiple of ln 2.
///
/// Rejected: std::exp (its results depend on the library, and it takes one number at a time) and Eigen's array().exp()
/// (its tail takes another path than its packets).
[[nodiscard]] inline Lanes16 exponential(const Lanes16& x) {
  const Lanes16 bounded = smaller(larger(x, Lanes16::all(-87.0F)), Lanes16::all(88.0F));
  // Adding 1.5 * 2^23 rounds to a whole number and leaves it in the low bits.
  const Lanes16 shifted = fused(bounded, Lanes16::all(1.44269504F), Lanes16::all(12582912.0F));
  const Lanes16 whole = shifted - Lanes16::all(12582912.0F);
  Lanes16 rest = fused(whole, Lanes16::all(-0.693359375F), bounded);
  rest = fused(whole, Lanes16::all(2.12194440e-4F), rest);
  Lanes16 value = Lanes16::all(1.9875691500e-4F);
  constexpr float coefficient[] = {1.3981999507e-3F, 8.3334519073e-3F, 4.1665795894e-2F, 1.6666665459e-1F, 0.5F};
  detail::unrolled<5>([&](auto i) { value = fused(value, rest, Lanes16::all(coefficient[i])); });
  value = fused(value, rest * rest, rest) + Lanes16::all(1.0F);
  return value * power_of_two(shifted);
}

[[nodiscard]] inline float exponential(float x) {
  float at[Lanes16::count];
  exponential(Lanes16::all(x)).store(at);
  return at[0];
}

/// x / (1 + e^-x).
[[nodiscard]] inline Lanes16 silu(const Lanes16& x) {
  return x / (Lanes16::all(1.0F) + exponential(Lanes16::zero() - x));
}

// Stored numbers as lanes: reads f32, f16 and bf16 in place and widens them in registers.

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
