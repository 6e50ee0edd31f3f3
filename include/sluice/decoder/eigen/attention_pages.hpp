// SPDX-License-Identifier: Apache-2.0
// AttentionPages: a softmax over tokens, page by page, for some queries that read the same K and V.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/decoder/eigen/exponential.hpp"
#include "sluice/decoder/eigen/projection.hpp"
#include "sluice/model/shape.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace sluice {

/// Queries that are computed side by side: rows of one sequence, heads of one head of K and V.
struct AttentionQueries {
  static constexpr int most = 16;

  int count = 0;
  const float* query[most];
  float* result[most];
  int tokens[most]; ///< that it attends to; ascending
};

/// Softmaxes so far: for each query the largest score, the sum of exponentials less it, and the values weighted by
/// them.
struct SoftmaxPartial {
  float* values[AttentionQueries::most];
  float* largest;
  float* total;
};

/// One pass (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018) in pages of 64 tokens. A score
/// is summed as a projection's chunk is; a page's exponentials as four times sixteen lanes, ((0 + 1) + (2 + 3)), then
/// the tree of `sum`; values in ascending order of tokens. Queries side by side read K and V once, which changes no
/// order.
///
/// While K of a page is read, its V is asked for, and while V is, the next page's K: blocks lie anywhere, and what
/// prefetches by itself stops at the end of each.
class AttentionPages {
 public:
  static constexpr int page_tokens = 4 * Lanes16::count;

  AttentionPages(const ModelShape& shape, int block_tokens)
      : head_dim_(shape.head_dim),
        kv_heads_(shape.kv_heads),
        block_tokens_(block_tokens),
        scale_(1.0F / std::sqrt(static_cast<float>(shape.head_dim))) {
    SLUICE_ASSERT(block_tokens_ > 0, "blocks of at least one token");
  }

  /// Adds the tokens `first` .. `end` - 1 to `into`; `first` is a multiple of a page's tokens. `scores`: room for a
  /// page of each query.
  void attend(float* const* blocks, int kv_head, int first, int end, const AttentionQueries& queries, float* scores,
              const SoftmaxPartial& into) const {
    Page pages[2]; // this one and the next
    find(blocks, kv_head, first, end, pages[0]);
    for (int at = first, turn = 0; at < end; at += page_tokens, turn ^= 1) {
      const Page& page = pages[turn];
      Page& next = pages[turn ^ 1];
      find(blocks, kv_head, at + page_tokens, end, next);
      for (int q = 0; q < queries.count; q += detail::few.rows) score(queries, q, page, scores);
      int seen[AttentionQueries::most];
      for (int q = 0; q < queries.count; ++q) seen[q] = std::clamp(queries.tokens[q] - at, 0, page.tokens);
      float factors[AttentionQueries::most];
      weigh(queries.count, seen, scores, into, factors);
      for (int q = 0; q < queries.count;) {
        const bool four = q + 4 <= queries.count && seen[q] == seen[q + 3];
        if (four)
          add_values<4>(page, next, q, seen[q], scores, factors, into);
        else
          add_values<1>(page, next, q, seen[q], scores, factors, into);
        q += four ? 4 : 1;
      }
    }
  }

 private:
  struct Page {
    int tokens = 0;
    const std::byte* keys[page_tokens];
    const float* values[page_tokens];
  };

  /// Where K and V of the tokens from `first` on lie; behind the last one, where the last one does.
  void find(float* const* blocks, int kv_head, int first, int end, Page& page) const {
    page.tokens = std::clamp(end - first, 0, page_tokens);
    if (page.tokens == 0) return;
    const std::int64_t to_values = std::int64_t{kv_heads_} * block_tokens_ * head_dim_;
    int block = first / block_tokens_;
    int token = first % block_tokens_;
    for (int t = 0; t < page_tokens; ++t) {
      if (t < page.tokens) {
        if (token == block_tokens_) {
          token = 0;
          ++block;
        }
        const float* key = blocks[block] + (std::int64_t{kv_head} * block_tokens_ + token++) * head_dim_;
        page.keys[t] = reinterpret_cast<const std::byte*>(key);
        page.values[t] = key + to_values;
      } else {
        page.keys[t] = page.keys[page.tokens - 1];
      }
    }
  }

  void ask_for(const void* row) const {
    const auto* bytes = static_cast<const std::byte*>(row);
    for (int at = 0; at < head_dim_ * static_cast<int>(sizeof(float)); at += 64) __builtin_prefetch(bytes + at, 0, 2);
  }

  void score(const AttentionQueries& queries, int first, const Page& page, float* scores) const {
    using namespace detail;
    const int count = std::min(few.rows, queries.count - first);
    const float* left[std::size_t{few.rows}];
    for (int i = 0; i < few.rows; ++i) left[i] = queries.query[first + std::min(i, count - 1)];
    for (int t = 0; t < page.tokens; t += few.outputs) {
      if (first == 0) {
        for (int i = t; i < std::min(t + few.outputs, page.tokens); ++i) ask_for(page.values[i]);
      }
      float sums[std::size_t{few.rows * few.outputs}];
      chunk_sums_of_few<ElementType::f32, false>(left, count, page.keys + t, head_dim_, sums, 0);
      for (int i = 0; i < count; ++i)
        std::copy_n(sums + i * few.outputs, few.outputs, scores + (first + i) * page_tokens + t);
    }
  }

  /// Turns a page's scores into weights relative to the largest score so far, and says by what earlier values shrink.
  void weigh(int count, const int* seen, float* scores, const SoftmaxPartial& into, float* factors) const {
    constexpr int lanes = page_tokens / Lanes16::count;
    alignas(64) float shrink[Lanes16::count] = {};
    static_assert(AttentionQueries::most == Lanes16::count, "the queries' factors are one exponential");
    for (int q = 0; q < count; ++q) {
      if (seen[q] == 0) continue;
      float* row = scores + q * page_tokens;
      std::fill(row + seen[q], row + page_tokens, -std::numeric_limits<float>::infinity());
      Lanes16 most = Lanes16::load(row);
      for (int i = 1; i < lanes; ++i) most = larger(most, Lanes16::load(row + i * Lanes16::count));
      const float now = std::max(into.largest[q], largest(most) * scale_);
      shrink[q] = into.largest[q] - now; // minus infinity at first: nothing shrinks to nothing
      into.largest[q] = now;
    }
    exponential(Lanes16::load(shrink)).store(shrink);
    for (int q = 0; q < count; ++q) {
      factors[q] = shrink[q];
      if (seen[q] == 0) continue;
      float* row = scores + q * page_tokens;
      Lanes16 weights[lanes];
      for (int i = 0; i < lanes; ++i) {
        const Lanes16 scaled = Lanes16::load(row + i * Lanes16::count) * Lanes16::all(scale_);
        exponential(scaled - Lanes16::all(into.largest[q])).store(row + i * Lanes16::count);
      }
      std::fill(row + seen[q], row + page_tokens, 0.0F);
      for (int i = 0; i < lanes; ++i) weights[i] = Lanes16::load(row + i * Lanes16::count);
      static_assert(lanes == 4);
      into.total[q] = into.total[q] * shrink[q] + sum((weights[0] + weights[1]) + (weights[2] + weights[3]));
    }
  }

  /// values = values * factor + weights of the page's tokens times their values, for some queries that see as many.
  template <int Queries>
  void add_values(const Page& page, const Page& next, int first, int tokens, const float* scores, const float* factors,
                  const SoftmaxPartial& into) const {
    const float* weights = scores + first * page_tokens;
    int d = 0;
    for (; d + 4 * Lanes16::count <= head_dim_; d += 4 * Lanes16::count) {
      const bool ask = first == 0 && d == 0;
      Lanes16 sums[std::size_t{Queries * 4}];
      for (int q = 0; q < Queries; ++q) {
        for (int i = 0; i < 4; ++i) {
          sums[q * 4 + i] =
              Lanes16::load(into.values[first + q] + d + i * Lanes16::count) * Lanes16::all(factors[first + q]);
        }
      }
      for (int t = 0; t < tokens; ++t) {
        if (ask && t < next.tokens) ask_for(next.keys[t]);
        Lanes16 value[4];
        for (int i = 0; i < 4; ++i) value[i] = Lanes16::load(page.values[t] + d + i * Lanes16::count);
        for (int q = 0; q < Queries; ++q) {
          const Lanes16 weight = Lanes16::all(weights[q * page_tokens + t]);
          for (int i = 0; i < 4; ++i) sums[q * 4 + i] = fused(weight, value[i], sums[q * 4 + i]);
        }
      }
      for (int q = 0; q < Queries; ++q) {
        for (int i = 0; i < 4; ++i) sums[q * 4 + i].store(into.values[first + q] + d + i * Lanes16::count);
      }
    }
    for (; d < head_dim_; d += Lanes16::count) {
      const int left = std::min(Lanes16::count, head_dim_ - d);
      for (int q = 0; q < Queries; ++q) {
        float* values = into.values[first + q] + d;
        Lanes16 sums = load_floats(values, left) * Lanes16::all(factors[first + q]);
        for (int t = 0; t < tokens; ++t)
          sums = fused(Lanes16::all(weights[q * page_tokens + t]), load_floats(page.values[t] + d, left), sums);
        store_floats(sums, values, left);
      }
    }
  }

  int head_dim_;
  int kv_heads_;
  int block_tokens_;
  float scale_;
};

} // namespace sluice
