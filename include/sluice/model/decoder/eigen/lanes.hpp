// SPDX-License-Identifier: Apache-2.0
// Lanes16: sixteen floats in as many registers as they take, the unit of every sum of the decoder.
#pragma once

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

#include <cstddef>
#include <type_traits>
#include <utility>

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

} // namespace sluice
