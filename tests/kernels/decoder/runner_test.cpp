// SPDX-License-Identifier: Apache-2.0
#include "kernels/decoder/runner_case.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace sluice;
using namespace sluice::kernels;
using namespace sluice::kernels::test;

namespace {

/// A model with contexts of several segments of attention.
ModelWeights with_long_contexts() {
  DecoderConfig config = testing::small_config(SmallModel::llama);
  config.max_positions = AttentionSegments::long_from;
  return random_weights(config, 1, f32);
}

/// Three passes of five tokens each, without waiting for the second: the logits after the third. (The first tells the
/// device what later passes need not upload, so the other two stage the same arrays at the same places: where one
/// overwrites the other, no address becomes another number.)
std::vector<std::uint32_t> after_three_passes(std::uint64_t seed, std::optional<QueueWait> leaves_out) {
  Random random{5};
  RunnerCase<f32> one{testing::small_weights(SmallModel::llama, f32), seed, {.leaves_out = leaves_out}};
  const std::vector<std::int32_t> tokens = random_tokens(random, 16, one.config().shape.vocabulary);
  SequenceKv kv{one.config(), 16, random};
  for (const emulate::Memory& block : kv.memory) std::memset(block.data(), 0, block.size()); // finite, unless written
  for (const int first : {0, 5, 10}) {
    const Part part{&tokens, &kv, first, 5};
    one.launch({&part, 1});
    if (first == 0) one.device().finish();
  }
  one.runner().launch_samples(std::vector<SampleRow>{{4, {}, 0, 15}});
  std::vector<std::uint32_t> seen{static_cast<std::uint32_t>(one.runner().tokens()[0])};
  for (const float logit : one.runner().logits(0)) seen.push_back(std::bit_cast<std::uint32_t>(logit));
  one.device().finish();
  return seen;
}

/// A layer's matrices and biases, each of them in two places or a separate one, with gaps between all of them.
class Apart {
 public:
  Apart(const LayerWeights& whole, ElementType element, Random& random) : weights(whole), bytes_(bytes_of(element)) {
    for (Matrix* matrix : {&weights.query_bias, &weights.key_bias, &weights.value_bias, &weights.query, &weights.key,
                           &weights.value, &weights.output, &weights.router})
      move(*matrix, random);
    for (MlpWeights& mlp : weights.mlps)
      for (Matrix* matrix : {&mlp.gate, &mlp.up, &mlp.down}) move(*matrix, random);
  }
  LayerWeights weights;

 private:
  void move(Matrix& matrix, Random& random) {
    if (matrix.empty()) return;
    Matrix moved = matrix;
    moved.split =
        matrix.rows > 1 ? 1 + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(matrix.rows))) : 1;
    moved.head = copy(matrix, 0, moved.split);
    moved.tail = copy(matrix, moved.split, matrix.rows);
    matrix = moved;
  }
  const std::byte* copy(const Matrix& matrix, std::int64_t first, std::int64_t last) {
    const auto row = static_cast<std::size_t>(matrix.columns * bytes_);
    memory_.emplace_back(std::max<std::size_t>(1, static_cast<std::size_t>(last - first) * row));
    for (std::int64_t i = first; i < last; ++i)
      std::memcpy(memory_.back().data() + static_cast<std::size_t>(i - first) * row, matrix.row(i), row);
    return memory_.back().data();
  }

  std::int64_t bytes_;
  std::vector<emulate::Memory> memory_;
};

} // namespace

#if !defined(SLUICE_ON_CARD) // whose queue counts nothing
TEST_CASE("kernels.decoder: layer arguments go up and tokens come down without a copy engine") {
  Random random{6};
  RunnerCase<f32> one{SmallModel::llama, 3, {.graph_rows = 4}};
  const std::vector<std::int32_t> tokens = random_tokens(random, 16, one.config().shape.vocabulary);
  SequenceKv kv{one.config(), 16, random};
  int first = 0;
  for (const int count : {8, 1, 1, 1}) {
    const Part part{&tokens, &kv, first, count};
    one.launch({&part, 1});
    first += count;
    one.runner().launch_samples(std::vector<SampleRow>{{count - 1, {}, 0, first}});
    CHECK(one.runner().tokens()[0] >= 0);
    CHECK(one.queue().copies() == 0);
  }
  CHECK(one.runner().logits(0).size() == static_cast<std::size_t>(one.config().shape.vocabulary));
  CHECK(one.queue().copies() == 1); // no step waits for it
}
#endif

TEST_CASE("kernels.decoder: separate matrices and biases give the bits of an image") {
  for (const SmallModel model : testing::small_models) {
    if (few && model != SmallModel::mixtral) continue;
    CAPTURE(testing::name_of(model));
    Random random{9};
    RunnerCase<ElementType::bf16> one{model, 1};
    const int count = few ? 3 : 12;
    const std::vector<std::int32_t> tokens = random_tokens(random, count, one.config().shape.vocabulary);
    const auto expected = one.alone(tokens, random);
    std::vector<Apart> layers;
    for (int layer = 0; layer < one.config().shape.layers; ++layer)
      layers.emplace_back(one.whole(layer), ElementType::bf16, random);
    SequenceKv kv{one.config(), count, random};
    const Part part{&tokens, &kv, 0, count};
    one.launch(std::span{&part, 1}, [&](int layer) { return layers[static_cast<std::size_t>(layer)].weights; });
    const int row = count - 1;
    CHECK(one.sample(std::span{&row, 1}).logits[0] == expected.logits.back());
    CHECK(kv.stored(one.config(), count) == expected.stored);
  }
}

TEST_CASE("kernels.decoder: products of several segments give a row the same bits in any batch" *
          doctest::skip(sanitized)) {
  DecoderConfig config = testing::small_config(SmallModel::llama);
  config.shape.hidden = 256;
  config.shape.mlp = 192;
  Random random{31};
  // Segments have blocks of their own, or one block for all; the third has no segments.
  RunnerCase<f32> one{random_weights(config, 1, f32), 1, {.least_segment = 64}},
      folded{random_weights(config, 1, f32), 2, {.least_segment = 64, .sms = 1}},
      whole{random_weights(config, 1, f32), 3};
  const int count = 40; // tiles of 64 rows
  const std::vector<std::int32_t> tokens = random_tokens(random, count, config.shape.vocabulary);
  const auto expected = one.alone(tokens, random);
  CHECK(folded.alone(tokens, random).logits == expected.logits);
  CHECK(whole.alone(tokens, random).logits != expected.logits);
  for (RunnerCase<f32>* by : {&one, &folded}) {
    SequenceKv kv{by->config(), count, random};
    for (int first = 0; first < count;) { // tiles of 16 rows
      const int rows = std::min(count - first, first == 0 ? 25 : 5);
      const Part part{&tokens, &kv, first, rows};
      by->launch({&part, 1});
      const int row = rows - 1;
      first += rows;
      CHECK(by->sample(std::span{&row, 1}).logits[0] == expected.logits[static_cast<std::size_t>(first - 1)]);
    }
    CHECK(kv.stored(by->config(), count) == expected.stored);
  }
}

TEST_CASE("kernels.decoder: long contexts, split and folded, give the bits of any chunks" * doctest::skip(sanitized)) {
  Random random{1};
  // Enough rows for every tile, and enough partial rows to split some of the long rows; the others are folded.
  RunnerCase<f32> one{with_long_contexts(), 1, {.split_rows = 0}}, other{with_long_contexts(), 2, {.split_rows = 200}};
  const std::vector<std::int32_t> tokens = random_tokens(random, 1100, one.config().shape.vocabulary);
  SequenceKv kv{one.config(), 1100, random}, kv_of_other{one.config(), 1100, random};
  const Part all{&tokens, &kv, 0, 1100};
  one.launch({&all, 1});
  const std::vector<int> sampled{20, 510, 511, 512, 700, 1023, 1024, 1098, 1099};
  const Outcome expected = one.sample(sampled);
  const std::vector<std::int32_t> neighbour = random_tokens(random, 600, one.config().shape.vocabulary);
  SequenceKv kv_of_neighbour{one.config(), 600, random};
  int done = 0, beside = 0;
  for (const int upto : {21, 511, 512, 513, 701, 1024, 1025, 1099, 1100}) {
    const int with = upto < 1024 ? 70 : 1;
    const std::vector<Part> parts{{&neighbour, &kv_of_neighbour, beside, with},
                                  {&tokens, &kv_of_other, done, upto - done}};
    other.launch(parts);
    const int row = with + upto - done - 1;
    const auto at = std::find(sampled.begin(), sampled.end(), upto - 1) - sampled.begin();
    CHECK(other.sample(std::span{&row, 1}).logits[0] == expected.logits[static_cast<std::size_t>(at)]);
    done = upto;
    beside += with;
  }
  CHECK(kv_of_other.stored(one.config(), 1100) == kv.stored(one.config(), 1100));
}

TEST_CASE("kernels.decoder: rows computed by a library may depend on the number of rows, and differ little") {
  Random random{10};
  const RunnerWay fast{.products = Products::fast};
  RunnerCase<f32> one{SmallModel::llama, 1, fast}, again{SmallModel::llama, 2, fast}, own{SmallModel::llama, 3};
  const int count = few ? 10 : 24; // more rows than HostLibrary splits sums for
  const std::vector<std::int32_t> tokens = random_tokens(random, count, one.config().shape.vocabulary);
  const auto together = one.alone(tokens, random), expected = own.alone(tokens, random);
  SequenceKv kv{one.config(), count, random};
  bool other_bits = false;
  for (int token = 0; token < count; ++token) {
    const Part part{&tokens, &kv, token, 1};
    again.launch({&part, 1}, random); // layers in two places, too
    const int row = 0;
    const auto at = static_cast<std::size_t>(token);
    const std::vector<std::uint32_t> bits = again.sample(std::span{&row, 1}).logits[0];
    other_bits = other_bits || bits != together.logits[at];
    const std::vector<float> alone = numbers(bits), of_many = numbers(together.logits[at]),
                             by_tiles = numbers(expected.logits[at]);
    for (std::size_t i = 0; i < alone.size(); ++i) {
      CHECK(alone[i] == doctest::Approx(by_tiles[i]).epsilon(1e-4));
      CHECK(of_many[i] == doctest::Approx(by_tiles[i]).epsilon(1e-4));
    }
  }
  CHECK((other_bits || on_card));
}

TEST_CASE("kernels.decoder: exactly the rows with a logit that is not finite get no token") {
  ModelWeights weights = testing::small_weights(SmallModel::llama, f32);
  std::vector<float> head(static_cast<std::size_t>(weights.head.rows * weights.head.columns));
  std::memcpy(head.data(), weights.head.row(0), head.size() * sizeof(float));
  head[0] = 3e38F; // multiplied by a first number above 1.13, or below -1.13, it overflows
  weights.head =
      Matrix::whole(reinterpret_cast<const std::byte*>(head.data()), weights.head.rows, weights.head.columns, f32);
  RunnerCase<f32> one{weights, 1};
  Random random{6};
  const int count = few ? 6 : 24;
  const std::vector<std::int32_t> tokens = random_tokens(random, count, one.config().shape.vocabulary);
  SequenceKv kv{one.config(), count, random};
  const Part part{&tokens, &kv, 0, count};
  one.launch({&part, 1});
  std::vector<int> rows;
  for (int row = 0; row < count; ++row) rows.push_back(row);
  const Outcome outcome = one.sample(rows);
  int refused = 0;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const std::vector<float> logits = numbers(outcome.logits[row]);
    const bool finite = std::all_of(logits.begin(), logits.end(), [](float logit) { return std::isfinite(logit); });
    CHECK(outcome.tokens[row] == (finite ? greedy_token(logits) : -1));
    refused += finite ? 0 : 1;
  }
  CHECK(refused > 0);
  CHECK(refused < count);
}

// Under ThreadSanitizer each omitted wait is a race, and would be reported as one.
TEST_CASE("kernels.decoder: each omitted wait of the runner gives wrong results" * doctest::skip(few)) {
  const std::vector<std::uint32_t> expected = after_three_passes(1, {});
  for (std::uint64_t seed = 2; seed < 5; ++seed) {
    CHECK(after_three_passes(seed, {}) == expected);
    CHECK(after_three_passes(seed, QueueWait::reuse) != expected);
    CHECK(after_three_passes(seed, QueueWait::results) != expected);
  }
}

TEST_CASE("kernels.decoder: iterations without sampled rows and iterations without rows change nothing") {
  RunnerCase<f32> one{SmallModel::llama, 1};
  Random random{7};
  const std::vector<std::int32_t> tokens = random_tokens(random, 3, one.config().shape.vocabulary);
  const auto expected = one.alone(tokens, random);
  SequenceKv kv{one.config(), 3, random};
  for (int token = 0; token < 3; ++token) {
    const Part part{&tokens, &kv, token, 1};
    one.launch({&part, 1});
    if (token == 0) {
      one.runner().launch_samples({}); // of a chunk; the next iteration does not even request samples
      CHECK(one.runner().tokens().empty());
    }
    if (token == 1) {
      one.launch({});
      one.runner().launch_samples({});
    }
  }
  const int row = 0;
  CHECK(one.sample(std::span{&row, 1}).logits[0] == expected.logits[2]);
}

TEST_CASE("kernels.decoder: more rows or samples never take less memory") {
  using Runner = SmallRunner<ElementType::bf16>;
  for (const SmallModel model : testing::small_models) {
    for (const int positions : {100, 100000}) {
      DecoderConfig config = testing::small_config(model);
      config.max_positions = positions;
      const auto bytes = [&](int rows, int samples) { return Runner::workspace(config, {}, rows, samples).count(); };
      for (int i = 0; i < 70; ++i) {
        CHECK(bytes(i, 3) <= bytes(i + 1, 3));
        CHECK(bytes(7, i) <= bytes(7, i + 1));
      }
      CHECK(bytes(0, 0) < bytes(8, 2));
    }
  }
}
