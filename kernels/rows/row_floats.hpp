// SPDX-License-Identifier: Apache-2.0
// RowFloats: the part of a row that one thread handles at once, as floats: a packet's numbers, or the row's last few.
#pragma once

#include "kernels/shared_array.hpp"

namespace sluice::kernels {

/// As many numbers as 16 bytes hold. Rows of whole packets are loaded and stored by packets; others number by number,
/// with zeros beyond the end, so that any number of features works and sums have the same order.
template <Element T>
struct RowFloats {
  static constexpr int size = Packet<T>::size;
  float of[static_cast<std::size_t>(size)];

  /// Numbers `at` .. `at` + size - 1 of the `count` that begin at `row`. `whole`: the packets are complete and aligned.
  /// They must not be written while the kernel runs.
  SLUICE_DEVICE void load(const T* row, int at, int count, bool whole) {
    if (whole) {
      const Packet<T> packet = load_packet(row + at);
      SLUICE_UNROLL
      for (int i = 0; i < size; ++i) of[i] = widen(packet.of[i]);
    } else {
      SLUICE_UNROLL
      for (int i = 0; i < size; ++i) of[i] = at + i < count ? widen(row[at + i]) : 0.0F;
    }
  }

  /// The same for numbers that this thread may have written, which the read-only cache (`ld.global.nc`) may not have.
  SLUICE_DEVICE void load_written(const T* row, int at, int count, bool whole) {
    if (whole) {
      const Packet<T> packet = load_written_packet(row + at);
      SLUICE_UNROLL
      for (int i = 0; i < size; ++i) of[i] = widen(packet.of[i]);
    } else {
      SLUICE_UNROLL
      for (int i = 0; i < size; ++i) of[i] = at + i < count ? widen(row[at + i]) : 0.0F;
    }
  }

  SLUICE_DEVICE void store(T* row, int at, int count, bool whole) const {
    if (whole) {
      Packet<T> packet;
      SLUICE_UNROLL
      for (int i = 0; i < size; ++i) packet.of[i] = narrow<T>(of[i]);
      store_packet(row + at, packet);
    } else {
      SLUICE_UNROLL
      for (int i = 0; i < size; ++i)
        if (at + i < count) row[at + i] = narrow<T>(of[i]);
    }
  }

  /// Rounds them to type T, as memory keeps them.
  SLUICE_DEVICE void round() {
    SLUICE_UNROLL
    for (int i = 0; i < size; ++i) of[i] = widen(narrow<T>(of[i]));
  }
};

} // namespace sluice::kernels
