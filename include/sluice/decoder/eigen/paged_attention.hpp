// SPDX-License-Identifier: Apache-2.0
// PagedAttention: causal attention of grouped heads over K and V that lie in blocks.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/decoder/decoder.hpp"
#include "sluice/decoder/eigen/attention_pages.hpp"
#include "sluice/decoder/eigen/exponential.hpp"
#include "sluice/decoder/thread_pool.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace sluice {

/// Softmax(q K^T / sqrt(head size)) V of each row's heads, over the tokens up to its own. Heads in groups that share a
/// head of K and V (Ainslie et al., "GQA", 2023); as many K and V heads as query heads is the ordinary kind.
///
/// A softmax's order depends on a token's position alone: pages (AttentionPages) in ascending order make a segment of
/// 2048 tokens, from nothing; segments are merged in ascending order. Who computes what is free: a unit of work is some
/// rows and heads that share their reading of K and V, or, where there are fewer units than threads want, one segment
/// of such a unit.
class PagedAttention {
 public:
  PagedAttention(const ModelShape& shape, Tokens block_tokens, int threads)
      : head_dim_(shape.head_dim),
        kv_heads_(shape.kv_heads),
        group_(shape.heads / shape.kv_heads),
        unit_heads_(std::min(group_, most_queries)),
        units_per_head_((group_ + unit_heads_ - 1) / unit_heads_),
        tile_rows_(std::max(1, most_queries / unit_heads_)),
        pages_(shape, static_cast<int>(block_tokens.count())),
        scratch_(static_cast<std::size_t>(floats(shape, threads))) {}

  /// Floats that it holds.
  [[nodiscard]] static std::int64_t floats(const ModelShape& shape, int threads) {
    const std::int64_t segments = threads > 1 ? most_split_units(threads) * (segments_at_once + 1) : 0;
    return (threads + segments) * partial_floats(shape.head_dim) + threads * most_queries * page_tokens;
  }

  /// Attends for the sequences' rows below `rows`: queries and results are rows of [query head][head size].
  void run(ThreadPool& pool, std::span<const SequenceRows> sequences, int rows, const float* query, float* attended,
           std::int64_t stride) {
    units_.clear();
    int longest = 0;
    for (const SequenceRows& sequence : sequences) {
      const int last = std::min(rows, sequence.first_row + sequence.rows);
      for (int row = sequence.first_row; row < last; row += tile_rows_) {
        for (int unit = 0; unit < kv_heads_ * units_per_head_; ++unit)
          units_.push_back({&sequence, row, std::min(tile_rows_, last - row), unit});
      }
      if (last > sequence.first_row) longest = std::max(longest, sequence.position + last - sequence.first_row);
    }
    const auto count = static_cast<int>(units_.size());
    if (pool.threads() == 1 || count >= most_split_units(pool.threads()) || longest <= segment_tokens) {
      pool.run(count, [&](int part, int thread) {
        const Unit& unit = units_[static_cast<std::size_t>(part)];
        attend(unit, queries(unit, query, attended, stride), thread);
      });
      return;
    }
    for (int first = 0; first < longest; first += segments_at_once * segment_tokens) {
      const int segments = std::min(segments_at_once, (longest - first + segment_tokens - 1) / segment_tokens);
      pool.run(count * segments, [&](int part, int thread) {
        const Unit& unit = units_[static_cast<std::size_t>(part / segments)];
        attend_segment(unit, queries(unit, query, attended, stride), first + part % segments * segment_tokens,
                       split_partial(part / segments, part % segments), scores(thread));
      });
      pool.run(count, [&](int part, int /*thread*/) {
        const AttentionQueries of = queries(units_[static_cast<std::size_t>(part)], query, attended, stride);
        const SoftmaxPartial whole = split_whole(part, of);
        for (int segment = 0; segment < segments; ++segment)
          merge(of, first + segment * segment_tokens, split_partial(part, segment), whole);
        if (first + segments * segment_tokens >= longest) finish(of, whole);
      });
    }
  }

 private:
  static constexpr int page_tokens = AttentionPages::page_tokens;
  static constexpr int segment_tokens = 2048;
  static constexpr int segments_at_once = 16;                 // of one unit, where threads share a context: 32k tokens
  static constexpr int most_queries = AttentionQueries::most; // of one unit of work

  /// With more units of work than this, threads have enough to share without splitting contexts.
  [[nodiscard]] static constexpr int most_split_units(int threads) { return 4 * threads; }

  /// Some rows of a sequence and some query heads of one head of K and V.
  struct Unit {
    const SequenceRows* sequence = nullptr;
    int first_row = 0;
    int rows = 0;
    int heads = 0; ///< which of the head's shares
  };
  [[nodiscard]] static constexpr std::int64_t partial_floats(int head_dim) {
    return std::int64_t{most_queries} * (head_dim + 2);
  }
  [[nodiscard]] SoftmaxPartial partial(float* room) const {
    SoftmaxPartial partial;
    for (int i = 0; i < most_queries; ++i) partial.values[i] = room + std::int64_t{i} * head_dim_;
    partial.largest = room + std::int64_t{most_queries} * head_dim_;
    partial.total = partial.largest + most_queries;
    return partial;
  }
  // The scratch: scores and a partial for each thread, then, where contexts are split, the units' partials.
  [[nodiscard]] float* scores(int thread) {
    return scratch_.data() + thread * (partial_floats(head_dim_) + most_queries * page_tokens);
  }
  [[nodiscard]] SoftmaxPartial thread_partial(int thread) {
    return partial(scores(thread) + most_queries * page_tokens);
  }
  [[nodiscard]] SoftmaxPartial split_partial(int unit, int segment) {
    const std::int64_t at = std::int64_t{unit} * (segments_at_once + 1) + segment + 1;
    return partial(scratch_.data() + (static_cast<std::int64_t>(scratch_.size()) - at * partial_floats(head_dim_)));
  }
  [[nodiscard]] SoftmaxPartial split_whole(int unit, const AttentionQueries& queries) {
    SoftmaxPartial whole = split_partial(unit, segments_at_once);
    std::copy_n(queries.result, queries.count, whole.values);
    return whole;
  }

  [[nodiscard]] AttentionQueries queries(const Unit& unit, const float* query, float* attended,
                                         std::int64_t stride) const {
    AttentionQueries queries;
    const int kv_head = unit.heads / units_per_head_;
    const int first = unit.heads % units_per_head_ * unit_heads_;
    for (int r = 0; r < unit.rows; ++r) {
      for (int h = first; h < std::min(group_, first + unit_heads_); ++h) {
        const std::int64_t at = (unit.first_row + r) * stride + (std::int64_t{kv_head} * group_ + h) * head_dim_;
        const int i = queries.count++;
        queries.query[i] = query + at;
        queries.result[i] = attended + at;
        queries.tokens[i] = unit.sequence->position + (unit.first_row + r - unit.sequence->first_row) + 1;
      }
    }
    return queries;
  }

  /// All of a unit by one thread.
  void attend(const Unit& unit, const AttentionQueries& queries, int thread) {
    float largest[most_queries];
    float total[most_queries];
    SoftmaxPartial whole;
    whole.largest = largest;
    whole.total = total;
    std::copy_n(queries.result, queries.count, whole.values);
    const SoftmaxPartial segment = thread_partial(thread);
    for (int first = 0; first < queries.tokens[queries.count - 1]; first += segment_tokens) {
      attend_segment(unit, queries, first, first == 0 ? whole : segment, scores(thread));
      if (first > 0) merge(queries, first, segment, whole);
    }
    finish(queries, whole);
  }

  /// The segment that starts at token `first`, from nothing.
  void attend_segment(const Unit& unit, const AttentionQueries& queries, int first, const SoftmaxPartial& into,
                      float* scores) const {
    const int end = std::min(queries.tokens[queries.count - 1], first + segment_tokens);
    for (int i = 0; i < queries.count; ++i) {
      into.largest[i] = -std::numeric_limits<float>::infinity();
      into.total[i] = 0;
      std::fill_n(into.values[i], head_dim_, 0.0F);
    }
    pages_.attend(unit.sequence->blocks, unit.heads / units_per_head_, first, end, queries, scores, into);
  }

  /// Adds the segment that starts at token `first` to the ones before it; of the first there is only itself.
  void merge(const AttentionQueries& queries, int first, const SoftmaxPartial& later,
             const SoftmaxPartial& whole) const {
    for (int i = 0; i < queries.count; ++i) {
      if (queries.tokens[i] <= first) continue;
      const float largest = first == 0 ? later.largest[i] : std::max(whole.largest[i], later.largest[i]);
      if (first == 0) {
        whole.total[i] = later.total[i];
        std::copy_n(later.values[i], head_dim_, whole.values[i]);
      } else {
        const float keep = exponential(whole.largest[i] - largest);
        const float take = exponential(later.largest[i] - largest);
        whole.total[i] = whole.total[i] * keep + later.total[i] * take;
        for (int d = 0; d < head_dim_; ++d) whole.values[i][d] = whole.values[i][d] * keep + later.values[i][d] * take;
      }
      whole.largest[i] = largest;
    }
  }
  void finish(const AttentionQueries& queries, const SoftmaxPartial& whole) const {
    for (int i = 0; i < queries.count; ++i) {
      const float factor = 1.0F / whole.total[i];
      for (int d = 0; d < head_dim_; ++d) whole.values[i][d] *= factor;
    }
  }

  int head_dim_;
  int kv_heads_;
  int group_;          // query heads of one head of K and V
  int unit_heads_;     // query heads of one unit of work
  int units_per_head_; // of K and V
  int tile_rows_;
  AttentionPages pages_;
  std::vector<float> scratch_;
  std::vector<Unit> units_;
};

} // namespace sluice
