// SPDX-License-Identifier: Apache-2.0
// The exponential and SiLU of sixteen lanes: a number's result has the same bits in every lane.
#pragma once

#include "sluice/model/decoder/eigen/lanes.hpp"

namespace sluice {

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

} // namespace sluice
