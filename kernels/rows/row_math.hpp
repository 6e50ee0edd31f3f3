// SPDX-License-Identifier: Apache-2.0
// The functions of one number that kernels on rows are made of: a GPU's accurate ones, and the host's.
#pragma once

#include "kernels/device.hpp"

#include <cmath>

namespace sluice::kernels {

/// e^x, at most 2 ulp off. Not `exp2_fast`: an activation must hold 1e-6 in f32.
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

/// 1 / sqrt(x), both steps rounded once; not `rsqrt.approx`.
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

/// Of an angle of `turns` full turns. The whole turns go in double, where they are exact to 2^-52 of `turns`; what is
/// left is an angle of at most half a turn, which a float holds. No table of angles and no Payne and Hanek: two
/// operations in double.
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

/// Of what so many tokens turn by. The whole turns are taken off a product that is rounded for itself.
SLUICE_DEVICE CosineAndSine cosine_and_sine(int tokens, double turns) {
  return cosine_and_sine(times(static_cast<double>(tokens), turns));
}

} // namespace sluice::kernels
