// SPDX-License-Identifier: Apache-2.0
// HeadHalves: applies bias, norm and rotation to a head of queries, keys or values between the product and its storage.
#pragma once

#include "kernels/cta.hpp"
#include "kernels/rows/row_floats.hpp"
#include "kernels/rows/row_math.hpp"

#include <bit>

namespace sluice::kernels {

/// One lane's part of a head that a group of lanes shares: a packet of the first half, and the packet of the second
/// half that rotation pairs with it (RoFormer, Su et al., 2021, in Hugging Face's order). RopeAndStore
/// stores a projected row with these functions, whether it is new or rebuilt, and so gets the same bits.
template <Element T, int head_dim>
struct HeadHalves {
  using Floats = RowFloats<T>;
  static constexpr int half = head_dim / 2;
  static constexpr int packets = half / Floats::size;                                           ///< of half a head
  static constexpr int group = static_cast<int>(std::bit_ceil(static_cast<unsigned>(packets))); ///< lanes of a head
  static_assert(head_dim % (2 * Floats::size) == 0, "sluice: halves of a head are whole packets of 16 bytes");
  static_assert(group <= warp_lanes, "sluice: a warp holds a head");

  Floats low{}, high{}; ///< zeros in lanes without a packet

  /// The start of a lane's packet in the first half.
  SLUICE_DEVICE static int low_at(int lane) { return lane % group * Floats::size; }

  /// `bias` and, below, `scale` and `head` are the head's, not the packet's.
  SLUICE_DEVICE void add(const T* bias, int at) {
    Floats added;
    added.load(bias, at, 0, true);
    SLUICE_UNROLL
    for (int j = 0; j < Floats::size; ++j) low.of[j] += added.of[j];
    added.load(bias, half + at, 0, true);
    SLUICE_UNROLL
    for (int j = 0; j < Floats::size; ++j) high.of[j] += added.of[j];
  }

  /// The RMSNorm of a head (QK norm), which all lanes of a warp must call because of its shuffles; a lane whose `scale`
  /// is null leaves its head unchanged.
  template <Cta C>
  SLUICE_DEVICE void normalise(const C& cta, const T* scale, int at, float epsilon) {
    float squares = 0;
    SLUICE_UNROLL
    for (int j = 0; j < Floats::size; ++j)
      squares = fused(high.of[j], high.of[j], fused(low.of[j], low.of[j], squares));
    SLUICE_UNROLL
    for (int with = group / 2; with > 0; with /= 2) squares += cta.shuffle_xor(squares, with);
    if (scale == nullptr) return;
    const float factor = inverse_root(squares / static_cast<float>(head_dim) + epsilon);
    multiply(low, factor, scale + at);
    multiply(high, factor, scale + half + at);
  }

  /// `angle(pair)` is the CosineAndSine of one of the head's pairs.
  template <class Angle>
  SLUICE_DEVICE void rotate(int at, const Angle& angle) {
    SLUICE_UNROLL
    for (int j = 0; j < Floats::size; ++j) {
      const CosineAndSine by = angle(at + j);
      const float left = low.of[j], right = high.of[j];
      low.of[j] = times(left, by.cosine) - times(right, by.sine);
      high.of[j] = times(right, by.cosine) + times(left, by.sine);
    }
  }

  SLUICE_DEVICE void store(T* head, int at) const {
    low.store(head, at, 0, true);
    high.store(head, half + at, 0, true);
  }

 private:
  SLUICE_DEVICE static void multiply(Floats& value, float factor, const T* scale) {
    Floats scales;
    scales.load(scale, 0, 0, true);
    SLUICE_UNROLL
    for (int j = 0; j < Floats::size; ++j) value.of[j] = value.of[j] * factor * scales.of[j];
  }
};

} // namespace sluice::kernels
