// SPDX-License-Identifier: Apache-2.0
// RopeAndStore: turns rows of the fused QKV product into queries for attention, and stores K and V in their blocks.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/model/decoder/config.hpp"

#include "kernels/cta.hpp"
#include "kernels/rows/row_floats.hpp"
#include "kernels/shared_array.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <vector>

namespace sluice::kernels {

// HeadHalves: applies bias, norm and rotation to a head of queries, keys or values between the product and its storage.

/// One lane's part of a head that a group of lanes shares: a packet of the first half, and the packet of the second
/// half that rotation pairs with it (RoFormer, Su et al., 2021, in Hugging Face's order). RopeAndStore
/// stores a projected row with these functions, whether it is new or rebuilt, and so gets the same bits.
template <Element T, int head_dim>
struct HeadHalves {
  using Floats = RowFloats<T>;
  static constexpr int half = head_dim / 2;
  static constexpr int packets = half / Floats::size;                                           ///< of half a head
  static constexpr int group = static_cast<int>(std::bit_ceil(static_cast<unsigned>(packets))); ///< lanes of a head
  static_assert(head_dim % (2 * Floats::size) == 0, "sluice: halves of a head are whole packets of 16 bytes");
  static_assert(group <= warp_lanes, "sluice: a warp holds a head");

  Floats low{}, high{}; ///< zeros in lanes without a packet

  /// The start of a lane's packet in the first half.
  SLUICE_DEVICE static int low_at(int lane) { return lane % group * Floats::size; }

  /// `bias` and, below, `scale` and `head` are the head's, not the packet's.
  SLUICE_DEVICE void add(const T* bias, int at) {
    Floats added;
    added.load(bias, at, 0, true);
    SLUICE_UNROLL
    for (int j = 0; j < Floats::size; ++j) low.of[j] += added.of[j];
    added.load(bias, half + at, 0, true);
    SLUICE_UNROLL
    for (int j = 0; j < Floats::size; ++j) high.of[j] += added.of[j];
  }

  /// The RMSNorm of a head (QK norm), which all lanes of a warp must call because of its shuffles; a lane whose `scale`
  /// is null leaves its head unchanged.
  template <Cta C>
  SLUICE_DEVICE void normalise(const C& cta, const T* scale, int at, float epsilon) {
    float squares = 0;
    SLUICE_UNROLL
    for (int j = 0; j < Floats::size; ++j)
      squares = fused(high.of[j], high.of[j], fused(low.of[j], low.of[j], squares));
    SLUICE_UNROLL
    for (int with = group / 2; with > 0; with /= 2) squares += cta.shuffle_xor(squares, with);
    if (scale == nullptr) return;
    const float factor = inverse_root(squares / static_cast<float>(head_dim) + epsilon);
    multiply(low, factor, scale + at);
    multiply(high, factor, scale + half + at);
  }

  /// `angle(pair)` is the CosineAndSine of one of the head's pairs.
  template <class Angle>
  SLUICE_DEVICE void rotate(int at, const Angle& angle) {
    SLUICE_UNROLL
    for (int j = 0; j < Floats::size; ++j) {
      const CosineAndSine by = angle(at + j);
      const float left = low.of[j], right = high.of[j];
      low.of[j] = times(left, by.cosine) - times(right, by.sine);
      high.of[j] = times(right, by.cosine) + times(left, by.sine);
    }
  }

  SLUICE_DEVICE void store(T* head, int at) const {
    low.store(head, at, 0, true);
    high.store(head, half + at, 0, true);
  }

 private:
  SLUICE_DEVICE static void multiply(Floats& value, float factor, const T* scale) {
    Floats scales;
    scales.load(scale, 0, 0, true);
    SLUICE_UNROLL
    for (int j = 0; j < Floats::size; ++j) value.of[j] = value.of[j] * factor * scales.of[j];
  }
};

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

// rope_turns: the table of RopeAndStore, made on the host once per model.

/// Full turns per token of each pair of a head's numbers; empty where positions are learned.
[[nodiscard]] inline std::vector<double> rope_turns(const DecoderConfig& config) {
  std::vector<double> turns;
  if (config.position != PositionKind::rotary) return turns;
  SLUICE_ASSERT(config.shape.head_dim % 2 == 0, "a head of pairs");
  for (int pair = 0; pair < config.shape.head_dim / 2; ++pair)
    turns.push_back(rotary_frequency(config, pair) / (2 * std::numbers::pi));
  return turns;
}

} // namespace sluice::kernels
