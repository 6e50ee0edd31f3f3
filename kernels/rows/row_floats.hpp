// SPDX-License-Identifier: Apache-2.0
// RowFloats: the part of a row that one thread handles at once, as floats; and functions of one number.
#pragma once

#include "kernels/device.hpp"
#include "kernels/shared_array.hpp"

#include <cmath>

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

// Functions of one number for kernels on rows: a GPU's accurate versions, and the host's.

/// e^x, with an error of at most 2 ulp. Not `exp2_fast`: an activation must be exact to 1e-6 in f32.
SLUICE_DEVICE float exponential(float x) {
#if defined(__CUDA_ARCH__)
  return expf(x);
#else
  return std::exp(x);
#endif
}

SLUICE_DEVICE float error_function(float x) {
#if defined(__CUDA_ARCH__)
  return erff(x);
#else
  return std::erf(x);
#endif
}

SLUICE_DEVICE float hyperbolic_tangent(float x) {
#if defined(__CUDA_ARCH__)
  return tanhf(x);
#else
  return std::tanh(x);
#endif
}

/// 1 / sqrt(x), each step rounded once; not `rsqrt.approx`.
SLUICE_DEVICE float inverse_root(float x) {
#if defined(__CUDA_ARCH__)
  return __fdiv_rn(1.0F, __fsqrt_rn(x));
#else
  return 1.0F / std::sqrt(x);
#endif
}

struct CosineAndSine {
  float cosine, sine;
};

/// Of an angle of `turns` full turns. Whole turns are subtracted in double, exact to 2^-52 of `turns`; the remaining
/// angle of at most half a turn fits a float. This takes two operations in double, and needs no table of angles and no
/// Payne-Hanek reduction.
SLUICE_DEVICE CosineAndSine cosine_and_sine(double turns) {
  CosineAndSine result;
#if defined(__CUDA_ARCH__)
  sincospif(static_cast<float>(2 * (turns - rint(turns))), &result.sine, &result.cosine);
#else
  constexpr double pi = 3.14159265358979323846;
  const double angle = 2 * pi * (turns - std::nearbyint(turns));
  result.cosine = static_cast<float>(std::cos(angle));
  result.sine = static_cast<float>(std::sin(angle));
#endif
  return result;
}

/// Of the rotation by `tokens` positions. Whole turns are subtracted from the separately rounded product.
SLUICE_DEVICE CosineAndSine cosine_and_sine(int tokens, double turns) {
  return cosine_and_sine(times(static_cast<double>(tokens), turns));
}

} // namespace sluice::kernels
