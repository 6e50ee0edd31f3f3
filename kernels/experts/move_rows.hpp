// SPDX-License-Identifier: Apache-2.0
// GatherRows: copies each row once for each of its experts. ScatterRows: adds up the experts' weighted results.
#pragma once

#include "sluice/core/assert.hpp"

#include "kernels/cta.hpp"
#include "kernels/rows/row_floats.hpp"
#include "kernels/shared_array.hpp"

#include <cstdint>

namespace sluice::kernels {

// GatherRows: copies each row once for each of its experts, in the experts' order.
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

// ScatterRows: adds up the results of a row's experts, weighted by their shares.
struct ScatterRowsConfig {
  ElementType element = ElementType::bf16;

  friend bool operator==(const ScatterRowsConfig&, const ScatterRowsConfig&) = default;
};

struct ScatterRowsParams {
  const void* gathered = nullptr; ///< [slots][features]
  const int* slots = nullptr;     ///< [rows][taken], from Place
  const float* shares = nullptr;  ///< [rows][taken], from Route
  void* out = nullptr;            ///< [rows][features]
  int rows = 0;
  int taken = 0; ///< at most 8
  int features = 0;

  friend bool operator==(const ScatterRowsParams&, const ScatterRowsParams&) = default;
};

/// One block per row. Sums are in f32, by ascending slot and therefore by ascending expert, so a row's order depends
/// neither on other rows nor on which expert ranked higher. The result is rounded once.
template <ScatterRowsConfig config>
struct ScatterRows {
  using T = ElementOf<config.element>;
  using Params = ScatterRowsParams;
  using Floats = RowFloats<T>;
  static constexpr int threads = 128, ctas_per_sm = 8, most_taken = 8;

  struct Shared {
    SharedArray<int, most_taken> slots; ///< ascending
    SharedArray<float, most_taken> shares;
  };

  static Grid grid(const Params& params) {
    SLUICE_ASSERT(params.rows >= 0 && params.features > 0, "rows of at least one number");
    SLUICE_ASSERT(params.taken > 0 && params.taken <= most_taken, "at most 8 experts of a row");
    SLUICE_ASSERT(params.features % Floats::size != 0 || aligned(params.gathered, params.out),
                  "rows of whole packets begin at multiples of 16 bytes");
    return {params.rows, 1};
  }

  template <Cta C>
  SLUICE_DEVICE static void run(const C& cta, Shared& shared, const Params& params) {
    const int features = params.features;
    const bool whole = features % Floats::size == 0;
    const std::int64_t first = std::int64_t{cta.block_x()} * params.taken;
    if (cta.thread() < params.taken) {
      const int mine = params.slots[first + cta.thread()];
      int before = 0; // no two slots are the same
      for (int i = 0; i < params.taken; ++i) before += params.slots[first + i] < mine ? 1 : 0;
      shared.slots[before] = mine;
      shared.shares[before] = params.shares[first + cta.thread()];
    }
    cta.sync();
    T* const out = static_cast<T*>(params.out) + std::int64_t{cta.block_x()} * features;
    for (int at = cta.thread() * Floats::size; at < features; at += threads * Floats::size) {
      Floats sum{};
      for (int i = 0; i < params.taken; ++i) {
        Floats value;
        value.load(static_cast<const T*>(params.gathered) + std::int64_t{shared.slots[i]} * features, at, features,
                   whole);
        SLUICE_UNROLL
        for (int j = 0; j < Floats::size; ++j) sum.of[j] = fused(shared.shares[i], value.of[j], sum.of[j]);
      }
      sum.store(out, at, features, whole);
    }
  }
};

} // namespace sluice::kernels
