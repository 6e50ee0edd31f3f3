// SPDX-License-Identifier: Apache-2.0
#include "kernels/rows/rope_and_store.hpp"
#include "row_data.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

using namespace sluice;
using namespace sluice::kernels;

namespace {

struct Sizes {
  int heads, kv_heads, block_tokens;
};
struct Features {
  bool rotates = true, scaled = false, biased = false, normed = false, twice = false;
};

/// Sequences with blocks, and rows of some of their tokens.
template <RopeAndStoreConfig config>
struct World {
  using K = RopeAndStore<config>;
  using T = typename K::T;
  static constexpr std::size_t dim = static_cast<std::size_t>(config.head_dim);
  Sizes sizes;
  Features has;
  DecoderConfig decoder;
  std::vector<int> positions, sequences, stored_from, first_block;
  std::vector<double> turns;
  std::vector<T> qkv, bias, query_norm, key_norm;
  std::size_t blocks = 0;

  World(Random& random, Sizes sizes_, Features has_, const std::vector<int>& lengths)
      : sizes(sizes_), has(has_), blocks(0) {
    decoder.shape.head_dim = config.head_dim;
    decoder.rope_theta = 500000;
    if (has.scaled) decoder.rope_scaling = {8, 1, 4, 8192};
    if (!has.rotates) decoder.position = PositionKind::learned;
    turns = rope_turns(decoder);
    for (std::size_t s = 0; s < lengths.size(); ++s) {
      first_block.push_back(static_cast<int>(blocks));
      blocks += static_cast<std::size_t>(pieces(lengths[s], sizes.block_tokens));
      const int first = static_cast<int>(random.below(static_cast<std::uint64_t>(lengths[s])));
      stored_from.push_back(static_cast<int>(random.below(static_cast<std::uint64_t>(lengths[s]) + 1)));
      for (int position = std::max(first, lengths[s] - 6); position < lengths[s]; ++position) {
        positions.push_back(position);
        sequences.push_back(static_cast<int>(s));
      }
    }
    positions.push_back(3); // a row that is not stored
    sequences.push_back(-1);
    qkv = normal_numbers<T>(random, positions.size() * row_size());
    bias = normal_numbers<T>(random, row_size());
    query_norm = normal_numbers<T>(random, dim, 0.3, 1);
    key_norm = normal_numbers<T>(random, dim, 0.3, 1);
  }
  [[nodiscard]] std::size_t row_size() const {
    return static_cast<std::size_t>(sizes.heads + 2 * sizes.kv_heads) * dim;
  }
  [[nodiscard]] std::size_t query_size() const { return static_cast<std::size_t>(sizes.heads) * dim; }
  [[nodiscard]] std::size_t block_size() const {
    return static_cast<std::size_t>(2 * sizes.kv_heads * sizes.block_tokens) * dim;
  }
  [[nodiscard]] bool stored(std::size_t row) const {
    return sequences[row] >= 0 && positions[row] >= stored_from[static_cast<std::size_t>(sequences[row])];
  }

  /// One head of a row, by definition.
  [[nodiscard]] std::vector<double> head(std::size_t row, int head) const {
    std::vector<double> x(dim);
    const auto at = static_cast<std::size_t>(head) * dim;
    for (std::size_t i = 0; i < dim; ++i)
      x[i] = exact(qkv[row * row_size() + at + i]) + (has.biased ? exact(bias[at + i]) : 0);
    const bool is_query = head < sizes.heads;
    if (head >= sizes.heads + sizes.kv_heads) return x;
    if (has.normed) {
      double squares = 0;
      for (const double one : x) squares += one * one;
      const double root = std::sqrt(squares / config.head_dim + 1e-6F);
      for (std::size_t i = 0; i < dim; ++i) x[i] = x[i] / root * exact(is_query ? query_norm[i] : key_norm[i]);
    }
    if (!has.rotates) return x;
    for (std::size_t i = 0; i < dim / 2; ++i) {
      const auto angle = static_cast<long double>(positions[row]) * rotary_frequency(decoder, static_cast<int>(i));
      const auto cosine = static_cast<double>(std::cos(angle)), sine = static_cast<double>(std::sin(angle));
      const double low = x[i], high = x[dim / 2 + i];
      x[i] = low * cosine - high * sine;
      x[dim / 2 + i] = high * cosine + low * sine;
    }
    return x;
  }
};

/// The memory that a launch writes.
template <class World>
struct Written {
  using T = typename World::T;
  std::vector<T> query;
  std::vector<std::vector<T>> blocks, also;
  std::vector<void*> table, second;

  explicit Written(const World& world) : query(no_numbers<T>(world.positions.size() * (world.query_size() + 8))) {
    for (std::size_t b = 0; b < world.blocks; ++b) {
      blocks.push_back(no_numbers<T>(world.block_size()));
      also.push_back(no_numbers<T>(world.block_size()));
    }
    for (std::size_t b = 0; b < world.blocks; ++b) {
      table.push_back(blocks[b].data());
      second.push_back(b % 3 == 2 ? nullptr : also[b].data());
    }
  }
  RopeAndStoreParams params(const World& world) {
    RopeAndStoreParams params;
    params.qkv = world.qkv.data();
    if (world.has.biased) params.qkv_bias = world.bias.data();
    if (world.has.normed) params.query_norm = world.query_norm.data();
    if (world.has.normed) params.key_norm = world.key_norm.data();
    if (world.has.rotates) params.turns = world.turns.data();
    params.positions = world.positions.data();
    params.sequences = world.sequences.data();
    params.stored_from = world.stored_from.data();
    params.first_block = world.first_block.data();
    params.blocks = table.data();
    if (world.has.twice) params.also = second.data();
    params.query = query.data();
    params.query_stride = static_cast<std::int64_t>(world.query_size()) + 8;
    params.rows = static_cast<int>(world.positions.size());
    params.query_rows = params.rows;
    params.heads = world.sizes.heads;
    params.kv_heads = world.sizes.kv_heads;
    params.block_tokens = world.sizes.block_tokens;
    params.epsilon = 1e-6F;
    return params;
  }
};

template <class World>
void check_all(const World& world, const Written<World>& written, int query_rows) {
  using T = typename World::T;
  constexpr std::size_t dim = World::dim;
  const auto [heads, kv_heads, block_tokens] = world.sizes;
  std::vector<T> got;
  std::vector<double> expected;
  std::vector<std::vector<T>> untouched = written.blocks; // where no row is stored
  for (std::size_t row = 0; row < world.positions.size(); ++row) {
    const T* const query = written.query.data() + row * (world.query_size() + 8);
    for (int head = 0; head < heads && static_cast<int>(row) < query_rows; ++head) {
      const std::vector<double> exactly = world.head(row, head);
      expected.insert(expected.end(), exactly.begin(), exactly.end());
      got.insert(got.end(), query + static_cast<std::size_t>(head) * dim,
                 query + (static_cast<std::size_t>(head) + 1) * dim);
    }
    const std::vector<T> none = no_numbers<T>(world.query_size() + 8);
    if (static_cast<int>(row) >= query_rows) {
      CHECK(
          same_bits(std::span<const T>{query, world.query_size()}, std::span<const T>{none}.first(world.query_size())));
    }
    CHECK(same_bits(std::span<const T>{query + world.query_size(), 8}, std::span<const T>{none}.first(8)));
    if (!world.stored(row)) continue;
    const auto block = static_cast<std::size_t>(world.first_block[static_cast<std::size_t>(world.sequences[row])] +
                                                world.positions[row] / block_tokens);
    for (int head = 0; head < 2 * kv_heads; ++head) {
      const std::vector<double> exactly = world.head(row, heads + head);
      const std::size_t at = static_cast<std::size_t>(head * block_tokens + world.positions[row] % block_tokens) * dim;
      expected.insert(expected.end(), exactly.begin(), exactly.end());
      const auto from = written.blocks[block].begin() + static_cast<std::ptrdiff_t>(at);
      got.insert(got.end(), from, from + static_cast<std::ptrdiff_t>(dim));
      std::copy_n(no_numbers<T>(dim).begin(), dim, untouched[block].begin() + static_cast<std::ptrdiff_t>(at));
    }
  }
  CHECK(relative_error(got, expected) <= error_limit<T>);
  const std::vector<T> none = no_numbers<T>(world.block_size());
  for (std::size_t b = 0; b < world.blocks; ++b) {
    CHECK(same_bits(untouched[b], none));
    CHECK(same_bits(written.also[b], world.has.twice && b % 3 != 2 ? written.blocks[b] : none));
  }
}

template <RopeAndStoreConfig config>
void agrees() {
  using K = RopeAndStore<config>;
  CAPTURE(config.head_dim);
  Random random(7);
  const Sizes sizes[] = {{4, 2, 16}, {1, 1, 1}, {5, 5, 7}, {24, 3, 4}};
  const Features features[] = {
      {}, {true, true, true, false, true}, {true, false, false, true, false}, {false, false, true, false, true}};
  std::uint64_t seed = 1;
  for (std::size_t i = 0; i < 4; ++i) {
    CAPTURE(i);
    const World<config> world(random, sizes[i], features[(i + config.head_dim / 16) % 4], {1, 17, 40, 3});
    Written<World<config>> written(world);
    RopeAndStoreParams params = written.params(world);
    params.query_rows = params.rows - static_cast<int>(i);
    run_emulated<K>(params, seed++);
    check_all(world, written, params.query_rows);
  }
}

template <ElementType element>
void agrees_all() {
  agrees<RopeAndStoreConfig{element, 64}>();
  agrees<RopeAndStoreConfig{element, 80}>();
  agrees<RopeAndStoreConfig{element, 96}>();
  agrees<RopeAndStoreConfig{element, 128}>();
  agrees<RopeAndStoreConfig{element, 192}>();
  agrees<RopeAndStoreConfig{element, 256}>();
}

/// Row by row or all at once.
template <RopeAndStoreConfig config>
void keeps_bits() {
  CAPTURE(config.head_dim);
  using K = RopeAndStore<config>;
  Random random(9);
  const World<config> world(random, {6, 2, 5}, {true, true, true, true, true}, {9, 33});
  Written<World<config>> together(world), apart(world);
  run_emulated<K>(together.params(world), 1);
  const RopeAndStoreParams all = apart.params(world);
  for (int row = all.rows - 1; row >= 0; --row) {
    RopeAndStoreParams one = all;
    one.qkv = world.qkv.data() + static_cast<std::size_t>(row) * world.row_size();
    one.positions += row;
    one.sequences += row;
    one.query = apart.query.data() + row * all.query_stride;
    one.rows = one.query_rows = 1;
    run_emulated<K>(one, 2);
  }
  CHECK(same_bits(together.query, apart.query));
  for (std::size_t b = 0; b < world.blocks; ++b) CHECK(same_bits(together.blocks[b], apart.blocks[b]));
}

template <ElementType element>
void keeps_bits_all() {
  keeps_bits<RopeAndStoreConfig{element, 64}>();
  keeps_bits<RopeAndStoreConfig{element, 80}>();
  keeps_bits<RopeAndStoreConfig{element, 96}>();
  keeps_bits<RopeAndStoreConfig{element, 128}>();
  keeps_bits<RopeAndStoreConfig{element, 256}>();
}

} // namespace

TEST_CASE("kernels.rope_and_store agrees with double precision, and leaves earlier K and V unchanged") {
  SUBCASE("f32") { agrees_all<ElementType::f32>(); }
  SUBCASE("f16") { agrees_all<ElementType::f16>(); }
  SUBCASE("bf16") { agrees_all<ElementType::bf16>(); }
}

TEST_CASE("kernels.rope_and_store at position 10^6") {
  constexpr RopeAndStoreConfig config{ElementType::f32, 128};
  Random random(8);
  for (const bool scaled : {false, true}) {
    World<config> world(random, {2, 1, 1}, {true, scaled, false, false, false}, {1, 1, 1, 1, 1, 1, 1, 1});
    for (std::size_t row = 0; row < world.positions.size(); ++row) {
      world.positions[row] = 1'000'000 - static_cast<int>(random.below(1000));
      world.sequences[row] = -1; // no blocks for so many tokens
    }
    Written<World<config>> written(world);
    run_emulated<RopeAndStore<config>>(written.params(world), 1);
    check_all(world, written, static_cast<int>(world.positions.size()));
  }
}

TEST_CASE("kernels.rope_and_store: a row's bits do not depend on other rows, row by row or all at once") {
  SUBCASE("f32") { keeps_bits_all<ElementType::f32>(); }
  SUBCASE("f16") { keeps_bits_all<ElementType::f16>(); }
  SUBCASE("bf16") { keeps_bits_all<ElementType::bf16>(); }
}
