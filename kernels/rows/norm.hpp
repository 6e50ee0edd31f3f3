// SPDX-License-Identifier: Apache-2.0
// Norm: adds a projection to the residual stream and normalises the sum by RMSNorm or LayerNorm, with a block per row.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/model/decoder/kinds.hpp"

#include "kernels/cta.hpp"
#include "kernels/rows/row_floats.hpp"
#include "kernels/shared_array.hpp"

#include <cstdint>

namespace sluice::kernels {

// block_sum: the sum of one float per thread of a block, always in the same order.

/// Sums lanes by a tree of shuffles, then warps in ascending order. All threads call it and get the sum. `room`: reused
/// only after a `sync()`. `idle`: all lanes of this warp have 0, so that it need not shuffle.
template <Cta C>
SLUICE_DEVICE float block_sum(const C& cta, float mine, SharedArray<float, C::threads / warp_lanes>& room,
                              bool idle = false) {
  if (!idle) {
    SLUICE_UNROLL
    for (int with = warp_lanes / 2; with > 0; with /= 2) mine += cta.shuffle_xor(mine, with);
  }
  if (cta.lane() == 0) room[cta.warp()] = mine;
  cta.sync();
  float sum = 0;
  SLUICE_UNROLL
  for (int warp = 0; warp < C::threads / warp_lanes; ++warp) sum += room[warp];
  return sum;
}

struct NormConfig {
  ElementType element = ElementType::bf16;
  NormKind kind = NormKind::rms;

  friend bool operator==(const NormConfig&, const NormConfig&) = default;
};

/// Numbers are of the configuration's element, matrices row-major and 16-byte aligned.
struct NormParams {
  const void* x = nullptr;      ///< [rows][features], added to the residual; null: none
  const void* x_bias = nullptr; ///< [features], added to x first; null: none
  void* residual = nullptr;     ///< [rows][features]; written only if there is x
  const int* which = nullptr;   ///< [rows]: rows of x and residual to use (out has them one after the other); null:
                                ///< all, in order. With x, no row may occur twice
  const void* weight = nullptr; ///< [features]
  const void* bias = nullptr;   ///< [features]; null: none
  void* out = nullptr;          ///< [rows][features], neither x nor residual
  int rows = 0;
  int features = 0;
  float epsilon = 1e-5F;

  friend bool operator==(const NormParams&, const NormParams&) = default;
};

/// residual += x + x_bias; out = residual / sqrt(mean(residual^2) + epsilon) * weight (Zhang and Sennrich, "Root Mean
/// Square Layer Normalization", 2019), or LayerNorm of the same (Ba et al., 2016): mean first, then squared deviations,
/// in two passes, since mean(x^2) - mean(x)^2 suffers from cancellation. The mean's rounding error appears as the mean
/// of the deviations, and is subtracted as well, so that a row whose mean is many deviations keeps its precision.
///
/// It normalises the rounded residual, as stored in memory, so that a later kernel normalises the same numbers. Sums
/// are in f32: first a thread's own numbers in ascending order, then lanes by a tree, then warps in ascending order.
template <NormConfig config>
struct Norm {
  using T = ElementOf<config.element>;
  using Params = NormParams;
  using Floats = RowFloats<T>;
  static constexpr int threads = 256, ctas_per_sm = 4;
  /// Packets that a thread keeps in registers; the thread reads further packets of longer rows again.
  static constexpr int kept = 16 / Floats::size;

  struct Shared {
    SharedArray<float, threads / warp_lanes> sums[3];
  };

  static Grid grid(const Params& params) {
    SLUICE_ASSERT(params.rows >= 0 && params.features > 0, "rows of at least one number");
    if (params.rows == 0) return {0, 1};
    SLUICE_ASSERT(params.residual != nullptr && params.weight != nullptr && params.out != nullptr, "rows, and scales");
    SLUICE_ASSERT(params.out != params.residual && params.out != params.x, "not in place");
    SLUICE_ASSERT(params.features % Floats::size != 0 ||
                      aligned(params.x, params.x_bias, params.residual, params.weight, params.bias, params.out),
                  "rows of whole packets begin at multiples of 16 bytes");
    return {params.rows, 1};
  }

  template <Cta C>
  SLUICE_DEVICE static void run(const C& cta, Shared& shared, const Params& params) {
    const int features = params.features;
    const bool whole = features % Floats::size == 0;
    const int row = params.which != nullptr ? params.which[cta.block_x()] : cta.block_x();
    const std::int64_t from = std::int64_t{row} * features;
    T* const residual = static_cast<T*>(params.residual) + from;
    const T* const x = params.x != nullptr ? static_cast<const T*>(params.x) + from : nullptr;

    const int first = cta.thread() * Floats::size;
    constexpr int stride = threads * Floats::size;
    const bool idle = cta.warp() * warp_lanes * Floats::size >= features; // the row is too short for this warp
    Floats values[static_cast<std::size_t>(kept)];
    const auto each = [&](const auto& does) {
      SLUICE_UNROLL
      for (int i = 0; i < kept; ++i)
        if (first + i * stride < features) does(first + i * stride, values[i]);
      for (int at = first + kept * stride; at < features; at += stride) {
        Floats again;
        again.load_written(residual, at, features, whole);
        does(at, again);
      }
    };
    const auto load = [&](int at, Floats& value, Floats& added) {
      value.load_written(residual, at, features, whole);
      if (x != nullptr) added.load(x, at, features, whole);
    };
    const auto add = [&](int at, Floats& value, Floats& added) {
      if (x == nullptr) return;
      if (params.x_bias != nullptr) {
        Floats bias;
        bias.load(static_cast<const T*>(params.x_bias), at, features, whole);
        SLUICE_UNROLL
        for (int j = 0; j < Floats::size; ++j) added.of[j] += bias.of[j];
      }
      SLUICE_UNROLL
      for (int j = 0; j < Floats::size; ++j) value.of[j] += added.of[j];
      value.round();
      value.store(residual, at, features, whole);
    };
    Floats added[static_cast<std::size_t>(kept)];
    // All loads before the first store: a load behind it would wait, since the compiler must assume that it reads what
    // the store wrote.
    SLUICE_UNROLL
    for (int i = 0; i < kept; ++i)
      if (first + i * stride < features) load(first + i * stride, values[i], added[i]);
    SLUICE_UNROLL
    for (int i = 0; i < kept; ++i)
      if (first + i * stride < features) add(first + i * stride, values[i], added[i]);
    for (int at = first + kept * stride; at < features; at += stride) { // these are loaded once more than necessary
      Floats value, more;
      load(at, value, more);
      add(at, value, more);
    }

    float mean = 0;
    if constexpr (config.kind == NormKind::layer) {
      float sum = 0;
      each([&](int, const Floats& value) {
        SLUICE_UNROLL
        for (int j = 0; j < Floats::size; ++j) sum += value.of[j];
      });
      mean = block_sum(cta, sum, shared.sums[1], idle) / static_cast<float>(features);
    }
    float squares = 0, rest = 0;
    each([&](int at, const Floats& value) {
      SLUICE_UNROLL
      for (int j = 0; j < Floats::size; ++j) {
        const float off = at + j < features ? value.of[j] - mean : 0.0F; // the zeros beyond the end do not count
        squares = fused(off, off, squares);
        if constexpr (config.kind == NormKind::layer) rest += off;
      }
    });
    float variance = block_sum(cta, squares, shared.sums[0], idle) / static_cast<float>(features);
    if constexpr (config.kind == NormKind::layer) {
      rest = block_sum(cta, rest, shared.sums[2], idle) / static_cast<float>(features);
      variance -= times(rest, rest);
    }
    const float factor = inverse_root(variance + params.epsilon);

    T* const out = static_cast<T*>(params.out) + std::int64_t{cta.block_x()} * features;
    each([&](int at, const Floats& value) {
      Floats scale, result;
      scale.load(static_cast<const T*>(params.weight), at, features, whole);
      SLUICE_UNROLL
      for (int j = 0; j < Floats::size; ++j) result.of[j] = times((value.of[j] - mean - rest) * factor, scale.of[j]);
      if (params.bias != nullptr) {
        Floats bias;
        bias.load(static_cast<const T*>(params.bias), at, features, whole);
        SLUICE_UNROLL
        for (int j = 0; j < Floats::size; ++j) result.of[j] += bias.of[j];
      }
      result.store(out, at, features, whole);
    });
  }
};

} // namespace sluice::kernels
