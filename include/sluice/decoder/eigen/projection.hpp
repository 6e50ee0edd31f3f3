// SPDX-License-Identifier: Apache-2.0
// Projections y = W x of any number of rows, each row summed in the order in which it would be summed alone.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/decoder/eigen/stored.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace sluice {

/// Rows of activations: row r at `data + index[r] * stride`, or at `data + r * stride` without an index.
struct ActivationRows {
  const float* data = nullptr;
  std::int64_t stride = 0;
  int count = 0;
  const int* index = nullptr;

  [[nodiscard]] const float* row(int at) const { return data + (index != nullptr ? index[at] : at) * stride; }
};

namespace detail {

/// The order of every sum: over chunks of so many columns; in a chunk lane i sums the columns k with k % 16 == i in
/// ascending order, by fused multiply-adds from zero; the lanes make a chunk's sum by the tree of `sum`; the chunks add
/// up in ascending order. A short last sixteen is filled with zeros. Whatever the tile, each output of each row is made
/// so. Chunks let a tile of a long matrix stay in the first cache.
inline constexpr int chunk_columns = 1024;

/// The chunk's sums of `Rows` rows times `Outputs` outputs, output fastest, from the pointers to its first column.
template <ElementType type, int Rows, int Outputs>
void chunk_sums(const float* const* x, const std::byte* const* w, int columns, float* sums) {
  Lanes16 total[std::size_t{Rows * Outputs}];
  for (Lanes16& lanes : total) lanes = Lanes16::zero();
  const auto step = [&](const auto& load_x, const auto& load_w) {
    Lanes16 left[std::size_t{Rows}];
    for (int r = 0; r < Rows; ++r) left[r] = load_x(r);
    for (int o = 0; o < Outputs; ++o) {
      const Lanes16 right = load_w(o);
      for (int r = 0; r < Rows; ++r) total[r * Outputs + o] = fused(left[r], right, total[r * Outputs + o]);
    }
  };
  int k = 0;
  for (; k + Lanes16::count <= columns; k += Lanes16::count) {
    step([&](int r) { return Lanes16::load(x[r] + k); },
         [&](int o) { return load_stored<type>(w[o] + std::int64_t{k} * bytes_of(type)); });
  }
  if (k < columns) {
    step([&](int r) { return load_floats(x[r] + k, columns - k); },
         [&](int o) { return load_stored<type>(w[o] + std::int64_t{k} * bytes_of(type), columns - k); });
  }
  static_assert(Rows * Outputs % 4 == 0);
  for (int i = 0; i < Rows * Outputs; i += 4) sum_four(total[i], total[i + 1], total[i + 2], total[i + 3], sums + i);
}

/// `chunk_sums` of a tile that may hang over the edge: what is outside is computed from the last row or output inside,
/// and left out by whoever reads the sums.
template <ElementType type, int Outputs>
void chunk_sums(const float* const* x, int rows, const std::byte* const* w, int columns, float* sums) {
  if (rows == 1) return chunk_sums<type, 1, Outputs>(x, w, columns, sums);
  if (rows == 2) return chunk_sums<type, 2, Outputs>(x, w, columns, sums);
  return chunk_sums<type, 4, Outputs>(x, w, columns, sums);
}

inline constexpr int tile_rows = 4;
inline constexpr int tile_outputs = 4;

} // namespace detail

/// y[r][o] = sum over k of x[r][k] * w[o][k] for the outputs `first` .. `last` - 1 (y's column o is w's row o;
/// `y_stride` floats from row to row).
template <ElementType type>
void project(const ActivationRows& x, const Matrix& w, std::int64_t first, std::int64_t last, float* y,
             std::int64_t y_stride) {
  using namespace detail;
  for (std::int64_t o = first; o < last; o += tile_outputs) {
    const int outputs = static_cast<int>(std::min<std::int64_t>(tile_outputs, last - o));
    for (std::int64_t k = 0; k < w.columns; k += chunk_columns) {
      const std::byte* from[tile_outputs];
      for (int i = 0; i < tile_outputs; ++i) from[i] = w.row(o + std::min(i, outputs - 1)) + k * bytes_of(type);
      const int columns = static_cast<int>(std::min<std::int64_t>(chunk_columns, w.columns - k));
      for (int r = 0; r < x.count; r += tile_rows) {
        const int rows = std::min(tile_rows, x.count - r);
        const float* left[tile_rows];
        for (int i = 0; i < tile_rows; ++i) left[i] = x.row(r + std::min(i, rows - 1)) + k;
        float sums[tile_rows * tile_outputs];
        chunk_sums<type, tile_outputs>(left, rows, from, columns, sums);
        for (int i = 0; i < rows; ++i) {
          float* to = y + (r + i) * y_stride + o;
          for (int j = 0; j < outputs; ++j)
            to[j] = k == 0 ? sums[i * tile_outputs + j] : to[j] + sums[i * tile_outputs + j];
        }
      }
    }
  }
}

/// The same for a matrix of any type of number.
inline void project(const ActivationRows& x, const Matrix& w, std::int64_t first, std::int64_t last, float* y,
                    std::int64_t y_stride) {
  with_type(w.type, [&](auto type) { project<decltype(type)::value>(x, w, first, last, y, y_stride); });
}

} // namespace sluice
