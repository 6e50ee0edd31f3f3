// SPDX-License-Identifier: Apache-2.0
// RopeAndStore: turns rows of the fused QKV product into queries for attention, and stores K and V in their blocks.
#pragma once

#include "sluice/core/assert.hpp"

#include "kernels/aligned.hpp"
#include "kernels/cta.hpp"
#include "kernels/rows/head_halves.hpp"

#include <cstdint>

namespace sluice::kernels {

struct RopeAndStoreConfig {
  ElementType element = ElementType::bf16;
  int head_dim = 128;

  friend bool operator==(const RopeAndStoreConfig&, const RopeAndStoreConfig&) = default;
};

/// Numbers are of the configuration's element, matrices row-major and 16-byte aligned. A block holds K, then V, each
/// [KV head][token of the block][head_dim].
struct RopeAndStoreParams {
  const void* qkv = nullptr;        ///< [rows][(heads + 2 kv_heads) head_dim]: queries, keys, values
  const void* qkv_bias = nullptr;   ///< [(heads + 2 kv_heads) head_dim]; null: none
  const void* query_norm = nullptr; ///< [head_dim], scales of an RMSNorm of each head's query; null: none
  const void* key_norm = nullptr;   ///< [head_dim], of each head's key; null: none
  const double* turns = nullptr;    ///< [head_dim / 2], full turns per token (`rope_turns`); null: nothing is rotated
  const int* positions = nullptr;   ///< [rows]
  const int* sequences = nullptr;   ///< [rows]: the sequence of each row's K and V; below 0: they are not stored
  const int* stored_from = nullptr; ///< [sequences]: K and V before this position are already stored, and their blocks
                                    ///< are not written; null: none are
  const int* first_block = nullptr; ///< [sequences]: index in `blocks` of its first block
  void* const* blocks = nullptr;    ///< device memory, or the host's, mapped
  void* const* also = nullptr;      ///< a second copy of each of `blocks`, which is written as well; null (the table,
                                    ///< or an entry): none
  void* query = nullptr;            ///< [query_rows][query_stride], the first heads x head_dim are written
  std::int64_t query_stride = 0;    ///< numbers from one row to the next, whole packets
  int rows = 0;
  int query_rows = 0; ///< of later rows only K and V are needed
  int heads = 0;
  int kv_heads = 0;
  int block_tokens = 16;
  float epsilon = 1e-5F; ///< of the norms

  friend bool operator==(const RopeAndStoreParams&, const RopeAndStoreParams&) = default;
};

/// One block per row, one group of lanes per head (HeadHalves). It applies bias, norm, rotation and one rounding, as
/// the CPU's decoder does.
///
/// Angles come from a table of frequencies in double and are reduced on the device. Rejected: a table of angles, which
/// takes 64 MiB for 131072 positions of 64 pairs, or 20 ms of a host core per 8192 rows. Two operations in double per
/// row and pair, shared by all heads, keep an error of 1e-6 at position 10^6.
///
/// Each number is written once, in a whole packet, with adjacent packets from neighbouring lanes: the best pattern for
/// host memory behind a bus.
template <RopeAndStoreConfig config>
struct RopeAndStore {
  using T = ElementOf<config.element>;
  using Params = RopeAndStoreParams;
  using Halves = HeadHalves<T, config.head_dim>;
  static constexpr int threads = 128, ctas_per_sm = 8;
  static constexpr int head_dim = config.head_dim, half = Halves::half;

  struct Shared {
    SharedArray<CosineAndSine, half> angles;
  };

  static Grid grid(const Params& params) {
    SLUICE_ASSERT(params.rows >= 0 && params.query_rows >= 0 && params.query_rows <= params.rows,
                  "rows of the product");
    SLUICE_ASSERT(params.heads > 0 && params.kv_heads > 0 && params.block_tokens > 0, "heads and blocks");
    SLUICE_ASSERT(params.query_stride % Packet<T>::size == 0, "rows of queries that begin with a packet");
    SLUICE_ASSERT(aligned(params.qkv, params.qkv_bias, params.query_norm, params.key_norm, params.query),
                  "heads begin at multiples of 16 bytes");
    return {params.rows, 1};
  }

  template <Cta C>
  SLUICE_DEVICE static void run(const C& cta, Shared& shared, const Params& params) {
    const int row = cta.block_x();
    const int position = params.positions[row];
    const int sequence = params.sequences[row];
    const bool stores = sequence >= 0 && (params.stored_from == nullptr || position >= params.stored_from[sequence]);
    const bool asks = row < params.query_rows;
    if (!asks && !stores) return;
    if (params.turns != nullptr) {
      for (int pair = cta.thread(); pair < half; pair += threads)
        shared.angles[pair] = cosine_and_sine(position, params.turns[pair]);
      cta.sync();
    }

    const int all = params.heads + 2 * params.kv_heads;
    const T* const from = static_cast<const T*>(params.qkv) + std::int64_t{row} * all * head_dim;
    const std::int64_t block_at =
        stores ? std::int64_t{params.first_block[sequence]} + position / params.block_tokens : 0;
    const int token = position % params.block_tokens;

    // Unneeded heads at either end are skipped. All lanes of a warp take each turn, because of the norm's shuffles.
    const int begin = asks ? 0 : params.heads, end = stores ? all : params.heads;
    constexpr int per_warp = warp_lanes / Halves::group, stride = threads / Halves::group;
    const bool has_packet = cta.lane() % Halves::group < Halves::packets;
    const int at = Halves::low_at(cta.lane());
    for (int base = begin + cta.warp() * per_warp; base < end; base += stride) {
      const int head = base + cta.lane() / Halves::group;
      const bool mine = head < end && has_packet;
      const bool is_query = head < params.heads, is_value = head >= params.heads + params.kv_heads;
      Halves halves;
      if (mine) {
        halves.low.load(from, head * head_dim + at, 0, true);
        halves.high.load(from, head * head_dim + half + at, 0, true);
        if (params.qkv_bias != nullptr) halves.add(static_cast<const T*>(params.qkv_bias) + head * head_dim, at);
      }
      if (params.query_norm != nullptr || params.key_norm != nullptr) {
        const void* const scale = !mine || is_value ? nullptr : is_query ? params.query_norm : params.key_norm;
        halves.normalise(cta, static_cast<const T*>(scale), at, params.epsilon);
      }
      if (!mine) continue;
      if (!is_value && params.turns != nullptr) halves.rotate(at, [&](int pair) { return shared.angles[pair]; });
      if (is_query) {
        halves.store(static_cast<T*>(params.query) + row * params.query_stride + std::int64_t{head} * head_dim, at);
      } else {
        const int kv_head = head - params.heads; // values follow keys in the row and in the block
        const std::int64_t head_at = (std::int64_t{kv_head} * params.block_tokens + token) * head_dim;
        halves.store(static_cast<T*>(params.blocks[block_at]) + head_at, at);
        if (params.also != nullptr && params.also[block_at] != nullptr)
          halves.store(static_cast<T*>(params.also[block_at]) + head_at, at);
      }
    }
  }
};

} // namespace sluice::kernels
