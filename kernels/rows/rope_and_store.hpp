// SPDX-License-Identifier: Apache-2.0
// RopeAndStore: from the rows of the fused QKV product to queries ready for attention and K and V in their blocks.
#pragma once

#include "sluice/core/assert.hpp"

#include "kernels/cta.hpp"
#include "kernels/rows/row_floats.hpp"
#include "kernels/rows/row_math.hpp"

#include <bit>
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
  const int* sequences = nullptr;   ///< [rows]: whose K and V they are; below 0: they are stored nowhere
  const int* stored_from = nullptr; ///< [sequences]: what lies before this position is stored already, and its blocks
                                    ///< stay as they are; null: nothing is
  const int* first_block = nullptr; ///< [sequences]: where in `blocks` its blocks begin
  void* const* blocks = nullptr;    ///< device memory, or the host's, mapped
  void* const* also = nullptr;      ///< a second place of each of `blocks`, written as well; null (the table, or a
                                    ///< block): none
  void* query = nullptr;            ///< [query_rows][query_stride], the first heads x head_dim are written
  std::int64_t query_stride = 0;    ///< numbers from one row to the next, whole packets
  int rows = 0;
  int query_rows = 0; ///< of the later ones K and V alone are wanted
  int heads = 0;
  int kv_heads = 0;
  int block_tokens = 16;
  float epsilon = 1e-5F; ///< of the norms
};

/// A block for each row, a group of lanes for each head: a lane has a packet of the head's first half and the one of
/// the second half that it turns against (RoFormer, Su et al., 2021, in Hugging Face's order). Bias, norm, rotation
/// and one rounding, as the CPU's decoder has them.
///
/// Angles come from a table of frequencies in double and are reduced on the device, not from a table of angles: that
/// would be 64 MiB for 131072 positions of 64 pairs, or 20 ms of a host core per 8192 rows. Two operations in double
/// per row and pair, shared by all heads, keep 1e-6 at position 10^6.
///
/// Each number that leaves goes in one whole packet, once, neighbouring lanes side by side: what memory of the host
/// behind a bus wants.
template <RopeAndStoreConfig config>
struct RopeAndStore {
  using T = ElementOf<config.element>;
  using Params = RopeAndStoreParams;
  using Floats = RowFloats<T>;
  static constexpr int threads = 128, ctas_per_sm = 8;
  static constexpr int head_dim = config.head_dim, half = head_dim / 2;
  static constexpr int packets = half / Floats::size; ///< of half a head
  static constexpr int group = static_cast<int>(std::bit_ceil(static_cast<unsigned>(packets)));
  static_assert(head_dim % (2 * Floats::size) == 0, "sluice: halves of a head are whole packets of 16 bytes");
  static_assert(group <= warp_lanes, "sluice: a warp holds a head");

  struct Shared {
    SharedArray<CosineAndSine, half> angles;
  };

  static Grid grid(const Params& params) {
    SLUICE_ASSERT(params.rows >= 0 && params.query_rows >= 0 && params.query_rows <= params.rows,
                  "rows of the product");
    SLUICE_ASSERT(params.heads > 0 && params.kv_heads > 0 && params.block_tokens > 0, "heads and blocks");
    SLUICE_ASSERT(params.query_stride % Floats::size == 0, "rows of queries that begin with a packet");
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
        shared.angles[pair] = cosine_and_sine(position * params.turns[pair]);
      cta.sync();
    }

    const int all = params.heads + 2 * params.kv_heads;
    const T* const from = static_cast<const T*>(params.qkv) + std::int64_t{row} * all * head_dim;
    const std::int64_t block_at =
        stores ? std::int64_t{params.first_block[sequence]} + position / params.block_tokens : 0;
    const int token = position % params.block_tokens;

    // Heads that nobody wants are left out at either end. All lanes of a warp take each turn, for the norm's shuffles.
    const int begin = asks ? 0 : params.heads, end = stores ? all : params.heads;
    constexpr int per_warp = warp_lanes / group, stride = threads / group;
    const int packet = cta.lane() % group;
    for (int base = begin + cta.warp() * per_warp; base < end; base += stride) {
      const int head = base + cta.lane() / group;
      const bool mine = head < end && packet < packets;
      const bool is_query = head < params.heads, is_value = head >= params.heads + params.kv_heads;
      const int low_at = packet * Floats::size, high_at = half + low_at;
      Floats low{}, high{};
      if (mine) {
        load_with_bias(low, from, params.qkv_bias, head * head_dim + low_at);
        load_with_bias(high, from, params.qkv_bias, head * head_dim + high_at);
      }
      if (params.query_norm != nullptr || params.key_norm != nullptr) {
        const void* const scale = is_query ? params.query_norm : is_value ? nullptr : params.key_norm;
        float squares = 0;
        SLUICE_UNROLL
        for (int j = 0; j < Floats::size; ++j)
          squares = fused(high.of[j], high.of[j], fused(low.of[j], low.of[j], squares));
        SLUICE_UNROLL
        for (int with = group / 2; with > 0; with /= 2) squares += cta.shuffle_xor(squares, with);
        if (mine && scale != nullptr) {
          const float factor = inverse_root(squares / static_cast<float>(head_dim) + params.epsilon);
          multiply(low, factor, static_cast<const T*>(scale) + low_at);
          multiply(high, factor, static_cast<const T*>(scale) + high_at);
        }
      }
      if (!mine) continue;
      if (!is_value && params.turns != nullptr) {
        SLUICE_UNROLL
        for (int j = 0; j < Floats::size; ++j) {
          const CosineAndSine angle = shared.angles[low_at + j];
          const float left = low.of[j], right = high.of[j];
          low.of[j] = left * angle.cosine - right * angle.sine;
          high.of[j] = right * angle.cosine + left * angle.sine;
        }
      }
      if (is_query) {
        store(static_cast<T*>(params.query) + row * params.query_stride + std::int64_t{head} * head_dim, low_at, low,
              high);
      } else {
        const int kv_head = head - params.heads; // values follow keys in the row and in the block
        const std::int64_t at = (std::int64_t{kv_head} * params.block_tokens + token) * head_dim;
        store(static_cast<T*>(params.blocks[block_at]) + at, low_at, low, high);
        if (params.also != nullptr && params.also[block_at] != nullptr)
          store(static_cast<T*>(params.also[block_at]) + at, low_at, low, high);
      }
    }
  }

 private:
  SLUICE_DEVICE static void load_with_bias(Floats& into, const T* from, const void* bias, int at) {
    into.load(from, at, 0, true);
    if (bias == nullptr) return;
    Floats added;
    added.load(static_cast<const T*>(bias), at, 0, true);
    SLUICE_UNROLL
    for (int j = 0; j < Floats::size; ++j) into.of[j] += added.of[j];
  }
  SLUICE_DEVICE static void multiply(Floats& value, float factor, const T* scale) {
    Floats scales;
    scales.load(scale, 0, 0, true);
    SLUICE_UNROLL
    for (int j = 0; j < Floats::size; ++j) value.of[j] = value.of[j] * factor * scales.of[j];
  }
  SLUICE_DEVICE static void store(T* head, int low_at, const Floats& low, const Floats& high) {
    low.store(head, low_at, 0, true);
    high.store(head, half + low_at, 0, true);
  }
};

} // namespace sluice::kernels
