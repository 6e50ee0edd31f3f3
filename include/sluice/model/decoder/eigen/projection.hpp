// SPDX-License-Identifier: Apache-2.0
// Projections y = W x of any number of rows; each row is summed in the order in which it would be summed alone.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/model/decoder/eigen/activations.hpp"
#include "sluice/model/decoder/eigen/lanes.hpp"
#include "sluice/model/decoder/thread_pool.hpp"
#include "sluice/model/decoder/weights.hpp"

#include <algorithm>
#include <array>
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

/// The order of every sum: over chunks of a fixed number of columns; within a chunk lane i sums the columns k with k %
/// 16 == i in ascending order, by fused multiply-adds from zero; the tree of `sum` adds the lanes; chunks are added in
/// ascending order. A short last sixteen is filled with zeros. Every output of every row is summed this way, whatever
/// the tile. Chunks let a tile of a long matrix stay in the first-level cache.
inline constexpr int chunk_columns = 1024;

/// A chunk's sums of `Rows` rows times `Outputs` outputs, output fastest, from the pointers to its first column.
/// Prefetches the weights `ahead` bytes behind those being read; 0: none.
template <ElementType type, int Rows, int Outputs, bool Ahead>
void chunk_sums(const float* const* x, const std::byte* const* w, int columns, float* sums, std::int64_t ahead) {
  Lanes16 total[std::size_t{Rows * Outputs}];
  unrolled<Rows * Outputs>([&](auto i) { total[i] = Lanes16::zero(); });
  const auto step = [&](const auto& load_x, const auto& load_w) __attribute__((always_inline)) {
    Lanes16 left[std::size_t{Rows}];
    unrolled<Rows>([&](auto r) { left[r] = load_x(r); });
    unrolled<Outputs>([&](auto o) {
      const Lanes16 right = load_w(o);
      unrolled<Rows>([&](auto r) { total[r * Outputs + o] = fused(left[r], right, total[r * Outputs + o]); });
    });
  };
  int k = 0;
  for (; k + Lanes16::count <= columns; k += Lanes16::count) {
    const std::int64_t at = std::int64_t{k} * bytes_of(type);
    if constexpr (Ahead) {
      unrolled<Outputs>([&](auto o) __attribute__((always_inline)) { ask_for<1>(w[o] + at + ahead); });
    }
    step([&](int r) { return Lanes16::load(x[r] + k); }, [&](int o) { return load_stored<type>(w[o] + at); });
  }
  if (k < columns) {
    step([&](int r) { return load_floats(x[r] + k, columns - k); },
         [&](int o) { return load_stored<type>(w[o] + std::int64_t{k} * bytes_of(type), columns - k); });
  }
  static_assert(Rows * Outputs % 4 == 0);
  constexpr int sixteens = Rows * Outputs / 16;
  unrolled<sixteens>([&](auto i) { sum_sixteen(total + 16 * i, sums + 16 * i); });
  unrolled<(Rows * Outputs - 16 * sixteens) / 4>([&](auto i) {
    const int at = 16 * sixteens + 4 * i;
    sum_four(total[at], total[at + 1], total[at + 2], total[at + 3], sums + at);
  });
}

/// Tile sizes by the available registers: the sums, a column of x and one of w. `few` for weights as stored, for
/// batches that read them once; `many` for weights converted to floats, for batches that read them often.
struct Tile {
  int rows;
  int outputs;
};
inline constexpr Tile few{Lanes16::packets == 1 ? 4 : 1, 4};
/// One row alone is bound by reading, and reads at the rate of the fastest loop that only reads (bench_cpu) if it takes
/// one row of weights after the other, without a prefetch of its own: on an AMD EPYC 1.5 times as fast as four rows at
/// once with the next tile prefetched. Longer rows share the first-level cache with more of x than it keeps; eight of
/// them are read at once, and each number of x is loaded once for all.
inline constexpr int columns_one_by_one = 3072;
inline constexpr int outputs_of_one = Lanes16::packets == 1 ? 8 : few.outputs;
inline constexpr Tile many_rows_tile = Lanes16::packets == 1 ? Tile{4, 6} : Tile{2, 2};

/// A chunk's sums of 1 .. few.rows rows; may compute more if that is faster, repeating the last row.
template <ElementType type, bool Ahead>
void chunk_sums_of_few(const float* const* x, int rows, const std::byte* const* w, int columns, float* sums,
                       std::int64_t ahead) {
  if (few.rows == 1 || rows == 1) // the last of an odd number
    chunk_sums<type, 1, few.outputs, Ahead>(x, w, columns, sums, ahead);
  else if (rows == 2)
    chunk_sums<type, 2, few.outputs, Ahead>(x, w, columns, sums, ahead);
  else
    chunk_sums<type, few.rows, few.outputs, Ahead>(x, w, columns, sums, ahead);
}

/// Where a tile of results goes, and its size: the first chunk is stored, the others are added.
struct TileResult {
  float* y;
  std::int64_t stride;
  int rows;
  int outputs;
  bool first;

  void take(const float* sums, int sums_stride) const {
    for (int r = 0; r < rows; ++r) {
      float* to = y + r * stride;
      const float* from = sums + r * sums_stride;
      if (first) {
        for (int o = 0; o < outputs; ++o) to[o] = from[o];
      } else {
        for (int o = 0; o < outputs; ++o) to[o] += from[o];
      }
    }
  }
};

/// How many rows of x, a chunk wide, stay in the second-level cache while the weights pass; and from how many rows on
/// weights are first converted to floats.
inline constexpr int block_rows = 128;
inline constexpr int rows_to_pack = 12;

/// One output of one row.
template <ElementType type>
[[nodiscard]] float one_sum(const float* x, const std::byte* w, std::int64_t columns) {
  float all = 0;
  for (std::int64_t from = 0; from < columns; from += chunk_columns) {
    const std::int64_t to = std::min(columns, from + chunk_columns);
    Lanes16 total = Lanes16::zero();
    std::int64_t k = from;
    for (; k + Lanes16::count <= to; k += Lanes16::count)
      total = fused(Lanes16::load(x + k), load_stored<type>(w + k * bytes_of(type)), total);
    if (k < to) {
      const int left = static_cast<int>(to - k);
      total = fused(load_floats(x + k, left), load_stored<type>(w + k * bytes_of(type), left), total);
    }
    all = from == 0 ? sum(total) : all + sum(total);
  }
  return all;
}

template <ElementType type>
void project_one(const float* x, const Matrix& w, std::int64_t first, std::int64_t last, float* y) {
  if (w.columns <= columns_one_by_one) {
    for (std::int64_t o = first; o < last; ++o) y[o] = one_sum<type>(x, w.row(o), w.columns);
    return;
  }
  for (std::int64_t o = first; o < last; o += outputs_of_one) {
    const int outputs = static_cast<int>(std::min<std::int64_t>(outputs_of_one, last - o));
    for (std::int64_t k = 0; k < w.columns; k += chunk_columns) {
      const std::byte* from[std::size_t{outputs_of_one}];
      for (int i = 0; i < outputs_of_one; ++i) from[i] = w.row(o + std::min(i, outputs - 1)) + k * bytes_of(type);
      const int columns = static_cast<int>(std::min<std::int64_t>(chunk_columns, w.columns - k));
      const float* const left = x + k;
      float sums[std::size_t{outputs_of_one}];
      chunk_sums<type, 1, outputs_of_one, false>(&left, from, columns, sums, 0);
      TileResult{y + o, 0, 1, outputs, k == 0}.take(sums, outputs_of_one);
    }
  }
}

template <ElementType type>
void project_few(const ActivationRows& x, const Matrix& w, std::int64_t first, std::int64_t last, float* y,
                 std::int64_t y_stride) {
  const std::int64_t ahead = few.outputs * w.row_bytes(); // the next tile
  for (std::int64_t o = first; o < last; o += few.outputs) {
    const int outputs = static_cast<int>(std::min<std::int64_t>(few.outputs, last - o));
    for (std::int64_t k = 0; k < w.columns; k += chunk_columns) {
      const std::byte* from[std::size_t{few.outputs}];
      for (int i = 0; i < few.outputs; ++i) from[i] = w.row(o + std::min(i, outputs - 1)) + k * bytes_of(type);
      const int columns = static_cast<int>(std::min<std::int64_t>(chunk_columns, w.columns - k));
      for (int r = 0; r < x.count; r += few.rows) {
        const int rows = std::min(few.rows, x.count - r);
        const float* left[std::size_t{few.rows}];
        for (int i = 0; i < few.rows; ++i) left[i] = x.row(r + std::min(i, rows - 1)) + k;
        float sums[std::size_t{few.rows * few.outputs}];
        if (r == 0)
          chunk_sums_of_few<type, true>(left, rows, from, columns, sums, ahead);
        else
          chunk_sums_of_few<type, false>(left, rows, from, columns, sums, 0);
        TileResult{y + r * y_stride + o, y_stride, rows, outputs, k == 0}.take(sums, few.outputs);
      }
    }
  }
}

template <ElementType type>
void project_many(const ActivationRows& x, const Matrix& w, std::int64_t first, std::int64_t last, float* y,
                  std::int64_t y_stride) {
  alignas(64) float packed[std::size_t{many_rows_tile.outputs * chunk_columns}];
  const std::byte* right[std::size_t{many_rows_tile.outputs}];
  for (int i = 0; i < many_rows_tile.outputs; ++i)
    right[i] = reinterpret_cast<const std::byte*>(packed + i * chunk_columns);
  for (int block = 0; block < x.count; block += block_rows) {
    const int block_end = std::min(x.count, block + block_rows);
    for (std::int64_t k = 0; k < w.columns; k += chunk_columns) {
      const int columns = static_cast<int>(std::min<std::int64_t>(chunk_columns, w.columns - k));
      for (std::int64_t o = first; o < last; o += many_rows_tile.outputs) {
        const int outputs = static_cast<int>(std::min<std::int64_t>(many_rows_tile.outputs, last - o));
        for (int i = 0; i < many_rows_tile.outputs; ++i)
          widen<type>(w.row(o + std::min(i, outputs - 1)) + k * bytes_of(type), columns, packed + i * chunk_columns);
        for (int r = block; r < block_end; r += many_rows_tile.rows) {
          const int rows = std::min(many_rows_tile.rows, block_end - r);
          const float* left[std::size_t{many_rows_tile.rows}];
          for (int i = 0; i < many_rows_tile.rows; ++i) left[i] = x.row(r + std::min(i, rows - 1)) + k;
          float sums[std::size_t{many_rows_tile.rows * many_rows_tile.outputs}];
          chunk_sums<ElementType::f32, many_rows_tile.rows, many_rows_tile.outputs, false>(left, right, columns, sums,
                                                                                           0);
          TileResult{y + r * y_stride + o, y_stride, rows, outputs, k == 0}.take(sums, many_rows_tile.outputs);
        }
      }
    }
  }
}

} // namespace detail

/// y[r][o] = sum over k of x[r][k] * w[o][k], for the outputs `first` .. `last` - 1 (y's column o is w's row o; rows of
/// y are `y_stride` floats apart).
template <ElementType type>
void project(const ActivationRows& x, const Matrix& w, std::int64_t first, std::int64_t last, float* y,
             std::int64_t y_stride) {
  if (x.count == 1)
    detail::project_one<type>(x.row(0), w, first, last, y);
  else if (x.count < detail::rows_to_pack)
    detail::project_few<type>(x, w, first, last, y, y_stride);
  else
    detail::project_many<type>(x, w, first, last, y, y_stride);
}

/// The same for a matrix of any element type.
inline void project(const ActivationRows& x, const Matrix& w, std::int64_t first, std::int64_t last, float* y,
                    std::int64_t y_stride) {
  with_type(w.type, [&](auto type) { project<decltype(type)::value>(x, w, first, last, y, y_stride); });
}

// OutputParts: the outputs of one or more matrices, cut into parts for threads.

/// Matrices that are applied in one job, with outputs in parts of about 128 KiB of weights: reads long enough for
/// prefetching, and parts short enough that threads end together. Parts start at multiples of 16 outputs, so that no
/// two threads write to one cache line.
class OutputParts {
 public:
  struct Part {
    int matrix = 0;
    std::int64_t first = 0;
    std::int64_t last = 0;
  };

  void add(const Matrix& matrix) {
    SLUICE_ASSERT(count_ < most, "more matrices than a job has");
    const std::int64_t fit = part_bytes / std::max<std::int64_t>(1, matrix.row_bytes());
    const std::int64_t outputs = std::clamp<std::int64_t>(fit / 16 * 16, 16, 96);
    const int parts = static_cast<int>((matrix.rows + outputs - 1) / outputs);
    spans_[static_cast<std::size_t>(count_++)] = {parts, outputs, matrix.rows};
    parts_ += parts;
  }
  [[nodiscard]] int count() const { return parts_; }
  [[nodiscard]] Part part(int number) const {
    int matrix = 0;
    while (number >= spans_[static_cast<std::size_t>(matrix)].parts)
      number -= spans_[static_cast<std::size_t>(matrix++)].parts;
    const Span& span = spans_[static_cast<std::size_t>(matrix)];
    return {matrix, number * span.outputs, std::min(span.rows, (number + 1) * span.outputs)};
  }

 private:
  struct Span {
    int parts = 0;
    std::int64_t outputs = 0; ///< of each part but the last
    std::int64_t rows = 0;
  };
  static constexpr int most = 4;
  static constexpr std::int64_t part_bytes = 128 << 10;

  std::array<Span, most> spans_{};
  int count_ = 0;
  int parts_ = 0;
};

// Adds a projection to the residual stream: hidden += W x, for attention's output and an MLP's.

/// hidden[to[r]] += factors[r] * (W x[r] + bias); `to` defaults to row r, `factors` to 1. Uses `projected`.
inline void add_projection(ThreadPool& pool, Activations& activations, const Matrix& w, const float* bias,
                           const ActivationRows& x, const int* to = nullptr, const float* factors = nullptr) {
  OutputParts parts;
  parts.add(w);
  pool.run(parts.count(), [&](int number, int /*thread*/) {
    const OutputParts::Part part = parts.part(number);
    project(x, w, part.first, part.last, activations.projected, activations.hidden_stride);
    for (int r = 0; r < x.count; ++r) {
      float* result = activations.projected + r * activations.hidden_stride;
      add_bias(bias, part.first, part.last, result);
      float* hidden = activations.hidden + (to != nullptr ? to[r] : r) * activations.hidden_stride;
      if (factors == nullptr) {
        for (std::int64_t i = part.first; i < part.last; ++i) hidden[i] += result[i];
      } else {
        for (std::int64_t i = part.first; i < part.last; ++i) hidden[i] += factors[r] * result[i];
      }
    }
  });
}

} // namespace sluice
