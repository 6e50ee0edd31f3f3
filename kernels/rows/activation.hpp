// SPDX-License-Identifier: Apache-2.0
// Activation: the function between an MLP's matrices: SwiGLU, GELU or ReLU, with biases, gated or not.
#pragma once

#include "sluice/core/assert.hpp"

#include "kernels/cta.hpp"
#include "kernels/rows/row_floats.hpp"
#include "kernels/shared_array.hpp"

#include <cstdint>

namespace sluice::kernels {

enum class ActivationKind : std::uint8_t {
  silu,      ///< x / (1 + exp(-x))
  relu,      ///< max(x, 0)
  gelu,      ///< x Phi(x), by the error function (Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016)
  gelu_tanh, ///< the same paper's approximation by tanh ("gelu_new", "gelu_pytorch_tanh")
};

struct ActivationConfig {
  ElementType element = ElementType::bf16;
  ActivationKind kind = ActivationKind::silu;
  bool gated = true; ///< f(gate) * up (Shazeer, "GLU Variants Improve Transformer", 2020); false: f(gate)

  friend bool operator==(const ActivationConfig&, const ActivationConfig&) = default;
};

/// Numbers are of the configuration's element, matrices row-major and 16-byte aligned.
struct ActivationParams {
  const void* gate = nullptr;      ///< [rows][gate_stride]; only the first `features` are used
  const void* up = nullptr;        ///< [rows][up_stride]; gate + features if gate and up are one product's output
  const void* gate_bias = nullptr; ///< [features], added before the function; null: none
  const void* up_bias = nullptr;   ///< [features]; null: none
  void* out = nullptr;             ///< [rows][features], neither gate nor up
  std::int64_t gate_stride = 0;    ///< numbers from one row to the next
  std::int64_t up_stride = 0;
  int rows = 0;
  int features = 0;

  friend bool operator==(const ActivationParams&, const ActivationParams&) = default;
};

template <ActivationKind kind>
SLUICE_DEVICE float activate(float x) {
  if constexpr (kind == ActivationKind::silu) {
    return x / (1.0F + exponential(-x));
  } else if constexpr (kind == ActivationKind::relu) {
    return x > 0 ? x : 0.0F;
  } else if constexpr (kind == ActivationKind::gelu) {
    return 0.5F * x * (1.0F + error_function(x * 0.70710678118654752F));
  } else {
    return 0.5F * x * (1.0F + hyperbolic_tangent(0.79788456080286536F * fused(0.044715F * x * x, x, x)));
  }
}

/// One block for each `threads` packets of a row. Rounds once, at the end.
template <ActivationConfig config>
struct Activation {
  using T = ElementOf<config.element>;
  using Params = ActivationParams;
  using Floats = RowFloats<T>;
  static constexpr int threads = 128, ctas_per_sm = 8;
  struct Shared {};

  static Grid grid(const Params& params) {
    SLUICE_ASSERT(params.rows >= 0 && params.features > 0, "rows of at least one number");
    if (params.rows == 0) return {0, 1};
    SLUICE_ASSERT(config.gated == (params.up != nullptr), "up where the activation is gated");
    SLUICE_ASSERT(params.out != params.gate && params.out != params.up, "not in place");
    SLUICE_ASSERT(!whole_packets(params) ||
                      aligned(params.gate, params.up, params.gate_bias, params.up_bias, params.out),
                  "rows of whole packets begin at multiples of 16 bytes");
    const std::int64_t blocks = std::int64_t{params.rows} * blocks_of_row(params);
    SLUICE_ASSERT(blocks <= 2147483647, "a grid that CUDA has");
    return {static_cast<int>(blocks), 1};
  }

  template <Cta C>
  SLUICE_DEVICE static void run(const C& cta, Shared& /*shared*/, const Params& params) {
    const int features = params.features;
    const int row = cta.block_x() / blocks_of_row(params);
    const int at = (cta.block_x() % blocks_of_row(params) * threads + cta.thread()) * Floats::size;
    if (at >= features) return;
    const bool whole = whole_packets(params);
    Floats gate;
    load_with_bias(gate, params.gate, row * params.gate_stride, params.gate_bias, at, features, whole);
    SLUICE_UNROLL
    for (int j = 0; j < Floats::size; ++j) gate.of[j] = activate<config.kind>(gate.of[j]);
    if constexpr (config.gated) {
      Floats up;
      load_with_bias(up, params.up, row * params.up_stride, params.up_bias, at, features, whole);
      SLUICE_UNROLL
      for (int j = 0; j < Floats::size; ++j) gate.of[j] *= up.of[j];
    }
    gate.store(static_cast<T*>(params.out) + std::int64_t{row} * features, at, features, whole);
  }

 private:
  /// Whether every row begins with a whole packet.
  SLUICE_HOST_DEVICE static bool whole_packets(const Params& params) {
    return params.features % Floats::size == 0 && params.gate_stride % Floats::size == 0 &&
           params.up_stride % Floats::size == 0;
  }
  SLUICE_HOST_DEVICE static int blocks_of_row(const Params& params) {
    return pieces(params.features, threads * Floats::size);
  }
  SLUICE_DEVICE static void load_with_bias(Floats& into, const void* from, std::int64_t row, const void* bias, int at,
                                           int features, bool whole) {
    into.load(static_cast<const T*>(from) + row, at, features, whole);
    if (bias == nullptr) return;
    Floats added;
    added.load(static_cast<const T*>(bias), at, features, whole);
    SLUICE_UNROLL
    for (int j = 0; j < Floats::size; ++j) into.of[j] += added.of[j];
  }
};

} // namespace sluice::kernels
