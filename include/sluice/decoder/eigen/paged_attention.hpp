// SPDX-License-Identifier: Apache-2.0
// PagedAttention: causal attention of grouped heads over K and V that lie in blocks.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/decoder/decoder.hpp"
#include "sluice/decoder/eigen/exponential.hpp"
#include "sluice/decoder/eigen/projection.hpp"
#include "sluice/decoder/thread_pool.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace sluice {

/// Softmax(q K^T / sqrt(head size)) V of each row's heads, over the tokens up to its own. Heads in groups that share a
/// head of K and V (Ainslie et al., "GQA", 2023); as many K and V heads as query heads is the ordinary kind.
///
/// One pass (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018), in an order that depends on a
/// token's position alone: pages of 16 tokens in ascending order make a segment of 2048, from nothing; segments are
/// merged in ascending order. Within a page: a score is summed as a projection's chunk is, the page's exponentials by
/// the tree of `sum`, values in ascending order of tokens. Rows and heads are computed side by side so that K and V are
/// read once for all of a tile, which changes no order.
class PagedAttention {
 public:
  PagedAttention(const ModelShape& shape, Tokens block_tokens, int threads)
      : head_dim_(shape.head_dim),
        kv_heads_(shape.kv_heads),
        group_(shape.heads / shape.kv_heads),
        block_tokens_(static_cast<int>(block_tokens.count())),
        unit_heads_(std::min(group_, most_queries)),
        units_per_head_((group_ + unit_heads_ - 1) / unit_heads_),
        tile_rows_(std::max(1, most_queries / unit_heads_)),
        scale_(1.0F / std::sqrt(static_cast<float>(shape.head_dim))),
        scratch_(static_cast<std::size_t>(floats(shape, threads))) {
    SLUICE_ASSERT(block_tokens_ > 0, "blocks of at least one token");
  }

  /// Floats that it holds.
  [[nodiscard]] static std::int64_t floats(const ModelShape& shape, int threads) {
    return threads * (std::int64_t{most_queries} * shape.head_dim + std::int64_t{most_queries} * page_tokens);
  }

  /// Attends for the sequences' rows below `rows`: queries and results are rows of [query head][head size].
  void run(ThreadPool& pool, std::span<const SequenceRows> sequences, int rows, const float* query, float* attended,
           std::int64_t stride) {
    tiles_.clear();
    for (const SequenceRows& sequence : sequences) {
      const int last = std::min(rows, sequence.first_row + sequence.rows);
      for (int row = sequence.first_row; row < last; row += tile_rows_)
        tiles_.push_back({&sequence, row, std::min(tile_rows_, last - row)});
    }
    const int units = kv_heads_ * units_per_head_;
    pool.run(static_cast<int>(tiles_.size()) * units, [&](int part, int thread) {
      const Tile& tile = tiles_[static_cast<std::size_t>(part / units)];
      const int kv_head = part % units / units_per_head_;
      const int first_head = part % units % units_per_head_ * unit_heads_;
      const int heads = std::min(unit_heads_, group_ - first_head);
      Queries queries;
      for (int r = 0; r < tile.rows; ++r) {
        for (int h = 0; h < heads; ++h) {
          const std::int64_t at =
              (tile.first_row + r) * stride + (std::int64_t{kv_head} * group_ + first_head + h) * head_dim_;
          const int i = queries.count++;
          queries.query[i] = query + at;
          queries.result[i] = attended + at;
          queries.tokens[i] = tile.sequence->position + (tile.first_row + r - tile.sequence->first_row) + 1;
        }
      }
      attend(*tile.sequence, kv_head, queries,
             scratch_.data() + thread * (std::int64_t{most_queries} * (head_dim_ + page_tokens)));
    });
  }

 private:
  static constexpr int page_tokens = Lanes16::count;
  static constexpr int segment_tokens = 2048;
  static constexpr int most_queries = 16; // of one unit of work

  struct Tile {
    const SequenceRows* sequence = nullptr;
    int first_row = 0;
    int rows = 0;
  };
  struct Queries {
    int count = 0;
    const float* query[most_queries];
    float* result[most_queries];
    int tokens[most_queries]; // that it attends to; ascending
  };
  /// A softmax so far: the largest score, the sum of exponentials less it, and the values weighted by them.
  struct Partial {
    float* values[most_queries];
    float largest[most_queries];
    float total[most_queries];
  };

  void attend(const SequenceRows& sequence, int kv_head, const Queries& queries, float* scratch) const {
    Partial segment;
    Partial whole;
    for (int i = 0; i < queries.count; ++i) {
      segment.values[i] = scratch + std::int64_t{i} * head_dim_;
      whole.values[i] = queries.result[i];
    }
    float* scores = scratch + std::int64_t{most_queries} * head_dim_;
    const int end = queries.tokens[queries.count - 1];
    for (int first = 0; first < end; first += segment_tokens) {
      Partial& into = first == 0 ? whole : segment;
      for (int i = 0; i < queries.count; ++i) {
        into.largest[i] = -std::numeric_limits<float>::infinity();
        into.total[i] = 0;
        std::fill_n(into.values[i], head_dim_, 0.0F);
      }
      const int last = std::min(end, first + segment_tokens);
      for (int page = first; page < last; page += page_tokens)
        attend_page(sequence, kv_head, page, std::min(page_tokens, last - page), queries, scores, into);
      if (first > 0) {
        for (int i = 0; i < queries.count; ++i) {
          if (queries.tokens[i] > first) merge(segment, i, whole);
        }
      }
    }
    for (int i = 0; i < queries.count; ++i) {
      const float factor = 1.0F / whole.total[i];
      for (int d = 0; d < head_dim_; ++d) whole.values[i][d] *= factor;
    }
  }

  void merge(const Partial& later, int query, Partial& whole) const {
    const float largest = std::max(whole.largest[query], later.largest[query]);
    const float keep = exponential(whole.largest[query] - largest);
    const float take = exponential(later.largest[query] - largest);
    whole.largest[query] = largest;
    whole.total[query] = whole.total[query] * keep + later.total[query] * take;
    float* values = whole.values[query];
    for (int d = 0; d < head_dim_; ++d) values[d] = values[d] * keep + later.values[query][d] * take;
  }

  /// Adds the `tokens` tokens from `page` on.
  void attend_page(const SequenceRows& sequence, int kv_head, int page, int tokens, const Queries& queries,
                   float* scores, Partial& into) const {
    const std::byte* keys[page_tokens];
    const float* values[page_tokens];
    for (int t = 0; t < page_tokens; ++t) {
      const int token = page + std::min(t, tokens - 1);
      const float* block = sequence.blocks[token / block_tokens_];
      const std::int64_t at = (std::int64_t{kv_head} * block_tokens_ + token % block_tokens_) * head_dim_;
      keys[t] = reinterpret_cast<const std::byte*>(block + at);
      values[t] = block + std::int64_t{kv_heads_} * block_tokens_ * head_dim_ + at;
    }
    for (int q = 0; q < queries.count; q += detail::few.rows) score(queries, q, keys, tokens, scores);
    float factors[most_queries];
    int seen[most_queries];
    for (int q = 0; q < queries.count; ++q) {
      seen[q] = std::clamp(queries.tokens[q] - page, 0, tokens);
      if (seen[q] > 0) factors[q] = weigh(scores + q * page_tokens, seen[q], into.largest[q], into.total[q]);
    }
    for (int q = 0; q < queries.count;) {
      const bool four = q + 4 <= queries.count && seen[q] == seen[q + 3];
      if (four)
        add_values<4>(values, seen[q], scores + q * page_tokens, factors + q, into.values + q);
      else
        add_values<1>(values, seen[q], scores + q * page_tokens, factors + q, into.values + q);
      q += four ? 4 : 1;
    }
  }

  void score(const Queries& queries, int first, const std::byte* const* keys, int tokens, float* scores) const {
    using namespace detail;
    const int count = std::min(few.rows, queries.count - first);
    const float* left[std::size_t{few.rows}];
    for (int i = 0; i < few.rows; ++i) left[i] = queries.query[first + std::min(i, count - 1)];
    for (int t = 0; t < tokens; t += few.outputs) {
      float sums[std::size_t{few.rows * few.outputs}];
      chunk_sums_of_few<ElementType::f32, false>(left, count, keys + t, head_dim_, sums, 0);
      for (int i = 0; i < count; ++i)
        std::copy_n(sums + i * few.outputs, few.outputs, scores + (first + i) * page_tokens + t);
    }
  }

  /// Turns a page's scores into weights relative to the largest score so far; returns by what earlier values shrink.
  [[nodiscard]] float weigh(float* scores, int seen, float& largest, float& total) const {
    for (int t = seen; t < page_tokens; ++t) scores[t] = -std::numeric_limits<float>::infinity();
    const Lanes16 scaled = Lanes16::load(scores) * Lanes16::all(scale_);
    const float now = std::max(largest, sluice::largest(scaled));
    const float factor = now == largest ? 1.0F : exponential(largest - now);
    exponential(scaled - Lanes16::all(now)).store(scores);
    for (int t = seen; t < page_tokens; ++t) scores[t] = 0;
    total = total * factor + sum(Lanes16::load(scores));
    largest = now;
    return factor;
  }

  /// into = into * factor + weights of the page's tokens times their values, for some queries side by side.
  template <int Queries>
  void add_values(const float* const* values, int tokens, const float* weights, const float* factors,
                  float* const* into) const {
    if (tokens == 0) return;
    int d = 0;
    for (; d + 4 * Lanes16::count <= head_dim_; d += 4 * Lanes16::count) {
      Lanes16 sums[std::size_t{Queries * 4}];
      for (int q = 0; q < Queries; ++q) {
        for (int i = 0; i < 4; ++i)
          sums[q * 4 + i] = Lanes16::load(into[q] + d + i * Lanes16::count) * Lanes16::all(factors[q]);
      }
      for (int t = 0; t < tokens; ++t) {
        Lanes16 value[4];
        for (int i = 0; i < 4; ++i) value[i] = Lanes16::load(values[t] + d + i * Lanes16::count);
        for (int q = 0; q < Queries; ++q) {
          const Lanes16 weight = Lanes16::all(weights[q * page_tokens + t]);
          for (int i = 0; i < 4; ++i) sums[q * 4 + i] = fused(weight, value[i], sums[q * 4 + i]);
        }
      }
      for (int q = 0; q < Queries; ++q) {
        for (int i = 0; i < 4; ++i) sums[q * 4 + i].store(into[q] + d + i * Lanes16::count);
      }
    }
    for (; d < head_dim_; d += Lanes16::count) {
      const int left = std::min(Lanes16::count, head_dim_ - d);
      for (int q = 0; q < Queries; ++q) {
        Lanes16 sums = load_floats(into[q] + d, left) * Lanes16::all(factors[q]);
        for (int t = 0; t < tokens; ++t)
          sums = fused(Lanes16::all(weights[q * page_tokens + t]), load_floats(values[t] + d, left), sums);
        store_floats(sums, into[q] + d, left);
      }
    }
  }

  int head_dim_;
  int kv_heads_;
  int group_; // query heads of one head of K and V
  int block_tokens_;
  int unit_heads_;     // query heads of one unit of work
  int units_per_head_; // of K and V
  int tile_rows_;
  float scale_;
  std::vector<float> scratch_;
  std::vector<Tile> tiles_;
};

} // namespace sluice
