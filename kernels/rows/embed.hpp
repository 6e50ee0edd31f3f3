// SPDX-License-Identifier: Apache-2.0
// Embed: the start of the residual stream: a token's row of the embedding, plus a position's row if positions are
// learned.
#pragma once

#include "sluice/core/assert.hpp"

#include "kernels/cta.hpp"
#include "kernels/rows/row_floats.hpp"
#include "kernels/shared_array.hpp"

#include <cstdint>

namespace sluice::kernels {

struct EmbedConfig {
  ElementType element = ElementType::bf16;

  friend bool operator==(const EmbedConfig&, const EmbedConfig&) = default;
};

/// Numbers are of the configuration's element, matrices row-major and 16-byte aligned. The caller must check that
/// tokens and positions are rows of the tables; a kernel cannot report an error.
struct EmbedParams {
  const int* tokens = nullptr;    ///< [rows]
  const int* positions = nullptr; ///< [rows], only with `learned`
  const void* table = nullptr;    ///< [vocabulary][features]
  const void* learned = nullptr;  ///< [positions + offset][features]; null: positions are not learned
  void* out = nullptr;            ///< [rows][features]
  int position_offset = 0;        ///< row of `learned` for position 0 (OPT: 2)
  int rows = 0;
  int features = 0;

  friend bool operator==(const EmbedParams&, const EmbedParams&) = default;
};

/// One block per row. The sum is rounded once.
template <EmbedConfig config>
struct Embed {
  using T = ElementOf<config.element>;
  using Params = EmbedParams;
  using Floats = RowFloats<T>;
  static constexpr int threads = 128, ctas_per_sm = 8;
  struct Shared {};

  static Grid grid(const Params& params) {
    SLUICE_ASSERT(params.rows >= 0 && params.features > 0, "rows of at least one number");
    SLUICE_ASSERT(params.rows == 0 || params.learned == nullptr || params.positions != nullptr,
                  "positions, where they are embedded");
    SLUICE_ASSERT(params.features % Floats::size != 0 || aligned(params.table, params.learned, params.out),
                  "rows of whole packets begin at multiples of 16 bytes");
    return {params.rows, 1};
  }

  template <Cta C>
  SLUICE_DEVICE static void run(const C& cta, Shared& /*shared*/, const Params& params) {
    const int row = cta.block_x();
    const int features = params.features;
    const bool whole = features % Floats::size == 0;
    const T* const token = static_cast<const T*>(params.table) + std::int64_t{params.tokens[row]} * features;
    const T* const position = params.learned != nullptr
                                  ? static_cast<const T*>(params.learned) +
                                        (std::int64_t{params.positions[row]} + params.position_offset) * features
                                  : nullptr;
    T* const out = static_cast<T*>(params.out) + std::int64_t{row} * features;
    for (int at = cta.thread() * Floats::size; at < features; at += threads * Floats::size) {
      Floats value;
      value.load(token, at, features, whole);
      if (position != nullptr) {
        Floats added;
        added.load(position, at, features, whole);
        SLUICE_UNROLL
        for (int j = 0; j < Floats::size; ++j) value.of[j] += added.of[j];
      }
      value.store(out, at, features, whole);
    }
  }
};

} // namespace sluice::kernels
