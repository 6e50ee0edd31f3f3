// SPDX-License-Identifier: Apache-2.0
// AttentionPages: softmax over one sequence's tokens, page by page, for some queries of some heads.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/model/decoder/eigen/lanes.hpp"
#include "sluice/model/shape.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace sluice {

/// Queries of one KV head that are computed side by side: rows of one sequence, query heads of the group.
struct AttentionQueries {
  static constexpr int most = 16;

  int count = 0;
  const float* query[most];
  float* result[most];
  int tokens[most]; ///< each query attends to the tokens below this; ascending
  int from[most];   ///< and from this one on, 0 without a window; ascending
};

/// Partial softmaxes: for each query the largest score, the sum of exponentials relative to it, and the values weighted
/// by them.
struct SoftmaxPartial {
  float* values[AttentionQueries::most];
  float* largest;
  float* total;
};

/// One pass (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018) in pages of 64 tokens. A score
/// is summed like a projection's chunk; a page's exponentials as four times sixteen lanes, ((0 + 1) + (2 + 3)), then by
/// the tree of `sum`; values in ascending order of tokens. Computing queries and heads side by side changes no order.
///
/// With latent attention, K of the only KV head is a token's entry, a latent and a rotated part, and V its latent.
///
/// A page's K of one head is read, then its V, then the next head's: whatever a head needs besides K and V (its
/// queries, weights and values so far) stays in the first-level cache. A page is read in pieces of sixteen tokens;
/// while one piece is computed the next is prefetched, one line per line, wherever it lies. Memory then answers in the
/// order of requests and is never idle, whatever the number of queries. With bursts of prefetches, or none, reading and
/// computing would alternate.
class AttentionPages {
 public:
  static constexpr int page_tokens = 4 * Lanes16::count;
  /// Floats of scratch memory for scores.
  static constexpr std::int64_t score_floats = std::int64_t{AttentionQueries::most} * page_tokens;

  /// Numbers of a query's result: with latents the weighted sum of latents, from which a head's V follows.
  [[nodiscard]] static constexpr int value_dim(const ModelShape& shape) {
    return shape.has_latents() ? shape.latent.rank : shape.head_dim;
  }

  AttentionPages(const ModelShape& shape, int block_tokens)
      : key_dim_(shape.kv_width()),
        value_dim_(value_dim(shape)),
        kv_heads_(shape.kv_heads),
        block_tokens_(block_tokens),
        has_latents_(shape.has_latents()),
        scale_(1.0F / std::sqrt(static_cast<float>(shape.head_dim))) {
    SLUICE_ASSERT(block_tokens_ > 0, "blocks of at least one token");
  }

  /// Adds the tokens `first` .. `end` - 1 to the partials of the KV heads from `first_head` on; `first` is a multiple
  /// of a page's tokens. Tokens before the first query's window are not read.
  void attend(std::byte* const* blocks, int first_head, int first, int end, std::span<const AttentionQueries> heads,
              std::span<const SoftmaxPartial> into, float* scores) const {
    Page page;
    for (int at = first; at < end; at += page_tokens) {
      find(blocks, first_head, at, std::max(at, heads[0].from[0]), end, page);
      for (std::size_t head = 0; head < heads.size(); ++head) {
        const auto keys = [&](int piece) {
          return page.piece[piece].keys + static_cast<std::int64_t>(head) * head_floats();
        };
        const auto values = [&](int piece) { return keys(piece) + to_values(); };
        const int last = page.pieces - 1;
        for (int i = 0; i <= last; ++i)
          score(page.piece[i], keys(i), i < last ? keys(i + 1) : values(0), heads[head], scores);
        weigh(at, page.tokens, heads[head], into[head], scores);
        const float* next = head + 1 < heads.size() ? keys(0) + head_floats() : page.next;
        for (int i = 0; i <= last; ++i)
          add_values(at, page.piece[i], values(i), i < last ? values(i + 1) : next, heads[head], into[head], scores);
      }
    }
  }

 private:
  static constexpr int piece_tokens = 16; // for heads of 128, two pieces are half of a 32 KiB first-level cache

  /// Sums side by side, and queries among them. (With SSE, four use all registers.)
  static constexpr int sums_at_once = Lanes16::packets == 1 ? 16 : 4;
  static constexpr int queries_at_once = Lanes16::packets == 1 ? 8 : 4;

  /// Some tokens of a page, in one block.
  struct Piece {
    int first = 0; ///< within the page
    int tokens = 0;
    const float* keys = nullptr; ///< of its first token and the first head
  };
  struct Page {
    int tokens = 0;
    int pieces = 0;
    const float* next = nullptr; ///< the first head's K of the next page; at the end its own, prefetched in vain
    Piece piece[page_tokens];
  };

  /// The page at token `first`, from token `from` on.
  void find(std::byte* const* blocks, int first_head, int first, int from, int end, Page& page) const {
    const auto keys_of = [&](int token) {
      return reinterpret_cast<const float*>(blocks[token / block_tokens_]) + first_head * head_floats() +
             std::int64_t{token % block_tokens_} * key_dim_;
    };
    page.tokens = std::min(page_tokens, end - first);
    page.pieces = 0;
    for (int t = std::min(from - first, page.tokens); t < page.tokens;) {
      Piece& piece = page.piece[page.pieces++];
      piece.first = t;
      piece.tokens = std::min({piece_tokens, block_tokens_ - (first + t) % block_tokens_, page.tokens - t});
      piece.keys = keys_of(first + t);
      t += piece.tokens;
    }
    page.next = first + page.tokens < end ? keys_of(first + page.tokens) : page.piece[0].keys;
  }

  [[nodiscard]] std::int64_t head_floats() const { return std::int64_t{block_tokens_} * key_dim_; }
  [[nodiscard]] std::int64_t to_values() const { return has_latents_ ? 0 : kv_heads_ * head_floats(); }
  [[nodiscard]] static const std::byte* bytes(const float* floats) {
    return reinterpret_cast<const std::byte*>(floats);
  }

  /// Calls `compute.operator()<n>(first)` for `count` queries, in groups of 8, 4, 2 or 1: the largest that the
  /// registers and `may_join(first, n)` allow.
  template <class MayJoin, class Compute>
  static void in_groups(int count, const MayJoin& may_join, const Compute& compute) {
    for (int q = 0; q < count;) {
      const auto fit = [&](int n) { return n <= queries_at_once && q + n <= count && may_join(q, n); };
      if (fit(8)) {
        compute.template operator()<queries_at_once>(q);
        q += queries_at_once;
      } else if (fit(4)) {
        compute.template operator()<4>(q);
        q += 4;
      } else if (fit(2)) {
        compute.template operator()<2>(q);
        q += 2;
      } else {
        compute.template operator()<1>(q);
        q += 1;
      }
    }
  }

  /// Computes a piece's scores and prefetches the `next` piece meanwhile. Only the first group of queries reads from
  /// memory; the other groups prefetch what is already cached, which costs less than another copy of the code.
  void score(const Piece& piece, const float* keys, const float* next, const AttentionQueries& queries,
             float* scores) const {
    const auto any = [](int, int) { return true; };
    in_groups(queries.count, any, [&]<int Queries>(int first) {
      const float* ask = first == 0 ? next : keys;
      float* to = scores + first * page_tokens + piece.first;
      int t = 0;
      const auto tiles = [&]<int Rows, int Tokens>(int row, int from) {
        for (t = from; t + Tokens <= piece.tokens; t += Tokens) {
          const std::int64_t offset = std::int64_t{t} * key_dim_;
          score_tile<Rows, Tokens>(queries.query + first + row, keys + offset, bytes(ask + offset),
                                   to + row * page_tokens + t);
        }
      };
      tiles.template operator()<Queries, sums_at_once / Queries>(0, 0);
      const int left = t; // fewer than a tile's tokens: query by query, four at a time, then one by one
      for (int q = 0; left < piece.tokens && q < Queries; ++q) {
        tiles.template operator()<1, 4>(q, left);
        for (; t < piece.tokens; ++t)
          to[q * page_tokens + t] = score_one(queries.query[first + q], keys + std::int64_t{t} * key_dim_);
      }
    });
  }

  template <int Queries, int Tokens>
  void score_tile(const float* const* query, const float* keys, const std::byte* ask, float* scores) const {
    using namespace detail;
    constexpr int count = Queries * Tokens;
    static_assert(count == 4 || count == 16);
    Lanes16 total[std::size_t{count}];
    unrolled<count>([&](auto i) { total[i] = Lanes16::zero(); });
    const std::int64_t row = key_dim_;
    const auto step = [&](const auto& load) __attribute__((always_inline)) {
      Lanes16 left[std::size_t{Queries}];
      unrolled<Queries>([&](auto q) { left[q] = load(query[q]); });
      unrolled<Tokens>([&](auto t) {
        const Lanes16 right = load(keys + t * row);
        unrolled<Queries>([&](auto q) { total[q * Tokens + t] = fused(left[q], right, total[q * Tokens + t]); });
      });
    };
    int k = 0;
    for (; k + Lanes16::count <= key_dim_; k += Lanes16::count) {
      ask_for<Tokens>(ask);
      ask += Tokens * cache_line;
      step([&](const float* from) { return Lanes16::load(from + k); });
    }
    if (k < key_dim_) // in place, because a call within a tile would spill the sums
      step([&](const float* from) __attribute__((always_inline)) { return load_floats(from + k, key_dim_ - k); });
    float sums[std::size_t{count}];
    if constexpr (count == 16)
      sum_sixteen(total, sums);
    else
      sum_four(total[0], total[1], total[2], total[3], sums);
    unrolled<Queries>([&](auto q) { std::copy_n(sums + q * Tokens, Tokens, scores + q * page_tokens); });
  }

  [[nodiscard]] float score_one(const float* query, const float* key) const {
    Lanes16 total = Lanes16::zero();
    int k = 0;
    for (; k + Lanes16::count <= key_dim_; k += Lanes16::count)
      total = fused(Lanes16::load(query + k), Lanes16::load(key + k), total);
    if (k < key_dim_) total = fused(load_floats(query + k, key_dim_ - k), load_floats(key + k, key_dim_ - k), total);
    return sum(total);
  }

  /// Of `tokens` tokens from `page` on, those that a query attends to: [from, to), empty if `to` <= `from`.
  struct Seen {
    int from = 0;
    int to = 0;
    friend bool operator==(const Seen&, const Seen&) = default;
  };
  [[nodiscard]] static Seen seen(const AttentionQueries& queries, int query, int page, int tokens) {
    return {std::clamp(queries.from[query] - page, 0, tokens), std::clamp(queries.tokens[query] - page, 0, tokens)};
  }

  /// Turns a page's scores into weights relative to the largest score so far, and scales the earlier values
  /// accordingly.
  void weigh(int page, int tokens, const AttentionQueries& queries, const SoftmaxPartial& into, float* scores) const {
    constexpr int lanes = page_tokens / Lanes16::count;
    float shrink[Lanes16::count] = {};
    static_assert(AttentionQueries::most == Lanes16::count, "the queries' factors are one exponential");
    for (int q = 0; q < queries.count; ++q) {
      const auto [from, to] = seen(queries, q, page, tokens);
      if (to <= from) continue;
      float* row = scores + q * page_tokens;
      std::fill(row, row + from, -std::numeric_limits<float>::infinity());
      std::fill(row + to, row + page_tokens, -std::numeric_limits<float>::infinity());
      Lanes16 most = Lanes16::load(row);
      detail::unrolled<lanes - 1>([&](auto i) { most = larger(most, Lanes16::load(row + (i + 1) * Lanes16::count)); });
      const float now = std::max(into.largest[q], largest(most) * scale_);
      shrink[q] = into.largest[q] - now; // minus infinity at first: nothing to scale
      into.largest[q] = now;
    }
    exponential(Lanes16::load(shrink)).store(shrink);
    for (int q = 0; q < queries.count; ++q) {
      const auto [from, to] = seen(queries, q, page, tokens);
      if (to <= from) continue;
      float* row = scores + q * page_tokens;
      detail::unrolled<lanes>([&](auto i) {
        const Lanes16 scaled = Lanes16::load(row + i * Lanes16::count) * Lanes16::all(scale_);
        exponential(scaled - Lanes16::all(into.largest[q])).store(row + i * Lanes16::count);
      });
      std::fill(row, row + from, 0.0F);
      std::fill(row + to, row + page_tokens, 0.0F);
      Lanes16 weights[lanes];
      detail::unrolled<lanes>([&](auto i) { weights[i] = Lanes16::load(row + i * Lanes16::count); });
      static_assert(lanes == 4);
      into.total[q] = into.total[q] * shrink[q] + sum((weights[0] + weights[1]) + (weights[2] + weights[3]));
      if (shrink[q] != 1) scale(into.values[q], shrink[q]);
    }
  }

  void scale(float* values, float factor) const {
    int d = 0;
    for (; d + Lanes16::count <= value_dim_; d += Lanes16::count)
      (Lanes16::load(values + d) * Lanes16::all(factor)).store(values + d);
    for (; d < value_dim_; ++d) values[d] *= factor;
  }

  /// Adds a piece's values and prefetches the `next` piece meanwhile.
  void add_values(int page, const Piece& piece, const float* values, const float* next, const AttentionQueries& queries,
                  const SoftmaxPartial& into, const float* scores) const {
    const auto in_piece = [&](int q) { return seen(queries, q, page + piece.first, piece.tokens); };
    const auto see_the_same = [&](int q, int n) { return in_piece(q) == in_piece(q + n - 1); };
    in_groups(queries.count, see_the_same, [&]<int Queries>(int first) {
      const auto [from, to] = in_piece(first);
      if (to <= from) return;
      add_values<Queries>(values + std::int64_t{from} * key_dim_, bytes(first == 0 ? next : values), to - from,
                          scores + first * page_tokens + piece.first + from, into.values + first);
    });
  }

  /// into += weights of the first `tokens` tokens times their values, for queries that attend to the same tokens.
  template <int Queries>
  void add_values(const float* values, const std::byte* ask, int tokens, const float* weights,
                  float* const* into) const {
    using namespace detail;
    int d = 0;
    const auto columns = [&]<int Sixteens>() {
      for (; d + Sixteens * Lanes16::count <= value_dim_; d += Sixteens * Lanes16::count) {
        const auto place = [&](int i) { return into[i / Sixteens] + d + i % Sixteens * Lanes16::count; };
        Lanes16 sums[std::size_t{Queries * Sixteens}];
        unrolled<Queries * Sixteens>([&](auto i) { sums[i] = Lanes16::load(place(i)); });
        const float* row = values + d;
        for (int t = 0; t < tokens; ++t) {
          ask_for<Sixteens>(ask);
          ask += Sixteens * cache_line;
          Lanes16 value[std::size_t{Sixteens}];
          unrolled<Sixteens>([&](auto i) { value[i] = Lanes16::load(row + i * Lanes16::count); });
          unrolled<Queries>([&](auto q) {
            const Lanes16 weight = Lanes16::all(weights[q * page_tokens + t]);
            unrolled<Sixteens>(
                [&](auto i) { sums[q * Sixteens + i] = fused(weight, value[i], sums[q * Sixteens + i]); });
          });
          row += key_dim_;
        }
        unrolled<Queries * Sixteens>([&](auto i) { sums[i].store(place(i)); });
      }
    };
    constexpr int most = std::min(4, sums_at_once / Queries);
    columns.template operator()<most>();
    if constexpr (most > 1) columns.template operator()<1>();
    if (d < value_dim_) {
      const int left = value_dim_ - d;
      for (int q = 0; q < Queries; ++q) {
        Lanes16 sums = load_floats(into[q] + d, left);
        for (int t = 0; t < tokens; ++t) {
          const float* row = values + std::int64_t{t} * key_dim_ + d;
          sums = fused(Lanes16::all(weights[q * page_tokens + t]), load_floats(row, left), sums);
        }
        store_floats(sums, into[q] + d, left);
      }
    }
  }

  int key_dim_; // of K, and from one token's V to the next
  int value_dim_;
  int kv_heads_;
  int block_tokens_;
  bool has_latents_; // V is the beginning of K
  float scale_;
};

} // namespace sluice
