// SPDX-License-Identifier: Apache-2.0
// GatherRows: copies each row once for each of its experts, in the experts' order.
#pragma once

#include "sluice/core/assert.hpp"

#include "kernels/aligned.hpp"
#include "kernels/cta.hpp"
#include "kernels/rows/row_floats.hpp"

#include <cstdint>

namespace sluice::kernels {

struct GatherRowsConfig {
  ElementType element = ElementType::bf16;

  friend bool operator==(const GatherRowsConfig&, const GatherRowsConfig&) = default;
};

struct GatherRowsParams {
  const void* x = nullptr;    ///< [rows][features]
  const int* slots = nullptr; ///< [rows][taken], from Place
  void* gathered = nullptr;   ///< [slots][features]
  int rows = 0;
  int taken = 0;
  int features = 0;

  friend bool operator==(const GatherRowsParams&, const GatherRowsParams&) = default;
};

/// A block for each row, which is read once and written `taken` times.
template <GatherRowsConfig config>
struct GatherRows {
  using T = ElementOf<config.element>;
  using Params = GatherRowsParams;
  using Floats = RowFloats<T>;
  static constexpr int threads = 128, ctas_per_sm = 8;
  struct Shared {};

  static Grid grid(const Params& params) {
    SLUICE_ASSERT(params.rows >= 0 && params.taken > 0 && params.features > 0, "rows of at least one number");
    SLUICE_ASSERT(params.features % Floats::size != 0 || aligned(params.x, params.gathered),
                  "rows of whole packets begin at multiples of 16 bytes");
    return {params.rows, 1};
  }

  template <Cta C>
  SLUICE_DEVICE static void run(const C& cta, Shared& /*shared*/, const Params& params) {
    const int features = params.features;
    const bool whole = features % Floats::size == 0;
    const T* const from = static_cast<const T*>(params.x) + std::int64_t{cta.block_x()} * features;
    const int* const slots = params.slots + std::int64_t{cta.block_x()} * params.taken;
    for (int at = cta.thread() * Floats::size; at < features; at += threads * Floats::size) {
      Floats value; // widened and narrowed again, which changes no number
      value.load(from, at, features, whole);
      for (int i = 0; i < params.taken; ++i)
        value.store(static_cast<T*>(params.gathered) + std::int64_t{slots[i]} * features, at, features, whole);
    }
  }
};

} // namespace sluice::kernels
