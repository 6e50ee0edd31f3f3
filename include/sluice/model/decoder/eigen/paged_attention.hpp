// SPDX-License-Identifier: Apache-2.0
// PagedAttention: causal attention of grouped heads over K and V in blocks, shared between threads.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/model/decoder/decoder.hpp"
#include "sluice/model/decoder/eigen/attention_pages.hpp"
#include "sluice/model/decoder/eigen/lanes.hpp"
#include "sluice/model/decoder/thread_pool.hpp"
#include "sluice/model/decoder/weights.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace sluice {

/// Softmax(q K^T / sqrt(head size)) V of each row's heads, over the tokens up to its own, or the last of them (a
/// sliding window: Beltagy et al., "Longformer", 2020; Jiang et al., "Mistral 7B", 2023). Groups of query heads share a
/// KV head (Ainslie et al., "GQA", 2023); with as many KV heads as query heads this is ordinary attention.
///
/// A softmax's order depends only on a token's position: pages (AttentionPages) in ascending order make a segment of
/// 2048 tokens, starting from nothing; segments are merged in ascending order. Threads may compute any part: a unit of
/// work is one row and all KV heads, or several rows and one head, whose K and V then come from a cache; with fewer
/// units than threads, a segment of a unit, or a share of its heads.
class PagedAttention {
 public:
  PagedAttention(const ModelShape& shape, Tokens block_tokens, int threads)
      : key_dim_(shape.kv_width()),
        value_dim_(AttentionPages::value_dim(shape)),
        kv_heads_(shape.kv_heads),
        group_(shape.heads / shape.kv_heads),
        group_share_(std::min(group_, most_queries)),
        shares_((group_ + group_share_ - 1) / group_share_),
        tile_rows_(std::max(1, most_queries / group_share_)),
        pages_(shape, static_cast<int>(block_tokens.count())),
        room_(static_cast<std::size_t>(floats(shape, threads))),
        work_(static_cast<std::size_t>(threads)) {
    for (Work& work : work_) {
      work.queries.resize(static_cast<std::size_t>(kv_heads_));
      work.whole.resize(static_cast<std::size_t>(kv_heads_));
      work.segment.resize(static_cast<std::size_t>(kv_heads_));
    }
  }

  /// Memory for iterations of this many rows, in the worst case each a sequence of its own.
  [[nodiscard]] static Bytes workspace(const ModelShape& shape, std::int64_t rows, int threads) {
    const auto of_head = static_cast<std::int64_t>(sizeof(AttentionQueries) + 2 * sizeof(SoftmaxPartial));
    return Bytes{floats(shape, threads) * std::int64_t{sizeof(float)} + threads * shape.kv_heads * of_head +
                 rows * shape.kv_heads * static_cast<std::int64_t>(sizeof(Unit))};
  }

  /// Attends for the sequences' rows below `rows`, each to `window` tokens, its own included, or with 0 to all: queries
  /// and results are rows of [query head][head size]; with latents of [query head][entry], and [query head][latent].
  void run(ThreadPool& pool, std::span<const SequenceRows> sequences, int rows, int window, const float* query,
           float* attended, std::int64_t stride) {
    const Rows from{query, attended, stride, window};
    const Seen seen = cut(sequences, rows, window, pool.threads());
    const int begin = seen.begin, longest = seen.end; // clang 14 does not capture the parts of a structured binding
    const auto count = static_cast<int>(units_.size());
    if (pool.threads() == 1 || count > most_split_units(pool.threads()) || longest - begin <= segment_tokens) {
      pool.run(count, [&](int part, int thread) { attend(units_[static_cast<std::size_t>(part)], from, thread); });
      return;
    }
    for (int first = begin; first < longest; first += segments_at_once * segment_tokens) {
      const int segments = std::min(segments_at_once, (longest - first + segment_tokens - 1) / segment_tokens);
      pool.run(count * segments, [&](int part, int thread) {
        const Unit& unit = units_[static_cast<std::size_t>(part / segments)];
        Work& work = work_[static_cast<std::size_t>(thread)];
        find_queries(unit, from, work);
        for (int head = 0; head < unit.heads; ++head)
          at(work.segment, head) = split_partial(part / segments, part % segments, head);
        attend_segment(unit, work, first + part % segments * segment_tokens, work.segment, scores(thread));
      });
      pool.run(count, [&](int part, int thread) {
        const Unit& unit = units_[static_cast<std::size_t>(part)];
        Work& work = work_[static_cast<std::size_t>(thread)];
        find_queries(unit, from, work);
        for (int head = 0; head < unit.heads; ++head) {
          const AttentionQueries& queries = at(work.queries, head);
          const SoftmaxPartial whole = into_results(split_partial(part, segments_at_once, head), queries);
          for (int segment = 0; segment < segments; ++segment)
            merge(queries, first + segment * segment_tokens, split_partial(part, segment, head), whole);
          if (first + segments * segment_tokens >= longest) finish(queries, whole);
        }
      });
    }
  }

 private:
  static constexpr int segment_tokens = 2048;
  static constexpr int segments_at_once = 8; // of one unit, if threads share a context
  static constexpr int most_queries = AttentionQueries::most;

  static constexpr std::int64_t alignment = 16; // floats: a cache line, which no register's load may cross

  /// Floats in use: for each thread scores and two partials of every head, and the partials of split contexts.
  [[nodiscard]] static std::int64_t floats(const ModelShape& shape, int threads) {
    const std::int64_t split = threads > 1 ? most_split_units(threads) * (segments_at_once + 1) : 0;
    const int value_dim = AttentionPages::value_dim(shape);
    return threads * floats_of_thread(shape.kv_heads, value_dim) + split * shape.kv_heads * partial_floats(value_dim) +
           alignment;
  }
  [[nodiscard]] static constexpr std::int64_t floats_of_thread(int kv_heads, int value_dim) {
    return AttentionPages::score_floats + 2 * kv_heads * partial_floats(value_dim);
  }

  /// With more units of work than this, threads have enough to share without splitting contexts.
  [[nodiscard]] static constexpr int most_split_units(int threads) { return 2 * threads; }

  /// Some rows of a sequence, some KV heads, and at most `most_queries` of their query heads.
  struct Unit {
    const SequenceRows* sequence = nullptr;
    int first_row = 0;
    int rows = 0;
    int first_head = 0;
    int heads = 0;
    int share = 0;
  };
  struct Rows {
    const float* query;
    float* result;
    std::int64_t stride;
    int window;
  };
  struct Work { // of one thread
    std::vector<AttentionQueries> queries;
    std::vector<SoftmaxPartial> whole;
    std::vector<SoftmaxPartial> segment;
  };

  template <class T>
  [[nodiscard]] static T& at(std::vector<T>& of, int head) {
    return of[static_cast<std::size_t>(head)];
  }

  /// The tokens that any row attends to; `begin` is a segment's first.
  struct Seen {
    int begin = 0;
    int end = 0;
  };
  /// Fills `units_`.
  Seen cut(std::span<const SequenceRows> sequences, int rows, int window, int threads) {
    units_.clear();
    int longest = 0, first = std::numeric_limits<int>::max();
    int tiles = 0;
    for (const SequenceRows& sequence : sequences) {
      const int count = std::min(rows, sequence.first_row + sequence.rows) - sequence.first_row;
      if (count <= 0) continue;
      longest = std::max(longest, sequence.position + count);
      first = std::min(first, window > 0 ? std::max(0, sequence.position + 1 - window) : 0);
      tiles += (count + tile_rows_ - 1) / tile_rows_;
    }
    const int begin = first / segment_tokens * segment_tokens;
    const bool by_heads = tiles * shares_ < threads && longest - begin <= segment_tokens;
    const int heads_of_one = by_heads ? (kv_heads_ + threads - 1) / threads : kv_heads_;
    for (const SequenceRows& sequence : sequences) {
      const int last = std::min(rows, sequence.first_row + sequence.rows);
      for (int row = sequence.first_row; row < last; row += tile_rows_) {
        const int count = std::min(tile_rows_, last - row);
        const int heads = count == 1 ? heads_of_one : 1;
        for (int head = 0; head < kv_heads_; head += heads) {
          for (int share = 0; share < shares_; ++share)
            units_.push_back({&sequence, row, count, head, std::min(heads, kv_heads_ - head), share});
        }
      }
    }
    return {begin, longest};
  }

  void find_queries(const Unit& unit, const Rows& from, Work& work) const {
    const int first = unit.share * group_share_;
    for (int head = 0; head < unit.heads; ++head) {
      AttentionQueries& queries = at(work.queries, head);
      queries.count = 0;
      for (int r = 0; r < unit.rows; ++r) {
        for (int h = first; h < std::min(group_, first + group_share_); ++h) {
          const std::int64_t row = (unit.first_row + r) * from.stride;
          const std::int64_t of = std::int64_t{unit.first_head + head} * group_ + h;
          const int i = queries.count++;
          queries.query[i] = from.query + row + of * key_dim_;
          queries.result[i] = from.result + row + of * value_dim_;
          queries.tokens[i] = unit.sequence->position + (unit.first_row + r - unit.sequence->first_row) + 1;
          queries.from[i] = from.window > 0 ? std::max(0, queries.tokens[i] - from.window) : 0;
        }
      }
    }
  }

  // The room: for each thread scores and two partials of every head, then those of split units.
  [[nodiscard]] static constexpr std::int64_t partial_floats(int value_dim) {
    return std::int64_t{most_queries} * (value_dim + 2);
  }
  [[nodiscard]] SoftmaxPartial partial(float* room) const {
    SoftmaxPartial partial;
    for (int i = 0; i < most_queries; ++i) partial.values[i] = room + std::int64_t{i} * value_dim_;
    partial.largest = room + std::int64_t{most_queries} * value_dim_;
    partial.total = partial.largest + most_queries;
    return partial;
  }
  [[nodiscard]] float* scores(int thread) {
    return aligned(room_.data(), alignment * sizeof(float)) + thread * floats_of_thread(kv_heads_, value_dim_);
  }
  [[nodiscard]] SoftmaxPartial thread_partial(int thread, int which, int head) {
    return partial(scores(thread) + AttentionPages::score_floats +
                   (which * kv_heads_ + head) * partial_floats(value_dim_));
  }
  [[nodiscard]] SoftmaxPartial split_partial(int unit, int segment, int head) {
    const std::int64_t slot = (std::int64_t{unit} * (segments_at_once + 1) + segment) * kv_heads_ + head;
    return partial(scores(static_cast<int>(work_.size())) + slot * partial_floats(value_dim_));
  }
  /// The partial whose values are the results' memory.
  [[nodiscard]] static SoftmaxPartial into_results(SoftmaxPartial partial, const AttentionQueries& queries) {
    std::copy_n(queries.result, queries.count, partial.values);
    return partial;
  }

  /// Computes all of a unit on one thread.
  void attend(const Unit& unit, const Rows& from, int thread) {
    Work& work = work_[static_cast<std::size_t>(thread)];
    find_queries(unit, from, work);
    for (int head = 0; head < unit.heads; ++head) {
      at(work.whole, head) = into_results(thread_partial(thread, 0, head), at(work.queries, head));
      at(work.segment, head) = thread_partial(thread, 1, head);
    }
    const AttentionQueries& any = work.queries[0];
    const int begin = any.from[0] / segment_tokens * segment_tokens;
    for (int first = begin; first < any.tokens[any.count - 1]; first += segment_tokens) {
      attend_segment(unit, work, first, first == begin ? work.whole : work.segment, scores(thread));
      for (int head = 0; first > begin && head < unit.heads; ++head)
        merge(at(work.queries, head), first, at(work.segment, head), at(work.whole, head));
    }
    for (int head = 0; head < unit.heads; ++head) finish(at(work.queries, head), at(work.whole, head));
  }

  /// Computes the segment that starts at token `first`, from nothing.
  void attend_segment(const Unit& unit, Work& work, int first, std::vector<SoftmaxPartial>& into, float* scores) const {
    const AttentionQueries& any = work.queries[0];
    const int end = std::min(any.tokens[any.count - 1], first + segment_tokens);
    const int begin = std::max(first, any.from[0] / AttentionPages::page_tokens * AttentionPages::page_tokens);
    for (int head = 0; head < unit.heads; ++head) {
      for (int i = 0; i < any.count; ++i) {
        at(into, head).largest[i] = -std::numeric_limits<float>::infinity();
        at(into, head).total[i] = 0;
        std::fill_n(at(into, head).values[i], value_dim_, 0.0F);
      }
    }
    const auto heads = static_cast<std::size_t>(unit.heads);
    pages_.attend(unit.sequence->blocks, unit.first_head, begin, end, std::span{work.queries}.first(heads),
                  std::span{into}.first(heads), scores);
  }

  /// Adds the segment that starts at token `first` to the segments before it, if any in which the query attends to
  /// tokens: what precedes its window adds nothing, whichever rows are computed beside it.
  void merge(const AttentionQueries& queries, int first, const SoftmaxPartial& later,
             const SoftmaxPartial& whole) const {
    for (int i = 0; i < queries.count; ++i) {
      if (queries.tokens[i] <= first) continue;
      const bool only = first <= queries.from[i];
      const float largest = only ? later.largest[i] : std::max(whole.largest[i], later.largest[i]);
      if (only) {
        whole.total[i] = later.total[i];
        std::copy_n(later.values[i], value_dim_, whole.values[i]);
      } else {
        const float keep = exponential(whole.largest[i] - largest);
        const float take = exponential(later.largest[i] - largest);
        whole.total[i] = whole.total[i] * keep + later.total[i] * take;
        for (int d = 0; d < value_dim_; ++d) whole.values[i][d] = whole.values[i][d] * keep + later.values[i][d] * take;
      }
      whole.largest[i] = largest;
    }
  }
  void finish(const AttentionQueries& queries, const SoftmaxPartial& whole) const {
    for (int i = 0; i < queries.count; ++i) {
      const float factor = 1.0F / whole.total[i];
      for (int d = 0; d < value_dim_; ++d) whole.values[i][d] *= factor;
    }
  }

  int key_dim_;
  int value_dim_;
  int kv_heads_;
  int group_;       // query heads per KV head
  int group_share_; // of them in one unit
  int shares_;      // units per group
  int tile_rows_;
  AttentionPages pages_;
  std::vector<float> room_;
  std::vector<Work> work_; // of each thread
  std::vector<Unit> units_;
};

} // namespace sluice
