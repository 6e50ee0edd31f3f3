// SPDX-License-Identifier: Apache-2.0
// AttentionPages: softmaxes over the tokens of one sequence, page by page, for some queries of some heads.
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
#include <span>

namespace sluice {

/// Queries of one head of K and V that are computed side by side: rows of one sequence, query heads of the group.
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
/// the tree of `sum`; values in ascending order of tokens. Queries and heads side by side change no order.
///
/// K of all heads of a block is read in one sweep, then V: a block's are one piece of memory. Two KiB ahead of what is
/// computed, and on into the next piece, memory is asked for what comes: one head at a time, in pieces of 4 KiB, came
/// at two thirds of the rate.
class AttentionPages {
 public:
  static constexpr int page_tokens = 4 * Lanes16::count;
  /// Floats of room for scores that each head needs.
  static constexpr std::int64_t score_floats = std::int64_t{AttentionQueries::most} * page_tokens;

  AttentionPages(const ModelShape& shape, int block_tokens)
      : head_dim_(shape.head_dim),
        kv_heads_(shape.kv_heads),
        block_tokens_(block_tokens),
        scale_(1.0F / std::sqrt(static_cast<float>(shape.head_dim))) {
    SLUICE_ASSERT(block_tokens_ > 0, "blocks of at least one token");
  }

  /// Adds the tokens `first` .. `end` - 1 to the partials of the heads of K and V from `first_head` on; `first` is a
  /// multiple of a page's tokens.
  void attend(float* const* blocks, int first_head, int first, int end, std::span<const AttentionQueries> heads,
              std::span<const SoftmaxPartial> into, float* scores) const {
    Page page;
    for (int at = first; at < end; at += page_tokens) {
      find(blocks, first_head, at, end, static_cast<int>(heads.size()), page);
      for (int piece = 0; piece < page.pieces; ++piece) score(page.piece[piece], heads, scores);
      for (std::size_t head = 0; head < heads.size(); ++head)
        weigh(at, page.tokens, heads[head], into[head], scores + static_cast<std::int64_t>(head) * score_floats);
      for (int piece = 0; piece < page.pieces; ++piece) add_values(at, page.piece[piece], heads, into, scores);
    }
  }

 private:
  /// What is read next, wherever it lies.
  struct Sweep {
    const std::byte* from = nullptr; ///< of the first head
    std::int64_t bytes = 0;          ///< of all heads
    const std::byte* next = nullptr; ///< and then
  };
  /// Tokens of a page that lie in one block.
  struct Piece {
    int first = 0; ///< in the page
    int tokens = 0;
    const float* keys = nullptr; ///< of its first token, of the first head
    Sweep key_sweep;
    Sweep value_sweep;
  };
  struct Page {
    int tokens = 0;
    int pieces = 0;
    Piece piece[page_tokens];
  };

  void find(float* const* blocks, int first_head, int first, int end, int heads, Page& page) const {
    page.tokens = std::min(page_tokens, end - first);
    page.pieces = 0;
    int block = first / block_tokens_;
    int token = first % block_tokens_;
    const auto bytes_of_heads = heads * head_floats() * std::int64_t{sizeof(float)};
    const auto keys_at = [&](int of, int at) {
      return blocks[of] + first_head * head_floats() + std::int64_t{at} * head_dim_;
    };
    for (int t = 0; t < page.tokens; ++block, token = 0) {
      Piece& piece = page.piece[page.pieces++];
      piece.first = t;
      piece.tokens = std::min(block_tokens_ - token, page.tokens - t);
      piece.keys = keys_at(block, token);
      piece.key_sweep = {bytes(piece.keys), bytes_of_heads, nullptr};
      piece.value_sweep = {bytes(piece.keys + to_values()), bytes_of_heads, nullptr};
      t += piece.tokens;
    }
    for (int i = 0; i + 1 < page.pieces; ++i) {
      page.piece[i].key_sweep.next = page.piece[i + 1].key_sweep.from;
      page.piece[i].value_sweep.next = page.piece[i + 1].value_sweep.from;
    }
    Piece& last = page.piece[page.pieces - 1];
    last.key_sweep.next = page.piece[0].value_sweep.from;
    const int after = first + page.tokens;
    last.value_sweep.next =
        after < end ? bytes(keys_at(after / block_tokens_, after % block_tokens_)) : last.value_sweep.from;
  }

  [[nodiscard]] std::int64_t head_floats() const { return std::int64_t{block_tokens_} * head_dim_; }
  [[nodiscard]] std::int64_t to_values() const { return kv_heads_ * head_floats(); }
  [[nodiscard]] static const std::byte* bytes(const float* floats) {
    return reinterpret_cast<const std::byte*>(floats);
  }

  /// Asks for what is read after these `rows` rows at `row`.
  void ask_ahead(const Sweep& sweep, const float* row, int rows) const {
    constexpr std::int64_t ahead = 2048;
    std::int64_t at = bytes(row) - sweep.from + ahead;
    const std::int64_t end = at + std::int64_t{rows} * head_dim_ * std::int64_t{sizeof(float)};
    for (; at < end; at += 64) __builtin_prefetch(at < sweep.bytes ? sweep.from + at : sweep.next + (at - sweep.bytes));
  }

  void score(const Piece& piece, std::span<const AttentionQueries> heads, float* scores) const {
    using namespace detail;
    for (std::size_t head = 0; head < heads.size(); ++head, scores += score_floats) {
      const AttentionQueries& queries = heads[head];
      const float* keys = piece.keys + static_cast<std::int64_t>(head) * head_floats();
      for (int t = 0; t < piece.tokens; t += few.outputs) {
        const int outputs = std::min(few.outputs, piece.tokens - t);
        ask_ahead(piece.key_sweep, keys + std::int64_t{t} * head_dim_, outputs);
        const std::byte* right[std::size_t{few.outputs}];
        unrolled<few.outputs>(
            [&](auto i) { right[i] = bytes(keys + std::int64_t{t + std::min<int>(i, outputs - 1)} * head_dim_); });
        for (int q = 0; q < queries.count; q += few.rows) {
          const int rows = std::min(few.rows, queries.count - q);
          const float* left[std::size_t{few.rows}];
          unrolled<few.rows>([&](auto i) { left[i] = queries.query[q + std::min<int>(i, rows - 1)]; });
          float sums[std::size_t{few.rows * few.outputs}];
          chunk_sums_of_few<ElementType::f32, false>(left, rows, right, head_dim_, sums, 0);
          float* to = scores + q * page_tokens + piece.first + t;
          for (int i = 0; i < rows; ++i, to += page_tokens) {
            if (outputs == few.outputs) // a copy of a known size is a register's
              std::copy_n(sums + i * few.outputs, few.outputs, to);
            else
              std::copy_n(sums + i * few.outputs, outputs, to);
          }
        }
      }
    }
  }

  [[nodiscard]] static int seen(const AttentionQueries& queries, int query, int page, int tokens) {
    return std::clamp(queries.tokens[query] - page, 0, tokens);
  }

  /// Turns a page's scores into weights relative to the largest score so far, and shrinks the values before by as much.
  void weigh(int page, int tokens, const AttentionQueries& queries, const SoftmaxPartial& into, float* scores) const {
    constexpr int lanes = page_tokens / Lanes16::count;
    float shrink[Lanes16::count] = {};
    static_assert(AttentionQueries::most == Lanes16::count, "the queries' factors are one exponential");
    for (int q = 0; q < queries.count; ++q) {
      const int count = seen(queries, q, page, tokens);
      if (count == 0) continue;
      float* row = scores + q * page_tokens;
      std::fill(row + count, row + page_tokens, -std::numeric_limits<float>::infinity());
      Lanes16 most = Lanes16::load(row);
      detail::unrolled<lanes - 1>([&](auto i) { most = larger(most, Lanes16::load(row + (i + 1) * Lanes16::count)); });
      const float now = std::max(into.largest[q], largest(most) * scale_);
      shrink[q] = into.largest[q] - now; // minus infinity at first: nothing shrinks to nothing
      into.largest[q] = now;
    }
    exponential(Lanes16::load(shrink)).store(shrink);
    for (int q = 0; q < queries.count; ++q) {
      const int count = seen(queries, q, page, tokens);
      if (count == 0) continue;
      float* row = scores + q * page_tokens;
      detail::unrolled<lanes>([&](auto i) {
        const Lanes16 scaled = Lanes16::load(row + i * Lanes16::count) * Lanes16::all(scale_);
        exponential(scaled - Lanes16::all(into.largest[q])).store(row + i * Lanes16::count);
      });
      std::fill(row + count, row + page_tokens, 0.0F);
      Lanes16 weights[lanes];
      detail::unrolled<lanes>([&](auto i) { weights[i] = Lanes16::load(row + i * Lanes16::count); });
      static_assert(lanes == 4);
      into.total[q] = into.total[q] * shrink[q] + sum((weights[0] + weights[1]) + (weights[2] + weights[3]));
      if (shrink[q] != 1) scale(into.values[q], shrink[q]);
    }
  }

  void scale(float* values, float factor) const {
    int d = 0;
    for (; d + Lanes16::count <= head_dim_; d += Lanes16::count)
      (Lanes16::load(values + d) * Lanes16::all(factor)).store(values + d);
    for (; d < head_dim_; ++d) values[d] *= factor;
  }

  void add_values(int page, const Piece& piece, std::span<const AttentionQueries> heads,
                  std::span<const SoftmaxPartial> into, const float* scores) const {
    for (std::size_t head = 0; head < heads.size(); ++head, scores += score_floats) {
      const AttentionQueries& queries = heads[head];
      const float* values = piece.keys + static_cast<std::int64_t>(head) * head_floats() + to_values();
      const auto in_piece = [&](int q) { return seen(queries, q, page + piece.first, piece.tokens); };
      for (int q = 0; q < queries.count;) {
        const bool four = q + 4 <= queries.count && in_piece(q) == in_piece(q + 3);
        const float* weights = scores + q * page_tokens + piece.first;
        if (four)
          add_values<4>(piece, values, q == 0, in_piece(q), weights, into[head].values + q);
        else
          add_values<1>(piece, values, q == 0, in_piece(q), weights, into[head].values + q);
        q += four ? 4 : 1;
      }
    }
  }

  /// into += weights of the first `tokens` tokens times their values, for some queries that see as many.
  template <int Queries>
  void add_values(const Piece& piece, const float* values, bool ask, int tokens, const float* weights,
                  float* const* into) const {
    using detail::unrolled;
    int d = 0;
    for (; d + 4 * Lanes16::count <= head_dim_; d += 4 * Lanes16::count) {
      Lanes16 sums[std::size_t{Queries * 4}];
      unrolled<Queries * 4>([&](auto i) { sums[i] = Lanes16::load(into[i / 4] + d + i % 4 * Lanes16::count); });
      for (int t = 0; t < tokens; ++t) {
        const float* row = values + std::int64_t{t} * head_dim_ + d;
        if (ask && d == 0) ask_ahead(piece.value_sweep, row, 1);
        Lanes16 value[4];
        unrolled<4>([&](auto i) { value[i] = Lanes16::load(row + i * Lanes16::count); });
        unrolled<Queries>([&](auto q) {
          const Lanes16 weight = Lanes16::all(weights[q * page_tokens + t]);
          unrolled<4>([&](auto i) { sums[q * 4 + i] = fused(weight, value[i], sums[q * 4 + i]); });
        });
      }
      unrolled<Queries * 4>([&](auto i) { sums[i].store(into[i / 4] + d + i % 4 * Lanes16::count); });
    }
    for (; d < head_dim_; d += Lanes16::count) {
      const int left = std::min(Lanes16::count, head_dim_ - d);
      for (int q = 0; q < Queries; ++q) {
        Lanes16 sums = load_floats(into[q] + d, left);
        for (int t = 0; t < tokens; ++t) {
          const float* row = values + std::int64_t{t} * head_dim_ + d;
          sums = fused(Lanes16::all(weights[q * page_tokens + t]), load_floats(row, left), sums);
        }
        store_floats(sums, into[q] + d, left);
      }
    }
  }

  int head_dim_;
  int kv_heads_;
  int block_tokens_;
  float scale_;
};

} // namespace sluice
