// SPDX-License-Identifier: Apache-2.0
// AttentionPlan: every row meets every segment that it sees once; and Divisor divides.
#include "kernels/attention/attention_plan.hpp"
#include "kernels/device.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <tuple>

using namespace sluice::kernels;

namespace {

/// How often each (row of the activations, head of the group, segment) is computed, and into which partial row.
void plan_covers(const std::vector<AttentionRows>& sequences, int group, int tile_rows, int split_rows,
                 int blocks = std::numeric_limits<int>::max()) {
  CAPTURE(group);
  CAPTURE(tile_rows);
  CAPTURE(split_rows);
  CAPTURE(blocks);
  const AttentionPlan plan = plan_attention(sequences, group, tile_rows, split_rows, blocks);
  std::map<std::tuple<int, int, int>, int> partials; // -1: none
  std::set<int> taken;
  std::set<std::pair<int, int>> folded;
  for (const AttentionTile& tile : plan.tiles) {
    CHECK(tile.rows >= 1);
    CHECK(tile.rows <= tile_rows);
    CHECK(tile.first_head < group);
    const AttentionRows& sequence = sequences[static_cast<std::size_t>(tile.sequence)];
    CHECK(tile.position - sequence.position == tile.first_row - sequence.first_row);
    const int of_last = AttentionSegments::of(tile.position + (tile.first_head + tile.rows - 1) / group) + 1;
    const bool folds = tile.segment == 0 && tile.segments >= of_last;
    CHECK(tile.segment + tile.segments <= of_last);
    for (int i = 0; i < tile.rows; ++i) {
      const int token = (tile.first_head + i) / group;
      const int segments = AttentionSegments::of(tile.position + token) + 1;
      CHECK(tile.first_row + token < sequence.first_row + sequence.rows);
      for (int s = tile.segment; s < std::min(segments, tile.segment + tile.segments); ++s) {
        const int partial = segments > 1 && !folds ? tile.partial + (s - tile.segment) * tile.rows + i : -1;
        CHECK(partials.emplace(std::tuple{tile.first_row + token, (tile.first_head + i) % group, s}, partial).second);
        if (segments == 1 || folds) continue;
        CHECK(partial >= 0);
        CHECK(partial < plan.partial_rows);
        CHECK(taken.insert(partial).second);
      }
      if (segments == 1 || !folds) continue;
      CHECK(folded.emplace(tile.first_row + token, (tile.first_head + i) % group).second);
      CHECK(tile.partial + i < plan.partial_rows);
      CHECK(taken.insert(tile.partial + i).second);
    }
  }
  // Blocks begin in order, the longest first: by segments as long as no row is split, otherwise by tokens.
  const auto length = [&](const AttentionTile& tile) {
    if (plan.merged.empty()) return tile.segments;
    const int last = tile.position + (tile.first_head + tile.rows - 1) / group;
    const int end = std::min(last + 1, AttentionSegments::begin(tile.segment + tile.segments));
    return std::min(63, pieces(end - AttentionSegments::begin(tile.segment), AttentionSegments::short_tokens));
  };
  CHECK(std::is_sorted(plan.tiles.begin(), plan.tiles.end(),
                       [&](const AttentionTile& a, const AttentionTile& b) { return length(a) > length(b); }));
  std::set<std::pair<int, int>> merged;
  for (const AttentionTile& tile : plan.merged) {
    for (int i = 0; i < tile.rows; ++i) {
      const int token = (tile.first_head + i) / group;
      const int row = tile.first_row + token;
      const int head = (tile.first_head + i) % group;
      const int segments = AttentionSegments::of(tile.position + token) + 1;
      if (segments == 1) continue;
      merged.emplace(row, head);
      for (int s = 0; s < segments; ++s) CHECK(partials.at({row, head, s}) == tile.partial + s * tile.rows + i);
    }
  }
  std::size_t rows = 0;
  std::size_t several = 0;
  std::size_t wanted = 0;
  for (const AttentionRows& sequence : sequences) {
    for (int t = sequence.position; t < sequence.position + sequence.rows; ++t) {
      const int segments = AttentionSegments::of(t) + 1;
      wanted += static_cast<std::size_t>(group * segments);
      several += static_cast<std::size_t>(segments > 1 ? group : 0);
      ++rows;
    }
  }
  CHECK(partials.size() == wanted);
  CHECK(merged.size() + folded.size() == several);
  for (const auto& row : folded) CHECK(!merged.contains(row));
  CHECK(plan.partial_rows <= split_rows + static_cast<int>(rows) * group);
  CHECK(plan.partial_bytes(8, 128) == std::int64_t{plan.partial_rows} * 8 * 130 * 4);
  if (rows == 0) CHECK(plan.tiles.empty());
}

} // namespace

TEST_CASE("a plan covers every row's segments once, and merges the rows that have several") {
  std::mt19937 random(3);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (const int group : {1, 3, 4, 7, 16}) {
    for (const int tile_rows : {16, 64}) {
      std::vector<AttentionRows> sequences;
      int row = 0;
      for (int s = 0; s < 5; ++s) {
        const int rows = below(3) == 0 ? 0 : 1 + below(60);
        sequences.push_back({row, rows, below(2) == 0 ? below(20) : 200 + below(3000)});
        row += rows + below(3);
      }
      for (const int split_rows : {0, 100, attention_split_rows})
        for (const int blocks : {1, 7, 40, std::numeric_limits<int>::max()})
          plan_covers(sequences, group, tile_rows, split_rows, blocks);
    }
  }
  plan_covers({}, 4, 16, 0);
  plan_covers({{0, 0, 9}}, 4, 16, 0);
  plan_covers({{5, 2, 511}}, 5, 16, 0);
  plan_covers({{5, 2, 511}}, 5, 16, 100);
}

TEST_CASE("a long prompt takes one partial row for each of its rows, and only a long context is split") {
  const AttentionPlan prompt = plan_attention(std::vector<AttentionRows>{{0, 32768, 0}}, 4, 64, 0);
  CHECK(prompt.merged.empty());
  CHECK(prompt.partial_rows == (32768 - AttentionSegments::short_tokens) * 4);
  const AttentionPlan decoding = plan_attention(std::vector<AttentionRows>{{0, 1, 9}, {1, 1, 131071}}, 4, 16);
  CHECK(decoding.merged.size() == 1);
  CHECK(decoding.tiles.size() == 1 + 8 + 252);
  CHECK(decoding.tiles.back().position == 9); // the longest first
}

TEST_CASE("segments begin at positions that do not depend on a batch, and hold every position once") {
  CHECK(AttentionSegments::begin(0) == 0);
  int segment = 0;
  for (int position = 0; position < 20000; ++position) {
    if (position == AttentionSegments::begin(segment + 1)) ++segment;
    REQUIRE(AttentionSegments::of(position) == segment);
  }
}

TEST_CASE("attention's blocks fill an H100 at 8 x 1k, and are no more than it needs in larger batches") {
  constexpr int kv_heads = 8, sms = 132, blocks = 12 * sms / kv_heads; // Llama-3-8B's, as KernelRunner asks
  const auto decode = [&](int requests, int tokens) {
    std::vector<AttentionRows> rows;
    for (int i = 0; i < requests; ++i) rows.push_back({i, 1, tokens - 1});
    return plan_attention(rows, 4, 16, attention_split_rows, blocks);
  };
  CHECK(decode(8, 1024).tiles.size() * kv_heads == 256);
  CHECK(decode(8, 4096).tiles.size() * kv_heads == 768);
  CHECK(decode(32, 4096).tiles.size() * kv_heads == 3072);
  CHECK(decode(64, 8192).tiles.size() * kv_heads == 2048); // of five segments each
  const AttentionPlan many = decode(512, 1024); // a block for all of a row: no partial results are left to merge
  CHECK(many.merged.empty());
  CHECK(many.partial_rows == 512 * 4);
}

TEST_CASE("Divisor divides as int does") {
  constexpr int most = std::numeric_limits<int>::max();
  static_assert(Divisor{7}.quotient(48) == 6);
  std::mt19937 random(4);
  for (int by : {1, 2, 3, 5, 7, 16, 24, 64, 641, 1000003, 1 << 30, most - 1, most}) {
    const Divisor divisor{by};
    CHECK(divisor.value() == by);
    for (const int of : {0, 1, by - 1, by, most - 1, most}) CHECK(divisor.quotient(of) == of / by);
    for (int i = 0; i < 1000; ++i) {
      const int of = static_cast<int>(random() >> 1U);
      const int near = of / by * by; // a multiple, and the number below
      REQUIRE(divisor.quotient(of) == of / by);
      REQUIRE(divisor.quotient(near) == near / by);
      if (near > 0) REQUIRE(divisor.quotient(near - 1) == (near - 1) / by);
    }
  }
}
