// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of attention: sequences with K and V in scattered blocks, softmax in double, and the error limits
// of each element type.
#pragma once

#include "emulate/launch.hpp"
#include "kernels/attention/merge_segments.hpp"
#include "kernels/attention/paged_attention.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <vector>

namespace sluice::kernels::test {

/// Limits of relative L2 errors, for inputs that are elements already.
template <Element T>
inline constexpr double attention_error_limit = std::is_same_v<T, float> ? 1e-6
                                                : std::is_same_v<T, F16> ? 1e-3
                                                                         : 4e-3;

/// Memory of exact size: ASan sees the byte behind it.
struct Free {
  void operator()(std::byte* at) const { ::operator delete (at, std::align_val_t{16}); }
};
using Bytes = std::unique_ptr<std::byte, Free>;
[[nodiscard]] inline Bytes bytes(std::size_t count) {
  return Bytes{static_cast<std::byte*>(::operator new (count, std::align_val_t{16}))};
}

struct AttentionShape {
  int head_dim = 64;
  int kv_heads = 1;
  int group = 1;

  /// Numbers from one row of queries or results to the next: more than a row's length, as in a fused QKV product.
  [[nodiscard]] std::size_t row() const { return index(kv_heads * group * head_dim + 8); }
  [[nodiscard]] static std::size_t index(int i) { return static_cast<std::size_t>(i); }
};

/// The last `rows` tokens of a sequence have queries; `position` tokens come before them.
struct AttentionSequence {
  int rows = 0;
  int position = 0;
};

/// Rows from .. from + rows - 1 of a sequence, which one launch computes.
struct AttentionChunk {
  int sequence = 0;
  int from = 0;
  int rows = 0;
};

template <Element T>
struct AttentionRun {
  std::vector<T> result; ///< as the queries; NaN where nothing was written
  emulate::Report report;
};

template <Element T>
class AttentionCase {
 public:
  /// K and V of the chunks' sequences, in scattered blocks, up to the chunks' last rows; NaN after them.
  struct Blocks {
    std::vector<Bytes> memory;
    std::vector<void*> table;
    std::vector<int> first;

    Blocks(const AttentionCase& of, const std::vector<AttentionChunk>& chunks, int block_tokens, unsigned seed) {
      const AttentionShape& shape = of.shape_;
      const int head_numbers = block_tokens * shape.head_dim;
      const auto numbers = AttentionShape::index(2 * shape.kv_heads * head_numbers);
      for (const AttentionChunk& chunk : chunks) {
        const auto s = static_cast<std::size_t>(chunk.sequence);
        const int tokens = of.sequences_[s].position + chunk.from + chunk.rows;
        first.push_back(static_cast<int>(memory.size()));
        for (int token = 0; token < tokens; token += block_tokens) {
          memory.push_back(bytes(numbers * sizeof(T)));
          T* const block = reinterpret_cast<T*>(memory.back().get());
          std::fill(block, block + numbers, narrow<T>(std::numeric_limits<float>::quiet_NaN()));
          for (int t = token; t < std::min(tokens, token + block_tokens); ++t) {
            for (int head = 0; head < shape.kv_heads; ++head) {
              const int from = (t * shape.kv_heads + head) * shape.head_dim;
              const int to = head * head_numbers + (t - token) * shape.head_dim;
              std::copy_n(&of.keys_[s][AttentionShape::index(from)], shape.head_dim, block + to);
              std::copy_n(&of.values_[s][AttentionShape::index(from)], shape.head_dim,
                          block + shape.kv_heads * head_numbers + to);
            }
          }
        }
      }
      for (const Bytes& block : memory) table.push_back(block.get());
      std::mt19937 random(seed); // contents change places: a block's address must not matter
      for (std::size_t i = 0; i < table.size(); ++i) {
        const std::size_t other = random() % table.size();
        std::swap_ranges(memory[i].get(), memory[i].get() + numbers * sizeof(T), memory[other].get());
        for (void*& one : table) {
          if (one == memory[i].get())
            one = memory[other].get();
          else if (one == memory[other].get())
            one = memory[i].get();
        }
      }
    }
  };

  AttentionCase(AttentionShape shape, std::vector<AttentionSequence> sequences, unsigned seed)
      : shape_(shape), sequences_(std::move(sequences)), random_(seed) {
    int rows = 0;
    for (const AttentionSequence& sequence : sequences_) {
      first_row_.push_back(rows);
      rows += sequence.rows;
      const auto numbers =
          AttentionShape::index((sequence.position + sequence.rows) * shape_.kv_heads * shape_.head_dim);
      keys_.push_back(numbers_of(numbers));
      values_.push_back(numbers_of(numbers));
    }
    query_ = numbers_of(AttentionShape::index(rows) * shape_.row());
  }

  [[nodiscard]] std::vector<AttentionChunk> whole() const {
    std::vector<AttentionChunk> chunks;
    for (std::size_t s = 0; s < sequences_.size(); ++s) chunks.push_back({static_cast<int>(s), 0, sequences_[s].rows});
    return chunks;
  }

  /// Everything that a launch of attention needs, and what it writes.
  struct Launch {
    Blocks blocks;
    AttentionPlan plan;
    std::vector<T> result;
    std::vector<float> values;
    std::vector<float> maxima;
    std::vector<float> totals;
    PagedAttentionParams params;
  };
  [[nodiscard]] std::unique_ptr<Launch> prepare(const std::vector<AttentionChunk>& chunks, int tile_rows,
                                                int block_tokens, unsigned seed, int split_rows = attention_split_rows,
                                                int blocks_wanted = std::numeric_limits<int>::max()) const {
    std::vector<AttentionRows> rows;
    for (const AttentionChunk& chunk : chunks) {
      const auto s = static_cast<std::size_t>(chunk.sequence);
      rows.push_back({first_row_[s] + chunk.from, chunk.rows, sequences_[s].position + chunk.from});
    }
    const float none = std::numeric_limits<float>::quiet_NaN();
    auto launch =
        std::make_unique<Launch>(Launch{{*this, chunks, block_tokens, seed},
                                        plan_attention(rows, shape_.group, tile_rows, split_rows, blocks_wanted),
                                        std::vector<T>(query_.size(), narrow<T>(none)),
                                        {},
                                        {},
                                        {},
                                        {}});
    const auto partials = AttentionShape::index(launch->plan.partial_rows * shape_.kv_heads);
    launch->values.assign(partials * AttentionShape::index(shape_.head_dim), none);
    launch->maxima.assign(partials, none);
    launch->totals.assign(partials, none);
    PagedAttentionParams& params = launch->params;
    params.query = query_.data();
    params.result = launch->result.data();
    params.query_stride = params.result_stride = static_cast<int>(shape_.row());
    params.blocks = launch->blocks.table.data();
    params.first_block = launch->blocks.first.data();
    params.block_tokens = Divisor{block_tokens};
    params.tiles = launch->plan.tiles.data();
    params.tile_count = static_cast<int>(launch->plan.tiles.size());
    params.kv_heads = shape_.kv_heads;
    params.group = shape_.group;
    params.scale = scale();
    params.values = launch->values.data();
    params.maxima = launch->maxima.data();
    params.totals = launch->totals.data();
    return launch;
  }

  /// Merges attention's partial results, and returns the final ones.
  template <MergeSegmentsConfig config>
  [[nodiscard]] AttentionRun<T> finish(Launch& launch, emulate::Report report, unsigned seed) const {
    if (!launch.plan.merged.empty() && report.ok()) {
      MergeSegmentsParams merge;
      merge.merged = launch.plan.merged.data();
      merge.merged_count = static_cast<int>(launch.plan.merged.size());
      merge.kv_heads = shape_.kv_heads;
      merge.group = shape_.group;
      merge.values = launch.values.data();
      merge.maxima = launch.maxima.data();
      merge.totals = launch.totals.data();
      merge.result = launch.result.data();
      merge.result_stride = static_cast<int>(shape_.row());
      using Merge = MergeSegments<config>;
      const emulate::Report merged = emulate::launch<Merge>(Merge::grid(merge), merge, seed + 1);
      report.errors.insert(report.errors.end(), merged.errors.begin(), merged.errors.end());
    }
    return {std::move(launch.result), std::move(report)};
  }

  template <PagedAttentionConfig config>
  [[nodiscard]] AttentionRun<T> run(const std::vector<AttentionChunk>& chunks, int block_tokens, unsigned seed,
                                    int split_rows = attention_split_rows,
                                    int blocks_wanted = std::numeric_limits<int>::max()) const {
    using Kernel = PagedAttention<config>;
    static_assert(std::is_same_v<typename Kernel::T, T>);
    const std::unique_ptr<Launch> launch =
        prepare(chunks, Kernel::tile_rows, block_tokens, seed, split_rows, blocks_wanted);
    emulate::Report report = emulate::launch<Kernel>(Kernel::grid(launch->params), launch->params, seed);
    return finish<MergeSegmentsConfig{.element = config.element, .head_dim = config.head_dim}>(*launch,
                                                                                               std::move(report), seed);
  }

  /// The relative L2 error of a run's rows.
  [[nodiscard]] double error(const AttentionRun<T>& run, const std::vector<AttentionChunk>& chunks) const {
    double off = 0;
    double all = 0;
    std::vector<double> exact(AttentionShape::index(shape_.head_dim));
    for (const AttentionChunk& chunk : chunks) {
      for (int r = chunk.from; r < chunk.from + chunk.rows; ++r) {
        for (int head = 0; head < shape_.kv_heads * shape_.group; ++head) {
          attend(chunk.sequence, r, head, exact);
          const std::size_t at = place(chunk.sequence, r, head);
          for (std::size_t d = 0; d < exact.size(); ++d) {
            const double difference = static_cast<double>(widen(run.result[at + d])) - exact[d];
            off += difference * difference;
            all += exact[d] * exact[d];
          }
        }
      }
    }
    return all > 0 ? std::sqrt(off / all) : 0.0;
  }

  /// Whether the rows of `chunk` have the same bits in both runs.
  [[nodiscard]] bool same(const AttentionRun<T>& a, const AttentionRun<T>& b, const AttentionChunk& chunk) const {
    const std::size_t at = place(chunk.sequence, chunk.from, 0);
    return std::memcmp(&a.result[at], &b.result[at], AttentionShape::index(chunk.rows) * shape_.row() * sizeof(T)) == 0;
  }

 private:
  [[nodiscard]] std::vector<T> numbers_of(std::size_t count) {
    std::vector<T> numbers(count);
    std::normal_distribution<float> normal;
    for (T& one : numbers) one = narrow<T>(normal(random_));
    return numbers;
  }
  [[nodiscard]] float scale() const { return 1.0F / std::sqrt(static_cast<float>(shape_.head_dim)); }
  [[nodiscard]] std::size_t place(int sequence, int row, int head) const {
    return AttentionShape::index(first_row_[static_cast<std::size_t>(sequence)] + row) * shape_.row() +
           AttentionShape::index(head * shape_.head_dim);
  }

  void attend(int sequence, int row, int head, std::vector<double>& result) const {
    const auto s = static_cast<std::size_t>(sequence);
    const T* const query = &query_[place(sequence, row, head)];
    const auto tokens = AttentionShape::index(sequences_[s].position + row + 1);
    const auto stride = AttentionShape::index(shape_.kv_heads * shape_.head_dim);
    const auto first = AttentionShape::index(head / shape_.group * shape_.head_dim);
    std::vector<double> scores(tokens);
    for (std::size_t t = 0; t < tokens; ++t) {
      for (std::size_t d = 0; d < result.size(); ++d)
        scores[t] +=
            static_cast<double>(widen(query[d])) * static_cast<double>(widen(keys_[s][t * stride + first + d]));
      scores[t] /= std::sqrt(static_cast<double>(shape_.head_dim));
    }
    const double largest = *std::max_element(scores.begin(), scores.end());
    double total = 0;
    std::fill(result.begin(), result.end(), 0.0);
    for (std::size_t t = 0; t < tokens; ++t) {
      const double weight = std::exp(scores[t] - largest);
      total += weight;
      for (std::size_t d = 0; d < result.size(); ++d)
        result[d] += weight * static_cast<double>(widen(values_[s][t * stride + first + d]));
    }
    for (double& one : result) one /= total;
  }

  AttentionShape shape_;
  std::vector<AttentionSequence> sequences_;
  std::mt19937 random_;
  std::vector<int> first_row_;
  std::vector<std::vector<T>> keys_;   // of each sequence [token][KV head][head_dim]
  std::vector<std::vector<T>> values_; // as `keys_`
  std::vector<T> query_;
};

/// No error and no bank conflict, as `AttentionPage` states.
inline void require_clean(const emulate::Report& report) {
  INFO(report.text());
  REQUIRE(report.ok());
  CHECK(report.conflicts == 0);
}

/// Ragged batches, empty and single-token requests, any group and block size, for one kernel.
template <PagedAttentionConfig config>
void attention_is_softmax() {
  using Kernel = PagedAttention<config>;
  using T = typename Kernel::T;
  unsigned seed = 1;
  for (const int group : {1, 2, 3, 4, 5, 6, 7, 8, 16}) {
    const int block_tokens[] = {16, 5, 1, 64};
    const AttentionCase<T> one({config.head_dim, group < 4 ? 2 : 1, group},
                               {{1, 0}, {0, 9}, {5, 62}, {1, 70}, {0, 0}, {4, 0}}, seed);
    const auto run = one.template run<config>(one.whole(), block_tokens[seed % 4], seed);
    CAPTURE(config.head_dim);
    CAPTURE(config.warps);
    CAPTURE(group);
    require_clean(run.report);
    CHECK(one.error(run, one.whole()) <= attention_error_limit<T>);
    ++seed;
  }
}

/// Rows on both sides of a segment's end, and more than two segments; heads of 64 also reach the longer ones.
template <PagedAttentionConfig config>
void attention_merges_segments() {
  using Kernel = PagedAttention<config>;
  using T = typename Kernel::T;
  constexpr int far = config.head_dim == 64 ? AttentionSegments::long_from + 515 : 1060;
  const AttentionCase<T> one({config.head_dim, 1, 3}, {{6, 509}, {1, 511}, {1, 512}, {2, far}}, 7);
  const auto run = one.template run<config>(one.whole(), 24, 3);
  require_clean(run.report);
  CHECK(one.error(run, one.whole()) <= attention_error_limit<T>);
  struct Way {
    int split_rows, blocks;
  };
  // Folded by one block each; the longest split, others folded; blocks of two segments and more; one block for each
  // row.
  for (const Way way : {Way{0, 1000}, Way{24, 1000}, Way{1000, 8}, Way{1000, 1}}) {
    CAPTURE(way.split_rows);
    CAPTURE(way.blocks);
    const auto folded = one.template run<config>(one.whole(), 24, 4, way.split_rows, way.blocks);
    require_clean(folded.report);
    for (const AttentionChunk& chunk : one.whole()) CHECK(one.same(run, folded, chunk));
  }
}

/// A row's bits are the same in a ragged batch of prompts, in chunks, and decoded alone, in blocks of other sizes at
/// other places.
template <ElementType element, int head_dim>
void attention_rows_are_their_own() {
  constexpr PagedAttentionConfig decoding{.element = element, .head_dim = head_dim, .warps = 1};
  constexpr PagedAttentionConfig prompts{.element = element, .head_dim = head_dim, .warps = 4};
  using T = ElementOf<element>;
  const AttentionCase<T> one({head_dim, 2, 3}, {{1, 515}, {23, 60}, {0, 0}, {5, 509}, {1, 0}}, head_dim);
  const auto whole = one.template run<prompts>(one.whole(), 16, 1);
  require_clean(whole.report);

  for (const unsigned seed : {2U, 3U}) { // another order of blocks and threads
    const auto again = one.template run<prompts>(one.whole(), 16, seed);
    for (const AttentionChunk& chunk : one.whole()) CHECK(one.same(whole, again, chunk));
  }
  for (const AttentionChunk& chunk :
       std::vector<AttentionChunk>{{1, 0, 7}, {1, 7, 1}, {1, 8, 15}, {3, 0, 2}, {3, 2, 3}}) {
    const auto alone = one.template run<prompts>({chunk}, 7, 4);
    require_clean(alone.report);
    CHECK(one.same(whole, alone, chunk));
  }
  std::vector<AttentionChunk> rows; // decoded, a batch of rows in another order
  for (const int row : {4, 0, 3}) rows.push_back({3, row, 1});
  for (int row = 22; row >= 0; row -= 3) rows.push_back({1, row, 1});
  rows.push_back({0, 0, 1});
  const auto decoded = one.template run<decoding>(rows, 64, 5);
  require_clean(decoded.report);
  for (const AttentionChunk& row : rows) CHECK(one.same(whole, decoded, row));
  const auto alone = one.template run<decoding>({{1, 22, 1}}, 1, 6);
  CHECK(one.same(whole, alone, {1, 22, 1}));
}

template <ElementType element, int head_dim>
void attention_holds() {
  constexpr PagedAttentionConfig decoding{.element = element, .head_dim = head_dim, .warps = 1};
  constexpr PagedAttentionConfig prompts{.element = element, .head_dim = head_dim, .warps = 4};
  SUBCASE("decoding equals softmax") { attention_is_softmax<decoding>(); }
  SUBCASE("prompts equal softmax") { attention_is_softmax<prompts>(); }
  SUBCASE("decoding merges segments") { attention_merges_segments<decoding>(); }
  SUBCASE("prompts merge segments") { attention_merges_segments<prompts>(); }
  SUBCASE("a row's result does not depend on other rows") { attention_rows_are_their_own<element, head_dim>(); }
}

/// More segments than a warp has lanes, which MergeSegments takes in turns.
template <ElementType element>
void attention_merges_many_segments() {
  constexpr PagedAttentionConfig config{.element = element, .head_dim = 32, .warps = 1};
  constexpr int far = AttentionSegments::long_from + 27 * AttentionSegments::long_tokens + 5;
  static_assert(AttentionSegments::of(far) > warp_lanes);
  using T = ElementOf<element>;
  const AttentionCase<T> one({config.head_dim, 1, 2}, {{1, far}}, 5);
  const auto split = one.template run<config>(one.whole(), 64, 3);
  require_clean(split.report);
  CHECK(one.error(split, one.whole()) <= attention_error_limit<T>);
  const auto folded = one.template run<config>(one.whole(), 64, 4, 0);
  require_clean(folded.report);
  CHECK(one.same(split, folded, one.whole().front()));
}

/// A page computed and two being fetched, which no listed configuration has.
template <ElementType element, int warps>
void attention_has_three_stages() {
  constexpr PagedAttentionConfig config{.element = element, .head_dim = 64, .warps = warps, .stages = 3};
  attention_is_softmax<config>();
  attention_merges_segments<config>();
}

} // namespace sluice::kernels::test
