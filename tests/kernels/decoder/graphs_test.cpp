// SPDX-License-Identifier: Apache-2.0
// KernelRunner's graphs: replayed layers give the bits of launched layers, whatever has changed since.
#include "kernels/decoder/runner_case.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

using namespace sluice;
using namespace sluice::kernels;
using namespace sluice::kernels::test;

namespace {

/// Moves a sequence: its K and V go to other blocks, and the old ones become NaN.
void move_blocks(SequenceKv& kv, Random& random) {
  const auto bytes = kv.memory.front().size();
  for (auto& layer : kv.layers) {
    for (std::byte*& block : layer) {
      if (random.below(3) > 0) continue;
      std::byte* const to = kv.add(bytes);
      std::memcpy(to, block, bytes);
      std::memset(block, 0xff, bytes);
      block = to;
    }
  }
}

/// Sequences that decode together, some of them only now and then, between passes of prompts: every row has the bits
/// that it has without graphs.
template <ElementType element>
void replayed(SmallModel model, Products products, std::uint64_t seed) {
  CAPTURE(testing::name_of(model));
  Random random{seed};
  RunnerCase<element> one{model, seed, {.products = products}};
  RunnerCase<element> other{model, seed + 100, {.products = products, .graph_rows = 16}};
  const bool fast = products == Products::fast;
  const std::size_t sequences = few ? 2 : fast ? 8 : 7; // a library's bits may depend on the rows added by rounding up
  std::vector<std::vector<std::int32_t>> tokens;
  std::vector<SequenceKv> kv, kv_of_other;
  std::vector<int> done(sequences, 0);
  for (std::size_t s = 0; s < sequences; ++s) {
    tokens.push_back(random_tokens(random, 40, one.config().shape.vocabulary));
    kv.emplace_back(one.config(), 40, random);
    kv_of_other.emplace_back(one.config(), 40, random);
  }
  const int steps = few ? 3 : sanitized ? 6 : 14;
  for (int step = 0; step < steps; ++step) {
    std::vector<Part> parts, parts_of_other;
    std::vector<int> rows;
    int row = 0;
    for (std::size_t s = 0; s < sequences; ++s) {
      const bool prompts = !few && step % 7 == 0; // more rows than a graph has
      if (!prompts && !fast && s > 4 && random.below(4) == 0) continue;
      const int count = prompts ? 3 : 1;
      parts.push_back({&tokens[s], &kv[s], done[s], count});
      parts_of_other.push_back({&tokens[s], &kv_of_other[s], done[s], count});
      done[s] += count;
      row += count;
      rows.push_back(row - 1);
    }
    one.launch(parts);
    other.launch(parts_of_other);
    const Outcome expected = one.sample(rows), found = other.sample(rows);
    CHECK(found.logits == expected.logits);
    CHECK(found.tokens == expected.tokens);
    for (SequenceKv& some : kv_of_other) move_blocks(some, random);
  }
  for (std::size_t s = 0; s < sequences; ++s)
    CHECK(kv_of_other[s].stored(one.config(), done[s]) == kv[s].stored(one.config(), done[s]));
  CHECK(one.graphs().made == 0);
  CHECK(other.graphs().made > 0);
  CHECK(other.graphs().replayed > other.graphs().launched);
}

} // namespace

TEST_CASE("kernels.decoder: replayed layers have the bits of launched layers") {
  for (const SmallModel model : testing::small_models) {
    if (sanitized && model != SmallModel::opt && model != SmallModel::mixtral) continue;
    if (few && model != SmallModel::mixtral) continue;
    replayed<f32>(model, Products::invariant, 21);
#if !defined(SLUICE_ON_CARD) // for cuBLASLt it is unknown whether rows added by a graph change other rows' bits
    if constexpr (!sanitized) replayed<ElementType::bf16>(model, Products::fast, 22);
#endif
  }
}

TEST_CASE("kernels.decoder: contexts that grow beyond a segment's end use other tiles, and other graphs" *
          doctest::skip(sanitized)) {
  Random random{23};
  DecoderConfig config = testing::small_config(SmallModel::llama);
  config.max_positions = AttentionSegments::long_from;
  const ModelWeights weights = random_weights(config, 1, f32);
  RunnerCase<f32> one{weights, 1}, other{weights, 2, {.graph_rows = 16}};
  constexpr int prompt = AttentionSegments::begin(2) - 4, upto = prompt + 10;
  const std::vector<std::int32_t> tokens = random_tokens(random, upto, config.shape.vocabulary);
  const std::vector<std::int32_t> neighbour = random_tokens(random, 10, config.shape.vocabulary);
  SequenceKv kv{one.config(), upto, random}, kv_of_other{one.config(), upto, random};
  using Neighbours = std::array<SequenceKv, 2>;
  const auto two = [&] {
    return Neighbours{SequenceKv{one.config(), 10, random}, SequenceKv{one.config(), 10, random}};
  };
  Neighbours beside = two(), beside_of_other = two();
  const auto pass = [&](RunnerCase<f32>& by, SequenceKv& of_long, Neighbours& of_short, int first, int count, int at) {
    std::vector<Part> parts{{&tokens, &of_long, first, count}};
    if (at >= 0)
      for (SequenceKv& some : of_short) parts.push_back({&neighbour, &some, at, 1});
    by.launch(parts);
    const int row = count - 1;
    return by.sample(std::span{&row, 1}).logits[0];
  };
  CHECK(pass(one, kv, beside, 0, prompt, -1) == pass(other, kv_of_other, beside_of_other, 0, prompt, -1));
  for (int i = 0; i < 10; ++i) {
    const std::vector<std::uint32_t> expected = pass(one, kv, beside, prompt + i, 1, i);
    CHECK(pass(other, kv_of_other, beside_of_other, prompt + i, 1, i) == expected);
  }
  CHECK(other.graphs().made == 2 * config.shape.layers + 1); // of 4 tiles; and of 5, which are 8; and of samples
  CHECK(other.graphs().replayed == 8 * config.shape.layers + 9);
}

TEST_CASE("kernels.decoder: weights that alternate between two slots give two graphs of a layer" * doctest::skip(few)) {
  Random random{24};
  RunnerCase<f32> one{SmallModel::llama, 1}, other{SmallModel::llama, 2, {.graph_rows = 8}};
  const int layers = one.config().shape.layers, steps = sanitized ? 8 : 16;
  const std::vector<std::int32_t> tokens = random_tokens(random, steps, one.config().shape.vocabulary);
  SequenceKv kv{one.config(), steps, random}, kv_of_other{one.config(), steps, random};
  std::array<std::vector<CutLayer>, 2> slots;
  for (auto& slot : slots)
    for (int layer = 0; layer < layers; ++layer) slot.push_back(one.copied(layer, random.uniform()));
  for (int step = 0; step < steps; ++step) {
    const Part part{&tokens, &kv, step, 1}, part_of_other{&tokens, &kv_of_other, step, 1};
    one.launch({&part, 1});
    other.launch(std::span{&part_of_other, 1}, [&](int layer) {
      return slots[static_cast<std::size_t>(step % 2)][static_cast<std::size_t>(layer)].weights;
    });
    const int row = 0;
    CHECK(other.sample(std::span{&row, 1}).logits == one.sample(std::span{&row, 1}).logits);
  }
  CHECK(other.graphs().made == 2 * layers + 1); // and of the samples, which are the same in all steps
  CHECK(other.graphs().replayed == (steps - 2) * layers + steps - 1);
}

TEST_CASE("kernels.decoder: iterations of nearly as many rows take the same memory, and more rows never less") {
  const KernelRunnerLimits limits{.graph_rows = 40};
  std::int64_t before = 0;
  for (int rows = 0; rows < 60; ++rows) {
    const std::int64_t padded = limits.padded(rows);
    CHECK(padded >= std::max<std::int64_t>(before, rows));
    CHECK(padded - rows < 16);
    CHECK(limits.padded(padded) == padded);
    before = padded;
    const auto bytes = [&](int some) {
      return RunnerRoom{testing::small_config(SmallModel::llama), 2, limits, some, 2}.bytes;
    };
    CHECK(bytes(rows) <= bytes(rows + 1));
    CHECK(bytes(rows) == bytes(static_cast<int>(padded)));
  }
  CHECK(limits.padded(5) == 8);
  CHECK(limits.padded(33) == 40);
  CHECK(limits.padded(41) == 41);
  CHECK(KernelRunnerLimits{}.padded(5) == 5);
}
