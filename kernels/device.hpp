// SPDX-License-Identifier: Apache-2.0
// Basics of device code: functions that nvcc compiles for a GPU, and any C++20 compiler for the host; Divisor.
#pragma once

#include "sluice/core/assert.hpp"

#include <bit>
#include <cmath>
#include <cstdint>

// Basics of device code: functions that nvcc compiles for a GPU, and any C++20 compiler for the emulator.
#if defined(__CUDACC__)
#define SLUICE_DEVICE __device__ __forceinline__
#define SLUICE_HOST_DEVICE __host__ __device__ __forceinline__
#define SLUICE_UNROLL _Pragma("unroll")
#define SLUICE_KEEP_LOOP _Pragma("unroll 1")
#else
#define SLUICE_DEVICE inline
#define SLUICE_HOST_DEVICE inline
#define SLUICE_UNROLL
#define SLUICE_KEEP_LOOP
#endif

namespace sluice::kernels {

inline constexpr int warp_lanes = 32;
inline constexpr std::uint32_t full_warp = 0xffffffffU;

/// A score below that of any token. Finite, so that no difference of two scores is NaN.
inline constexpr float lowest_score = -3.0e38F;

/// a * b + c, rounded once. This project compiles kernels without contraction (`-fmad=false`, `-ffp-contract=off`), but
/// a program that includes them has its own flags. This call marks a product and sum that are one operation, and
/// `times` those that are two, so that two kernels with the same formula yield the same bits.
SLUICE_DEVICE float fused(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  return __fmaf_rn(a, b, c);
#else
  return std::fma(a, b, c);
#endif
}

/// a * b, rounded, and never contracted with a following sum, whatever flags a unit is compiled with. On the host the
/// sum of a product and -0.0 is the product; g++ keeps it apart under any `-ffp-contract`, clang++ under all but an
/// explicit `fast`.
SLUICE_DEVICE float times(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fmul_rn(a, b);
#else
  return std::fma(a, b, -0.0F);
#endif
}
SLUICE_DEVICE double times(double a, double b) {
#if defined(__CUDA_ARCH__)
  return __dmul_rn(a, b);
#else
  return std::fma(a, b, -0.0);
#endif
}

/// 2^x. On a GPU `ex2.approx.ftz`: an error of at most 2 ulp over the whole range (PTX ISA 9.0, 9.7.3.21).
SLUICE_DEVICE float exp2_fast(float x) {
#if defined(__CUDA_ARCH__)
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return std::exp2(x);
#endif
}

/// The larger of two numbers that are not NaN.
SLUICE_DEVICE float larger(float a, float b) {
#if defined(__CUDA_ARCH__)
  return fmaxf(a, b); // one instruction; the comparison would be two
#else
  return a > b ? a : b;
#endif
}

/// Index of the lowest set bit; -1 without one. Not std::countr_zero: nvcc 13.0 takes its branch for 0 in device code,
/// whatever the argument, so it is always 32 there (found on a GPU).
SLUICE_DEVICE int lowest_bit(std::uint32_t bits) { return static_cast<int>(std::bit_width(bits & (0U - bits))) - 1; }

/// Rounds up to a whole number of pieces.
[[nodiscard]] SLUICE_HOST_DEVICE constexpr int pieces(int all, int piece) { return (all + piece - 1) / piece; }

// Divisor: division by a run-time number, at the cost of a multiplication.

/// Divides numbers of 31 bits by a number that is known at launch (Granlund and Montgomery, "Division by Invariant
/// Integers using Multiplication", 1994, theorem 4.2): a GPU has no division instruction, and each packet of K and V
/// needs its token's block.
class Divisor {
 public:
  Divisor() = default;
  /// `by` is at least 1.
  constexpr explicit Divisor(int by) : by_(by) {
    SLUICE_ASSERT(by >= 1, "a divisor above 0");
    while ((std::int64_t{1} << (shift_ - 31)) < by) ++shift_;
    factor_ = ((std::uint64_t{1} << shift_) + static_cast<std::uint64_t>(by) - 1) / static_cast<std::uint64_t>(by);
  }

  [[nodiscard]] SLUICE_HOST_DEVICE constexpr int value() const { return by_; }
  [[nodiscard]] SLUICE_HOST_DEVICE constexpr int quotient(int of) const {
    return static_cast<int>((static_cast<std::uint64_t>(of) * factor_) >> shift_);
  }
  friend bool operator==(const Divisor&, const Divisor&) = default;

 private:
  std::uint64_t factor_ = std::uint64_t{1} << 31;
  int shift_ = 31;
  int by_ = 1;
};

} // namespace sluice::kernels
