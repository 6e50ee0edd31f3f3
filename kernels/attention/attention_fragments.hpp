// SPDX-License-Identifier: Apache-2.0
// AttentionFragments: the two products of attention for the sixteen rows of a warp, by tensor cores or, in f32, by FMA.
#pragma once

#include "kernels/cta.hpp"

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace sluice::kernels {

/// A lane's part of the f32 sums of 16 rows and 8 n columns: see AttentionFragments.
template <int n>
using Sums = float[static_cast<std::size_t>(n)][4];

struct alignas(8) FloatPair {
  float of[2];
};

/// Two neighbouring numbers in one load of 8 bytes.
SLUICE_DEVICE void load_pair(float (&into)[2], const float* from) {
  const FloatPair pair = *reinterpret_cast<const FloatPair*>(from);
  into[0] = pair.of[0];
  into[1] = pair.of[1];
}

/// Two neighbouring numbers of a row in one store; the first lies at an even place of an aligned row.
template <Element T>
SLUICE_DEVICE void store_pair(T* to, T first, T second) {
  struct alignas(2 * sizeof(T)) Pair {
    T of[2];
  };
  *reinterpret_cast<Pair*>(to) = Pair{{first, second}};
}

/// A page of K or V of one head in shared memory: rows of packets, one row a token. Rows are padded to an odd number of
/// packets, so that eight rows lie in eight different groups of banks: `ldmatrix` and loads of 16 bytes then have no
/// conflict, for every head size. (Exchanging packets by XOR needs no padding but rows of 8 or 16 packets; heads of 80
/// have 10, and of 96 have 12.)
template <Element T, int head_dim, int tokens>
struct AttentionPage {
  static constexpr int packets = head_dim / Packet<T>::size;
  static constexpr int row_packets = packets | 1;

  SharedArray<Packet<T>, tokens * row_packets> of;

  SLUICE_DEVICE Packet<T>* at(int token, int packet) { return &of[token * row_packets + packet]; }
  SLUICE_DEVICE const Packet<T>* at(int token, int packet) const { return &of[token * row_packets + packet]; }
};

/// Products of 16-bit elements, by `mma.m16n8k16` with f32 sums. In both kinds of fragments, a lane's part of a 16-row
/// matrix has the layout of PTX's accumulators: x[n][2 half] and x[n][2 half + 1] are two of the matrix's columns 8 n
/// .. 8 n + 7 in row lane / 4 + 8 half. Every sum runs in ascending order (of the head's numbers in steps of 16, of
/// tokens in steps of 16).
///
/// The caller needs a barrier between `take` and `score`, and between two calls of `add`; the loop over pages has one
/// anyway while it waits for the page.
///
/// Heads beyond 128 have 96 or 128 sums of values a lane. Their queries are read from shared memory in each page, and
/// pages are half as long, so that registers and shared memory suffice for two blocks of prompts on an SM.
template <Element T, int head_dim_>
struct AttentionFragments {
  static constexpr int head_dim = head_dim_;
  static constexpr bool wide = head_dim > 128;
  static constexpr int page_tokens = wide ? 32 : 64;
  using Page = AttentionPage<T, head_dim, page_tokens>;
  struct InRegisters {};
  /// Shared memory of one warp: the queries of wide heads.
  using Room = std::conditional_t<wide, AttentionPage<T, head_dim, 16>, InRegisters>;

  std::uint32_t query[wide ? 1 : static_cast<std::size_t>(head_dim / 16)][4];

  /// The column of x[n][2 half] in the values; x[n][2 half + 1] is in the next.
  SLUICE_DEVICE static int column(int lane, int n) { return n * 8 + lane % 4 * 2; }

  /// Takes the query of row lane / 4 + 8 `half`; zeros if there is none (`row` is null).
  SLUICE_DEVICE void take(int lane, [[maybe_unused]] Room& room, int half, const T* row) {
    if constexpr (wide) {
      SLUICE_UNROLL
      for (int p = 0; p < Page::packets / 4; ++p) {
        const int packet = p * 4 + lane % 4;
        *room.at(half * 8 + lane / 4, packet) =
            row != nullptr ? load_packet(row + packet * Packet<T>::size) : Packet<T>{};
      }
    } else {
      SLUICE_UNROLL
      for (int k = 0; k < head_dim / 16; ++k) {
        query[k][half] = row != nullptr ? two(row + k * 16 + lane % 4 * 2) : 0;
        query[k][half + 2] = row != nullptr ? two(row + k * 16 + 8 + lane % 4 * 2) : 0;
      }
    }
  }

  /// The page's unscaled `scores`.
  template <TensorCta C>
  SLUICE_DEVICE void score(const C& cta, [[maybe_unused]] const Room& room, const Page& keys,
                           Sums<page_tokens / 8>& scores) const {
    const int lane = cta.lane();
    SLUICE_UNROLL
    for (int n = 0; n < page_tokens / 8; ++n) {
      SLUICE_UNROLL
      for (int i = 0; i < 4; ++i) scores[n][i] = 0.0F;
    }
    const auto step = [&](int k, const std::uint32_t(&a)[4]) {
      SLUICE_UNROLL
      for (int n = 0; n < page_tokens / 8; n += 2) {
        std::uint32_t b[4];
        cta.load_matrices(b, keys.at(n * 8 + lane / 16 * 8 + lane % 8, k * 2 + lane / 8 % 2));
        cta.template mma<T>(scores[n], a, b[0], b[1]);
        cta.template mma<T>(scores[n + 1], a, b[2], b[3]);
      }
    };
    if constexpr (wide) { // unrolled, the loop would load queries ahead and run out of registers
      SLUICE_KEEP_LOOP
      for (int k = 0; k < head_dim / 16; ++k) {
        std::uint32_t a[4];
        cta.load_matrices(a, room.at(lane % 16, k * 2 + lane / 16));
        step(k, a);
      }
    } else {
      SLUICE_UNROLL
      for (int k = 0; k < head_dim / 16; ++k) step(k, query[k]);
    }
  }

  /// values += weights V.
  template <TensorCta C>
  SLUICE_DEVICE static void add(const C& cta, Room& /*room*/, const Page& page, const Sums<page_tokens / 8>& weights,
                                Sums<head_dim / 8>& values) {
    const int lane = cta.lane();
    SLUICE_UNROLL
    for (int t = 0; t < page_tokens / 16; ++t) {
      std::uint32_t a[4];
      SLUICE_UNROLL
      for (int i = 0; i < 4; ++i)
        a[i] = pair_of<T>(weights[t * 2 + i / 2][i % 2 * 2], weights[t * 2 + i / 2][i % 2 * 2 + 1]);
      SLUICE_UNROLL
      for (int n = 0; n < head_dim / 8; n += 2) {
        std::uint32_t b[4];
        cta.load_matrices_transposed(b, page.at(t * 16 + lane % 16, n + lane / 16));
        cta.template mma<T>(values[n], a, b[0], b[1]);
        cta.template mma<T>(values[n + 1], a, b[2], b[3]);
      }
    }
  }

 private:
  SLUICE_DEVICE static std::uint32_t two(const T* at) {
#if defined(__CUDA_ARCH__)
    return __ldg(reinterpret_cast<const std::uint32_t*>(at));
#else
    return at[0].bits | (static_cast<std::uint32_t>(at[1].bits) << 16U);
#endif
  }
};

/// Products of f32 by FMA: tensor cores would round to TF32, an error of 1e-3. A lane has the same rows and columns of
/// the scores as above; of the values it has a packet's four columns, in pairs of n. Queries and weights go through
/// shared memory, so that a lane can read a whole row; pages are half as long as those of 16-bit elements, so that two
/// still fit beside another CTA's.
template <int head_dim_>
struct AttentionFragments<float, head_dim_> {
  static constexpr int head_dim = head_dim_;
  static constexpr int page_tokens = head_dim > 128 ? 16 : 32;
  static constexpr int packets = head_dim / 4;
  using Page = AttentionPage<float, head_dim, page_tokens>;
  /// Packets of a row of weights, at least a page's: 40 numbers, so that eight rows' stores of 8 bytes, and loads of
  /// 16, fall into different banks.
  static constexpr int weight_packets = 10;
  struct Room {
    AttentionPage<float, head_dim, 16> queries;
    SharedArray<Packet<float>, 16 * weight_packets> weights;
  };

  SLUICE_DEVICE static int column(int lane, int n) { return n / 2 * 16 + lane % 4 * 4 + n % 2 * 2; }

  SLUICE_DEVICE static void take(int lane, Room& room, int half, const float* row) {
    SLUICE_UNROLL
    for (int p = 0; p < packets / 4; ++p) {
      const int packet = p * 4 + lane % 4;
      *room.queries.at(half * 8 + lane / 4, packet) =
          row != nullptr ? load_packet(row + packet * 4) : Packet<float>{{0, 0, 0, 0}};
    }
  }

  template <TensorCta C>
  SLUICE_DEVICE static void score(const C& cta, const Room& room, const Page& keys, Sums<page_tokens / 8>& scores) {
    const int lane = cta.lane();
    SLUICE_UNROLL
    for (int n = 0; n < page_tokens / 8; ++n) {
      SLUICE_UNROLL
      for (int i = 0; i < 4; ++i) scores[n][i] = 0.0F;
    }
    for (int p = 0; p < packets; ++p) {
      const Packet<float> query[2] = {*room.queries.at(lane / 4, p), *room.queries.at(lane / 4 + 8, p)};
      SLUICE_UNROLL
      for (int n = 0; n < page_tokens / 8; ++n) {
        SLUICE_UNROLL
        for (int i = 0; i < 2; ++i) {
          const Packet<float> key = *keys.at(n * 8 + lane % 4 * 2 + i, p);
          SLUICE_UNROLL
          for (int half = 0; half < 2; ++half) {
            SLUICE_UNROLL
            for (int k = 0; k < 4; ++k)
              scores[n][half * 2 + i] = fused(query[half].of[k], key.of[k], scores[n][half * 2 + i]);
          }
        }
      }
    }
  }

  template <TensorCta C>
  SLUICE_DEVICE static void add(const C& cta, Room& room, const Page& page, const Sums<page_tokens / 8>& weights,
                                Sums<head_dim / 8>& values) {
    const int lane = cta.lane();
    SLUICE_UNROLL
    for (int half = 0; half < 2; ++half) {
      SLUICE_UNROLL
      for (int n = 0; n < page_tokens / 8; ++n) {
        Packet<float>& packet = room.weights[place(half * 8 + lane / 4, n * 2 + lane % 4 / 2)];
        packet.of[lane % 2 * 2] = weights[n][half * 2];
        packet.of[lane % 2 * 2 + 1] = weights[n][half * 2 + 1];
      }
    }
    cta.sync_warp();
    for (int t = 0; t < page_tokens; t += 4) {
      const Packet<float> weight[2] = {room.weights[place(lane / 4, t / 4)], room.weights[place(lane / 4 + 8, t / 4)]};
      SLUICE_UNROLL
      for (int i = 0; i < 4; ++i) {
        SLUICE_UNROLL
        for (int n = 0; n < head_dim / 8; n += 2) {
          const Packet<float> value = *page.at(t + i, n * 2 + lane % 4);
          SLUICE_UNROLL
          for (int half = 0; half < 2; ++half) {
            SLUICE_UNROLL
            for (int k = 0; k < 4; ++k) {
              float& sum = values[n + k / 2][half * 2 + k % 2];
              sum = fused(weight[half].of[i], value.of[k], sum);
            }
          }
        }
      }
    }
  }

 private:
  SLUICE_DEVICE static int place(int row, int packet) { return row * weight_packets + packet; }
};

} // namespace sluice::kernels
