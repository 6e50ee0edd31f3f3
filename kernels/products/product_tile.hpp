// SPDX-License-Identifier: Apache-2.0
// ProductTile: the code that TileProduct and GroupedProduct share. A thread block computes one tile of y = x W^T.
#pragma once

#include "kernels/cta.hpp"
#include "kernels/products/product.hpp"

#include <cstdint>
#include <type_traits>

namespace sluice::kernels {

/// The segments of a tile's sums, and which of them this block computes. Few numbers, since each would take a register
/// in the loop over inputs: the rest follows from them where it is needed.
struct TileSegments {
  const ProductSegments* of = nullptr; ///< null: one segment
  int only = -1;                       ///< the one that this block computes; -1: all
  int tile = 0;                        ///< index among the product's tiles
};

/// The part of a product that one thread block computes: at most a tile's rows of x, times the outputs of W from
/// `first_output` on.
struct TileJob {
  const void* x;
  std::int64_t x_stride;
  ProductWeights w;
  const void* bias;
  void* y;
  std::int64_t y_stride;
  int rows; ///< of x and y; the tile's further rows are zeros and are not written
  int first_output;
  int outputs; ///< of the whole product
  int inputs;
  bool accumulate;
  bool wide;
  TileSegments segments = {};
};

/// A tile of `tile_rows` rows of x by `outputs` rows of W, in steps of `depth` inputs (128 bytes of each row), which
/// asynchronous copies fetch `stages - 1` steps ahead.
///
/// **A row's bits depend only on that row.** Each number of y has one f32 sum, which starts at zero and takes the
/// inputs in ascending order: by `mma.m16n8k16`, 16 inputs at once (f16, bf16), or (f32, where tensor cores would round
/// x and W to TF32) by sums of 32 inputs, each a chain of FMAs from zero. A single chain of FMAs has an error of 1.2e-6
/// at 4096 inputs and 2.2e-6 at 14336; sums of sums have 2.3e-7 and 3.9e-7 (uniform numbers). Every tile takes the same
/// steps, and warps never share the inputs of a sum, so the bits are the same for every tile size, row position and
/// number of rows, and the tile size can be chosen by the number of rows.
///
/// With several segments there is one such sum for each, and y takes their sum in ascending order. A block that
/// computes all of them adds up in registers (tiles of 16 rows) or in memory that stays in the L2 cache: a second set
/// of sums would take 64 more registers in larger tiles and halve the blocks of an SM. If blocks compute one segment
/// each, the last one to arrive adds up, since a block that waited for others would need all of them to be running.
///
/// Shared rows are 8 packets of 16 bytes, packet p of row r at place p xor (r mod 8): the eight rows that `ldmatrix`
/// reads at once lie in different banks, and so do the packets that eight threads copy or (f32) read at once. This
/// avoids all bank conflicts; padded rows would need 1/8 more memory for the same.
///
/// Tiles have 16 rows for decoding, where W is read once and the bytes of W in flight determine the speed: a block has
/// 28 KiB of W in flight in 48 KiB of shared memory, 4 blocks fit an SM of compute capability 9.0 and 3 one of 8.0, and
/// a block has 32 outputs, so that 4096 outputs are 128 blocks. They have 64 and 128 rows for prompts, where a warp has
/// 32 x 64 sums in registers. They need at most 97 KiB of shared memory, which every architecture from 8.0 on has.
template <ElementType element, int tile_rows>
  requires(tile_rows == 16 || tile_rows == 64 || tile_rows == 128)
struct ProductTile {
  using T = ElementOf<element>;
  static constexpr bool small = tile_rows == 16;
  static constexpr int rows = tile_rows;
  static constexpr int outputs = small ? 32 : 128;
  static constexpr int columns = 8; ///< packets of a step
  static constexpr int packet = Packet<T>::size;
  static constexpr int depth = columns * packet;
  static constexpr int warp_rows = small ? 16 : 32;
  static constexpr int warp_outputs = small ? 8 : 64;
  static constexpr int row_warps = rows / warp_rows;
  static constexpr int threads = row_warps * (outputs / warp_outputs) * warp_lanes;
  static constexpr int stages = small ? 8 : 3;
  /// Blocks that fit an SM of 9.0 by their shared memory; one fewer of the larger tiles in f32, whose lanes hold 160
  /// numbers at once.
  static constexpr int ctas_per_sm = small ? 4 : (rows == 64 ? 3 : 2) - (element == ElementType::f32 ? 1 : 0);

  struct Stage {
    SharedArray<Packet<T>, rows * columns> x;
    SharedArray<Packet<T>, outputs * columns> w;
  };
  struct Shared {
    SharedArray<Stage, stages> of;
    int only, tile; ///< the job's (TileSegments): registers are full of sums
    int last;       ///< whether this block is the last of its tile to arrive
  };
  static constexpr int numbers = rows * outputs; ///< of a segment's sums

  /// Whether `fetch` can index a tile's rows of x and all of W, by packets in 32 bits. On the host, for `grid`.
  [[nodiscard]] static constexpr bool indexable(int w_rows, int inputs, std::int64_t x_stride) {
    constexpr std::int64_t most = 2147483647;
    return x_stride >= 0 && rows * (x_stride / packet) <= most && std::int64_t{w_rows} * (inputs / packet) <= most;
  }

  /// All threads of the block call it.
  template <class C>
    requires(element == ElementType::f32 ? AsyncCopyCta<C> : TensorCta<C>)
  SLUICE_DEVICE static void run(const C& cta, Shared& shared, const TileJob& job) {
    const int steps = pieces(job.inputs, depth);
    const ProductSegments* const segments = job.segments.of; // null: one
    int step = 0, end = steps;                               // of this block
    if (segments != nullptr) {
      if (cta.thread() == 0) { // read after the loop's first barrier
        shared.only = job.segments.only;
        shared.tile = job.segments.tile;
      }
      if (job.segments.only >= 0) {
        step = job.segments.only * (segments->inputs / depth);
        if (step + segments->inputs / depth < steps) end = step + segments->inputs / depth;
      }
    }
    SLUICE_UNROLL
    for (int i = 0; i < stages - 1; ++i) {
      if (step + i < end) fetch(cta, shared.of[i], job, step + i);
      cta.commit();
    }
    Sums sums{};
    Kept kept{};
    int stage = 0;
    for (int segment_end = segments != nullptr ? step + segments->inputs / depth : steps;;
         segment_end += segments->inputs / depth) {
      const int until = segment_end < end ? segment_end : end;
      for (; step < until; ++step) {
        cta.template wait<stages - 2>();
        cta.sync(); // all threads' copies have arrived, and all have read the stage that is overwritten next
        const int next = stage == 0 ? stages - 1 : stage - 1;
        if (step + stages - 1 < end) fetch(cta, shared.of[next], job, step + stages - 1);
        cta.commit();
        if constexpr (element == ElementType::f32) {
          Sums of_step{};
          add(cta, shared.of[stage], of_step);
          add(of_step, sums);
        } else {
          add(cta, shared.of[stage], sums);
        }
        stage = stage + 1 == stages ? 0 : stage + 1;
      }
      if (segments == nullptr) break;
      if (shared.only >= 0) {
        if (!arrives_last(cta, shared, *segments, pieces(steps, segments->inputs / depth), sums)) return;
        break;
      }
      if (segment_end != segments->inputs / depth) add(cta, shared, *segments, kept, sums);
      if (step == end) break;
      keep(cta, shared, *segments, kept, sums);
      sums = Sums{};
    }
    if constexpr (element == ElementType::f32) {
      finish<float>(cta, sums, job);
    } else {
      if (job.wide)
        finish<float>(cta, sums, job);
      else
        finish<T>(cta, sums, job);
    }
  }

 private:
  // Tensor cores: a lane's fragments of 16 x 8 sums. FMA: rows 4 apart, outputs 8 apart.
  static constexpr int row_parts = element == ElementType::f32 ? warp_rows / 4 : warp_rows / 16;
  static constexpr int output_parts = warp_outputs / 8;
  static constexpr int part_sums = element == ElementType::f32 ? 1 : 4;
  template <class U, int n>
  using Some = U[static_cast<std::size_t>(n)];
  struct Sums {
    Some<Some<Some<float, part_sums>, output_parts>, row_parts> of;
  };

  /// The sum of the segments before, if it stays in registers.
  struct InMemory {};
  using Kept = std::conditional_t<small, Sums, InMemory>;

  /// A lane's sums in memory: those of all threads side by side.
  template <class C, class Does>
  SLUICE_DEVICE static void each_sum(const C& cta, float* partials, Sums& sums, const Does& does) {
    SLUICE_UNROLL
    for (int m = 0; m < row_parts; ++m) {
      SLUICE_UNROLL
      for (int n = 0; n < output_parts; ++n) {
        SLUICE_UNROLL
        for (int i = 0; i < part_sums; ++i)
          does(partials[((m * output_parts + n) * part_sums + i) * threads + cta.thread()], sums.of[m][n][i]);
      }
    }
  }
  /// Where a block that computes all segments keeps those before.
  SLUICE_DEVICE static float* own(const Shared& shared, const ProductSegments& of) {
    return of.partials + std::int64_t{shared.tile} * numbers;
  }
  template <class C>
  SLUICE_DEVICE static void keep(const C& cta, [[maybe_unused]] const Shared& shared,
                                 [[maybe_unused]] const ProductSegments& of, Kept& kept, Sums& sums) {
    if constexpr (small)
      kept = sums;
    else
      each_sum(cta, own(shared, of), sums, [](float& memory, const float& sum) { memory = sum; });
  }
  /// sums = kept + sums.
  template <class C>
  SLUICE_DEVICE static void add(const C& cta, [[maybe_unused]] const Shared& shared,
                                [[maybe_unused]] const ProductSegments& of, const Kept& kept, Sums& sums) {
    if constexpr (small) {
      SLUICE_UNROLL
      for (int m = 0; m < row_parts; ++m) {
        SLUICE_UNROLL
        for (int i = 0; i < part_sums; ++i) sums.of[m][0][i] = kept.of[m][0][i] + sums.of[m][0][i];
      }
    } else {
      each_sum(cta, own(shared, of), sums, [](const float& memory, float& sum) { sum = memory + sum; });
    }
  }

  /// Writes this block's segment. In the last block of the tile to arrive, true, and `sums` of all segments.
  template <class C>
  SLUICE_DEVICE static bool arrives_last(const C& cta, Shared& shared, const ProductSegments& of, int segments,
                                         Sums& sums) {
    float* const partials = of.partials + std::int64_t{shared.tile} * segments * numbers;
    int* const arrived = of.arrivals + shared.tile;
    each_sum(cta, partials + std::int64_t{shared.only} * numbers, sums,
             [](float& memory, const float& sum) { memory = sum; });
    cta.fence();
    cta.sync(); // all threads' sums are written
    if (cta.thread() == 0) {
      const bool last = cta.atomic_add(arrived, 1) == segments - 1;
      if (last) *arrived = 0; // for the next launch
      shared.last = last ? 1 : 0;
    }
    cta.sync();
    if (shared.last == 0) return false;
    cta.fence();
    each_sum(cta, partials, sums, [](const float& memory, float& sum) { sum = memory; });
    for (int segment = 1; segment < segments; ++segment)
      each_sum(cta, partials + std::int64_t{segment} * numbers, sums,
               [](const float& memory, float& sum) { sum = sum + memory; });
    return true;
  }

  SLUICE_DEVICE static int place(int row, int column) { return row * columns + (column ^ (row & 7)); }
  template <class C>
  SLUICE_DEVICE static int first_row(const C& cta) {
    return cta.warp() % row_warps * warp_rows;
  }
  template <class C>
  SLUICE_DEVICE static int first_output(const C& cta) {
    return cta.warp() / row_warps * warp_outputs;
  }

  /// Starts to copy a step's inputs; zeros beyond the rows, outputs or inputs.
  template <class C>
  SLUICE_DEVICE static void fetch(const C& cta, Stage& into, const TileJob& job, int step) {
    constexpr int rows_at_once = threads / columns;
    const int column = cta.thread() % columns;
    const int first = cta.thread() / columns;
    const int at = step * columns + column; // packet of a row
    const int w_packets = job.inputs / packet;
    const int x_packets = static_cast<int>(job.x_stride / packet);
    const bool inside = at < w_packets;
    // Indices of packets, in 32 bits (`indexable`): the addresses of all rows would take the registers that the sums
    // need.
    const auto* const x = static_cast<const Packet<T>*>(job.x);
    SLUICE_UNROLL
    for (int i = 0; i < rows / rows_at_once; ++i) {
      const int row = first + i * rows_at_once;
      const bool wanted = inside && row < job.rows;
      cta.copy_async(&into.x[place(row, column)], x + (wanted ? row * x_packets + at : 0), wanted);
    }
    SLUICE_UNROLL
    for (int i = 0; i < outputs / rows_at_once; ++i) {
      const int row = first + i * rows_at_once;
      const int output = job.first_output + row;
      const bool wanted = inside && output < job.outputs;
      const bool in_head = output < job.w.split;
      const auto* const w = static_cast<const Packet<T>*>(in_head ? job.w.head : job.w.tail);
      const int row_of_w = in_head ? output : output - job.w.split;
      cta.copy_async(&into.w[place(row, column)], wanted ? w + (row_of_w * w_packets + at) : x, wanted);
    }
  }

  /// Adds a step's products to the sums.
  template <class C>
  SLUICE_DEVICE static void add(const C& cta, const Stage& stage, Sums& sums) {
    const int lane = cta.lane();
    if constexpr (element == ElementType::f32) {
      const int row = first_row(cta) + lane / 8;
      const int output = first_output(cta) + lane % 8;
      // Unrolled, the loop would load columns ahead and run out of registers.
      SLUICE_KEEP_LOOP
      for (int column = 0; column < columns; ++column) {
        Some<Packet<float>, row_parts> x;
        SLUICE_UNROLL
        for (int m = 0; m < row_parts; ++m) x[m] = stage.x[place(row + m * 4, column)];
        SLUICE_UNROLL
        for (int n = 0; n < output_parts; ++n) {
          const Packet<float> w = stage.w[place(output + n * 8, column)];
          SLUICE_UNROLL
          for (int k = 0; k < packet; ++k) {
            SLUICE_UNROLL
            for (int m = 0; m < row_parts; ++m) sums.of[m][n][0] = fused(x[m].of[k], w.of[k], sums.of[m][n][0]);
          }
        }
      }
    } else {
      const int row = first_row(cta) + lane % 16;
      constexpr int at_once = output_parts == 1 ? 2 : 1; // steps of mma's 16 inputs: a load brings four matrices of W
      SLUICE_UNROLL
      for (int column = 0; column < columns; column += 2 * at_once) {
        Some<Some<std::uint32_t[4], at_once>, row_parts> x;
        SLUICE_UNROLL
        for (int m = 0; m < row_parts; ++m) {
          SLUICE_UNROLL
          for (int k = 0; k < at_once; ++k)
            cta.load_matrices(x[m][k], &stage.x[place(row + m * 16, column + 2 * k + lane / 16)]);
        }
        std::uint32_t w[4];
        if constexpr (at_once == 2) {
          cta.load_matrices(w, &stage.w[place(first_output(cta) + lane % 8, column + lane / 8)]);
          cta.template mma<T>(sums.of[0][0], x[0][0], w[0], w[1]);
          cta.template mma<T>(sums.of[0][0], x[0][1], w[2], w[3]);
        } else {
          const int output = first_output(cta) + lane / 16 * 8 + lane % 8;
          SLUICE_UNROLL
          for (int n = 0; n < output_parts; n += 2) {
            cta.load_matrices(w, &stage.w[place(output + n * 8, column + lane / 8 % 2)]);
            SLUICE_UNROLL
            for (int m = 0; m < row_parts; ++m) {
              cta.template mma<T>(sums.of[m][n], x[m][0], w[0], w[1]);
              cta.template mma<T>(sums.of[m][n + 1], x[m][0], w[2], w[3]);
            }
          }
        }
      }
    }
  }

  SLUICE_DEVICE static void add(const Sums& of_step, Sums& sums) {
    SLUICE_UNROLL
    for (int m = 0; m < row_parts; ++m) {
      SLUICE_UNROLL
      for (int n = 0; n < output_parts; ++n) sums.of[m][n][0] += of_step.of[m][n][0];
    }
  }

  template <class Y>
  struct alignas(2 * sizeof(Y)) Pair {
    Y of[2];
  };

  /// Adds the sum, the bias and the old y, rounded once.
  template <class Y>
  SLUICE_DEVICE static Y result(const TileJob& job, int output, float sum, const Y* old) {
    if (job.bias != nullptr) sum += widen(static_cast<const T*>(job.bias)[output]);
    if (job.accumulate) sum = widen(*old) + sum;
    return narrow<Y>(sum);
  }

  template <class Y, class C>
  SLUICE_DEVICE static void finish(const C& cta, const Sums& sums, const TileJob& job) {
    const int lane = cta.lane();
    Y* const y = static_cast<Y*>(job.y);
    if constexpr (element == ElementType::f32) {
      SLUICE_UNROLL
      for (int m = 0; m < row_parts; ++m) {
        const int row = first_row(cta) + lane / 8 + m * 4;
        SLUICE_UNROLL
        for (int n = 0; n < output_parts; ++n) {
          const int output = job.first_output + first_output(cta) + lane % 8 + n * 8;
          if (row >= job.rows || output >= job.outputs) continue;
          Y* const to = y + row * job.y_stride + output;
          *to = result(job, output, sums.of[m][n][0], to);
        }
      }
    } else {
      // Two neighbours in one store if the rows are aligned for it, which an odd number of outputs need not allow.
      const bool paired = job.y_stride % 2 == 0 && reinterpret_cast<std::uintptr_t>(y) % sizeof(Pair<Y>) == 0;
      SLUICE_UNROLL
      for (int part = 0; part < row_parts * 2; ++part) {
        const int row = first_row(cta) + part * 8 + lane / 4;
        SLUICE_UNROLL
        for (int n = 0; n < output_parts; ++n) {
          const int output = job.first_output + first_output(cta) + n * 8 + lane % 4 * 2;
          if (row >= job.rows || output >= job.outputs) continue;
          Y* const to = y + row * job.y_stride + output;
          const float first = sums.of[part / 2][n][part % 2 * 2];
          const float second = sums.of[part / 2][n][part % 2 * 2 + 1];
          if (paired && output + 1 < job.outputs) {
            auto* const both = reinterpret_cast<Pair<Y>*>(to);
            Pair<Y> pair{};
            if (job.accumulate) pair = *both;
            *both = {result(job, output, first, &pair.of[0]), result(job, output + 1, second, &pair.of[1])};
          } else {
            *to = result(job, output, first, to);
            if (output + 1 < job.outputs) to[1] = result(job, output + 1, second, to + 1);
          }
        }
      }
    }
  }
};

} // namespace sluice::kernels
