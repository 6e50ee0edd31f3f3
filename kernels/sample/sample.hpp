// SPDX-License-Identifier: Apache-2.0
// Sample: chooses the next token of each row of logits, the same as `sluice::sample`: greedy, temperature, top-k,
// top-p.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/model/decoder/sampling_weight.hpp"

#include "kernels/cta.hpp"
#include "kernels/rows/row_floats.hpp"
#include "kernels/shared_array.hpp"

#include <bit>
#include <cstdint>

namespace sluice::kernels {

struct SampleConfig {
  ElementType element = ElementType::f32; ///< of the logits

  friend bool operator==(const SampleConfig&, const SampleConfig&) = default;
};

/// How a row's token is chosen: `Sampling` and the row's random number, in the kernel's form
/// (kernels/decoder/kernel_runner.hpp makes one).
struct SampleWay {
  double scale = 0;        ///< `sampling_scale` of the temperature; 0: the largest logit wins
  std::uint64_t share = 0; ///< `sampling_share` of top_p
  std::uint64_t draw = 0;  ///< `detail::sampling_draw` of the sequence's position
  int top_k = 0;           ///< 0: all

  friend bool operator==(const SampleWay&, const SampleWay&) = default;
};

/// Parts of a row, and of all rows that have several, at most.
inline constexpr int sampling_most_parts = 32, sampling_all_parts = 256;
/// Tokens that a part lists for top-k, at most: with a larger top_k, one block searches the row for them.
inline constexpr int sampling_most_listed = 256;

struct SampleParams {
  const void* logits = nullptr;    ///< [rows][vocabulary], of the configuration's element, 16-byte aligned
  const SampleWay* ways = nullptr; ///< [rows]
  int* tokens = nullptr;           ///< [rows]; may be pinned host memory
  int rows = 0;
  int vocabulary = 0;            ///< below 2^20
  bool refuses = false;          ///< a row whose logits are not all finite gets -1 instead of a token
  int parts = 1;                 ///< of a row, each searched by a block (`sample_parts`); if 1, nothing below is used
  std::uint64_t* best = nullptr; ///< [rows][parts][1 + sampling_most_listed]
  int* arrivals = nullptr;       ///< [rows]: zeros, and zeros again after the launch

  friend bool operator==(const SampleParams&, const SampleParams&) = default;
};

/// How many blocks search a row: as many as leave no SM idle, of 4096 tokens or more.
[[nodiscard]] constexpr int sample_parts(int rows, int vocabulary, int sms) {
  const int idle = rows > 0 ? (sms < sampling_all_parts ? sms : sampling_all_parts) / rows : 1;
  const int most = idle < sampling_most_parts ? idle : sampling_most_parts;
  const int worth = pieces(vocabulary, 4096);
  const int parts = worth < most ? worth : most;
  return parts > 1 ? parts : 1;
}

/// A row's largest logit is the best of its parts', in 64-bit numbers of which no two are equal, so any number of parts
/// finds the same. A greedy row is then done. For top-k each part also lists its k likeliest tokens, which include
/// those of the row's that it has. The last block to arrive chooses the token of a row with a temperature, among the
/// listed tokens or all of the row, without sorting. The k-th likeliest token, the last token of the nucleus and the
/// drawn token are each the last of the shortest prefix of ordered tokens whose weights reach a given sum. A radix
/// descent over the order's bits, 8 at a time, finds it: a histogram of weights, a scan over its 256 buckets, then the
/// bucket in which the sum is reached. For the k-th likeliest token every weight is 1.
///
/// Sums are of integers, so the order of atomics does not matter, and the weights are computed in steps that are exact,
/// or rounded in the same way on all machines (sampling_weight.hpp): by construction the token equals the CPU's, not
/// only within a tolerance. Each pass recomputes the weights of the remaining tokens: writing and reading 8 bytes per
/// token would cost as much.
///
/// Rejected: CUB's device-wide primitives. `DeviceReduce::ArgMax`, `DeviceTopK` and `DeviceRadixSort` take one row a
/// call, two launches and more for each row of a batch; `DeviceSegmentedReduce` and `DeviceSegmentedSort` give a row to
/// one block, which is what leaves SMs idle; and none selects by sums of weights without sorting every row.
///
/// If no logit is finite, the kernel takes the greedy token, unless it refuses; `sluice::sample` asserts.
template <SampleConfig config>
struct Sample {
  using T = ElementOf<config.element>;
  using Params = SampleParams;
  using Floats = RowFloats<T>;
  static constexpr int threads = 512, ctas_per_sm = 1; // there are fewer rows than SMs, or not many more
  static constexpr int buckets = 256;
  /// Copies of the histogram: a model's logits have few exponents, and lanes that add to one address wait for each
  /// other.
  static constexpr int copies = 16;

  struct Shared {
    SharedArray<std::uint32_t, buckets * copies> low, high; // halves of the histogram's sums, [bucket][copy]
    SharedArray<std::uint64_t, 256> powers;                 // `sampling_power`
    ScanRoom<std::uint64_t, threads> room;
    SharedArray<std::uint64_t, threads / warp_lanes> best; // of each warp
    std::uint64_t of_row;                                  // the best of all parts
    std::uint64_t total, passed, own;
    int bucket, last;
  };

  static Grid grid(const Params& params) {
    SLUICE_ASSERT(params.rows >= 0 && params.vocabulary > 0, "rows of at least one token");
    SLUICE_ASSERT(params.vocabulary < sampling_most_tokens, "tokens whose weights fit a sum");
    SLUICE_ASSERT(params.vocabulary % Floats::size != 0 || aligned(params.logits),
                  "rows of whole packets begin at multiples of 16 bytes");
    SLUICE_ASSERT(params.parts >= 1 && params.parts <= sampling_most_parts, "at most 32 parts");
    return {params.rows, params.parts};
  }

  template <Cta C>
  SLUICE_DEVICE static void run(const C& cta, Shared& shared, const Params& params) {
    const SampleWay way = params.ways[cta.block_x()];
    const bool fewest = way.scale > 0 && way.top_k > 1 && way.top_k < params.vocabulary;
    const bool lists = fewest && params.parts > 1 && way.top_k <= sampling_most_listed;
    // The parts' best tokens, then their lists.
    std::uint64_t* const found =
        params.parts == 1 ? nullptr
                          : params.best + std::int64_t{cta.block_x()} * params.parts * (1 + sampling_most_listed);
    Row row{static_cast<const T*>(params.logits) + std::int64_t{cta.block_x()} * params.vocabulary, params.vocabulary};
    const Row part = part_of(row, cta.block_y(), params.parts);
    if (lists) list(cta, shared, part, way.top_k, found + params.parts + cta.block_y() * way.top_k);
    const std::uint64_t best = greedy(cta, shared, part, found, params);
    if (best == of_another_block) return; // the same in all threads
    int token = best == refused_place ? -1 : static_cast<int>(best & 0xffffffffU);
    if (token < 0) { // the same in all threads
      if (cta.thread() == 0) params.tokens[cta.block_x()] = token;
      return;
    }
    row.largest = static_cast<double>(widen(row.logits[token]));
    row.scale = way.scale;
    if (lists) {
      cta.fence(); // the other blocks' lists
      row.listed = found + params.parts;
      row.end = params.parts * way.top_k;
    }
    const bool finite = row.largest - row.largest == 0;
    if (way.scale > 0 && way.top_k != 1 && finite) {
      for (int i = cta.thread(); i < 256; i += threads) shared.powers[i] = sampling_power(i); // read after a sync
      const bool nucleus = way.share < std::uint64_t{1} << 53;
      if (fewest) {
        const auto reaches = [&](std::uint64_t) { return static_cast<std::uint64_t>(way.top_k); };
        row.limit = prefix<Order::likeliest, false>(cta, shared, row, reaches);
      }
      if (nucleus) {
        const auto reaches = [&](std::uint64_t total) { return sampling_nucleus(way.share, total); };
        const std::uint64_t limit = prefix<Order::likeliest, true>(cta, shared, row, reaches);
        row.limit = limit < row.limit ? limit : row.limit;
      }
      const auto reaches = [&](std::uint64_t total) { return sampling_target(way.draw, total); };
      if (fewest || nucleus) {
        const std::uint64_t place = prefix<Order::likeliest, true>(cta, shared, row, reaches);
        token = token_of(cta, shared, row, place);
      } else {
        token = static_cast<int>(prefix<Order::by_token, true>(cta, shared, row, reaches));
      }
    }
    if (cta.thread() == 0) params.tokens[cta.block_x()] = token;
  }

 private:
  struct Row {
    const T* logits;
    int tokens;
    int begin = 0, end = tokens;             ///< those that are searched; `begin` is a multiple of a packet's
    const std::uint64_t* listed = nullptr;   ///< the places of these instead, `none` among them
    std::uint64_t limit = ~std::uint64_t{0}; ///< the place of the last token that is kept
    double largest = 0;
    double scale = 0;
  };
  enum class Order : std::uint8_t { likeliest, by_token };
  /// The token part of a place that keeps all tokens of its logit, so that the last one's number is not needed.
  static constexpr std::uint64_t last_of_logit = 0xffffffffU;
  static constexpr std::uint64_t refused_place = 0;
  static constexpr std::uint64_t none = ~std::uint64_t{0}; ///< a token's number is below 2^32 - 1
  static constexpr std::uint64_t of_another_block = none;

  /// One of a row's parts: whole units of what its threads load at a time.
  SLUICE_DEVICE static Row part_of(const Row& row, int part, int parts) {
    constexpr int unit = threads * Floats::size;
    const int of_part = pieces(pieces(row.tokens, parts), unit) * unit;
    Row some = row;
    some.begin = part * of_part;
    some.end = some.begin + of_part < row.tokens ? some.begin + of_part : row.tokens;
    return some;
  }
  template <class C, class Does>
  SLUICE_DEVICE static void each_token(const C& cta, const Row& row, const Does& does) {
    if (row.listed != nullptr) {
      for (int i = cta.thread(); i < row.end; i += threads)
        if (const std::uint64_t place = row.listed[i]; place != none)
          does(logit_of(place >> 32), static_cast<int>(place & 0xffffffffU));
      return;
    }
    const bool whole = row.tokens % Floats::size == 0;
    Floats next;
    const int first = row.begin + cta.thread() * Floats::size;
    if (first < row.end) next.load(row.logits, first, row.tokens, whole);
    for (int at = first; at < row.end; at += threads * Floats::size) {
      const Floats logits = next; // the next are loaded while these are processed
      if (at + threads * Floats::size < row.end) next.load(row.logits, at + threads * Floats::size, row.tokens, whole);
      SLUICE_UNROLL
      for (int j = 0; j < Floats::size; ++j)
        if (at + j < row.end) does(logits.of[j], at + j);
    }
  }
  /// The logit of a `sampling_key`, except the sign of 0 and the bits of a NaN.
  SLUICE_DEVICE static float logit_of(std::uint64_t key) {
    return std::bit_cast<float>(static_cast<std::uint32_t>((key & 0x80000000U) != 0 ? key : ~key & 0x7fffffffU));
  }

  /// Writes the places of a part's `count` likeliest tokens, or of all if it has fewer and then `none`.
  template <class C>
  SLUICE_DEVICE static void list(const C& cta, Shared& shared, Row part, int count, std::uint64_t* places) {
    const int tokens = part.end > part.begin ? part.end - part.begin : 0;
    if (tokens > count)
      part.limit = prefix<Order::likeliest, false>(cta, shared, part,
                                                   [&](std::uint64_t) { return static_cast<std::uint64_t>(count); });
    if (cta.thread() == 0) shared.last = 0;
    cta.sync();
    each_token(cta, part, [&](float logit, int token) {
      const std::uint64_t place = sampling_place(logit, token);
      if (place <= part.limit) places[cta.atomic_add(&shared.last, 1)] = place;
    });
    for (int i = tokens + cta.thread(); i < count; i += threads) places[i] = none;
    cta.fence(); // the row's last block reads them
  }

  /// Adds to a 64-bit sum by 32-bit atomics: a GPU has these in shared memory, but does 64-bit additions by
  /// compare-and-swap loops, which are slow when many threads add to one bucket. The thread whose addition wraps the
  /// lower half carries, so the sum is exact when all have added.
  template <class C>
  SLUICE_DEVICE static void add(const C& cta, Shared& shared, int at, std::uint64_t weight) {
    const auto low = static_cast<std::uint32_t>(weight);
    const std::uint32_t before = cta.atomic_add(&shared.low[at], low);
    const std::uint32_t high = static_cast<std::uint32_t>(weight >> 32) + (before > ~low ? 1U : 0U);
    if (high != 0) cta.atomic_add(&shared.high[at], high);
  }

  /// The place of the largest logit; `refused_place` if the row is refused, since a logit that is not finite then takes
  /// the first place, which no number has. `of_another_block` in blocks that are not the row's last to arrive. `bests`:
  /// of the row's parts.
  template <class C>
  SLUICE_DEVICE static std::uint64_t greedy(const C& cta, Shared& shared, const Row& part, std::uint64_t* bests,
                                            const Params& params) {
    std::uint64_t best = none;
    each_token(cta, part, [&](float logit, int token) {
      const bool refused = params.refuses && !(logit - logit == 0);
      const std::uint64_t place = refused ? refused_place : sampling_place(logit, token);
      best = place < best ? place : best;
    });
    if (part.begin + cta.warp() * warp_lanes * Floats::size < part.end) { // some lanes have tokens
      SLUICE_UNROLL
      for (int with = warp_lanes / 2; with > 0; with /= 2) {
        const std::uint64_t other = cta.shuffle_xor(best, with);
        best = other < best ? other : best;
      }
    }
    if (cta.lane() == 0) shared.best[cta.warp()] = best;
    cta.sync();
    for (int warp = 0; warp < threads / warp_lanes; ++warp) best = shared.best[warp] < best ? shared.best[warp] : best;
    if (params.parts == 1) return best;

    if (cta.thread() == 0) {
      bests[cta.block_y()] = best;
      cta.fence();
      const bool last = cta.atomic_add(params.arrivals + cta.block_x(), 1) == params.parts - 1;
      if (last) {
        params.arrivals[cta.block_x()] = 0; // for the next launch
        cta.fence();
      }
      shared.last = last ? 1 : 0;
      for (int i = 0; last && i < params.parts; ++i) best = bests[i] < best ? bests[i] : best;
      shared.of_row = best;
    }
    cta.sync();
    return shared.last != 0 ? shared.of_row : of_another_block;
  }

  /// The place of the last token of the shortest prefix of those kept that reaches `reaches(sum of all)`. All threads
  /// call and get it. If that token is the last of its logit, its number is not searched for.
  template <Order order, bool weighed, class C, class Reaches>
  SLUICE_DEVICE static std::uint64_t prefix(const C& cta, Shared& shared, const Row& row, const Reaches& reaches) {
    // Tokens begin at bit 0, logits at bit 32; the bits between have no pass.
    const int tokens_at =
        (pieces(static_cast<int>(std::bit_width(static_cast<unsigned>(row.tokens - 1) | 1U)), 8) - 1) * 8;
    int shift = order == Order::likeliest ? 56 : tokens_at;
    std::uint64_t upper = 0; // the bits above `shift` + 8 of the wanted place
    std::uint64_t passed = 0, wanted = 0;
    for (bool first = true;; first = false) {
      for (int i = cta.thread(); i < buckets * copies; i += threads) shared.low[i] = shared.high[i] = 0;
      cta.sync();
      each_token(cta, row, [&](float logit, int token) {
        const std::uint64_t place =
            order == Order::likeliest ? sampling_place(logit, token) : static_cast<std::uint64_t>(token);
        if (order == Order::likeliest && place > row.limit) return;
        if (!first && place >> (shift + 8) != upper) return;
        const std::uint64_t weight =
            weighed ? sampling_weight(row.largest - static_cast<double>(logit), row.scale, shared.powers) : 1;
        if (weight == 0) return;
        const int bucket = static_cast<int>(place >> shift & 255U);
        add(cta, shared, bucket * copies + cta.lane() % copies, weight);
      });
      cta.sync();
      std::uint64_t own = 0;
      if (cta.thread() < buckets) {
        for (int i = 0; i < copies; ++i) {
          const int at = cta.thread() * copies + (i + cta.thread()) % copies; // neighbours read other banks
          own += static_cast<std::uint64_t>(shared.high[at]) << 32 | shared.low[at];
        }
      }
      const std::uint64_t upto = cta.inclusive_scan(own, shared.room);
      if (first) {
        if (cta.thread() == threads - 1) shared.total = upto;
        cta.sync();
        wanted = reaches(shared.total);
      }
      if (passed + upto - own < wanted && wanted <= passed + upto) { // true in one thread
        shared.bucket = cta.thread();
        shared.passed = passed + upto - own;
        shared.own = own;
      }
      cta.sync();
      upper = upper << 8 | static_cast<std::uint64_t>(shared.bucket);
      passed = shared.passed;
      if (shift == 0) return upper;
      if (shift == 32) {
        if (passed + shared.own == wanted) return upper << 32 | last_of_logit;
        if (weighed && is_last(upper, passed, shared.own, wanted, row, shared)) return upper << 32 | last_of_logit;
        shift = tokens_at;
        upper <<= 24 - tokens_at;
      } else {
        shift -= 8;
      }
    }
  }

  /// Whether `wanted` is reached by the last of the tokens with this key, which all have the same weight.
  SLUICE_DEVICE static bool is_last(std::uint64_t key, std::uint64_t passed, std::uint64_t own, std::uint64_t wanted,
                                    const Row& row, const Shared& shared) {
    return passed + own - wanted <
           sampling_weight(row.largest - static_cast<double>(logit_of(key)), row.scale, shared.powers);
  }

  /// The token at a place found by `prefix`.
  template <class C>
  SLUICE_DEVICE static int token_of(const C& cta, Shared& shared, const Row& row, std::uint64_t place) {
    if ((place & 0xffffffffU) != last_of_logit) return static_cast<int>(place & 0xffffffffU);
    if (cta.thread() == 0) shared.last = 0;
    cta.sync();
    int last = 0;
    each_token(cta, row, [&](float logit, int token) {
      const std::uint64_t here = sampling_place(logit, token);
      if (here >> 32 == place >> 32 && here <= row.limit && token > last) last = token;
    });
    if (last > 0) cta.atomic_max(&shared.last, last);
    cta.sync();
    return shared.last;
  }
};

} // namespace sluice::kernels
