// SPDX-License-Identifier: Apache-2.0
// KernelRunner against the CPU decoder, which computes in f32 with the same weights.
#include "sluice/model/decoder/eigen/make_decoder.hpp"

#include "kernels/decoder/runner_case.hpp"

#include <cmath>

using namespace sluice;
using namespace sluice::kernels;
using namespace sluice::kernels::test;

namespace {

/// The CPU's logits after each of `tokens`.
std::vector<std::vector<float>> reference(const ModelWeights& weights, const std::vector<std::int32_t>& tokens) {
  DecoderConfig of_floats = weights.config;
  of_floats.shape.kv_element_bytes = 4;
  const auto decoder = make_decoder(weights, Tokens{block_tokens}, 1);
  REQUIRE(decoder != nullptr);
  Random random{1};
  const int count = static_cast<int>(tokens.size());
  const SequenceKv kv{of_floats, count, random};
  std::vector<std::int32_t> positions;
  std::vector<int> rows;
  for (int i = 0; i < count; ++i) {
    positions.push_back(i);
    rows.push_back(i);
  }
  decoder->begin(tokens, positions);
  for (int layer = 0; layer < weights.config.shape.layers; ++layer) {
    const CutLayer whole{weights, layer, 0};
    const SequenceRows sequence{0, count, 0, kv.layers[static_cast<std::size_t>(layer)].data(), 0};
    decoder->layer(layer, whole.weights, {&sequence, 1}, count, 0);
  }
  const auto vocabulary = static_cast<std::size_t>(weights.config.shape.vocabulary);
  std::vector<float> logits(tokens.size() * vocabulary);
  decoder->logits(rows, logits);
  std::vector<std::vector<float>> found;
  for (std::size_t i = 0; i < tokens.size(); ++i)
    found.emplace_back(logits.begin() + static_cast<std::ptrdiff_t>(i * vocabulary),
                       logits.begin() + static_cast<std::ptrdiff_t>((i + 1) * vocabulary));
  return found;
}

/// |a - b| / |b|.
double error(const std::vector<float>& a, const std::vector<float>& b) {
  double off = 0, all = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    off += difference * difference;
    all += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  return std::sqrt(off / all);
}

/// The largest error of a row.
template <ElementType element>
double farthest(SmallModel model, Products products = Products::invariant) {
  CAPTURE(testing::name_of(model));
  Random random{8};
  const ModelWeights weights = testing::small_weights(model, element, 11);
  const std::vector<std::int32_t> tokens = random_tokens(random, few ? 3 : 40, weights.config.shape.vocabulary);
  RunnerCase<element> one{weights, 3, {.products = products}};
  const auto found = one.alone(tokens, random);
  const auto expected = reference(weights, tokens);
  double most = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) most = std::max(most, error(numbers(found.logits[i]), expected[i]));
  return most;
}

} // namespace

TEST_CASE("kernels.decoder: logits equal the CPU decoder's up to the element's rounding") {
  for (const SmallModel model : testing::small_models) {
    CAPTURE(testing::name_of(model));
    CHECK(farthest<ElementType::f32>(model) < 1e-5);
    CHECK(farthest<ElementType::f32>(model, Products::fast) < 1e-5);
    if (few) continue;
    CHECK(farthest<ElementType::f16>(model) < 5e-3);  // some ten roundings of 2^-12 at most, of sums that partly cancel
    CHECK(farthest<ElementType::bf16>(model) < 4e-2); // of 2^-9
    CHECK(farthest<ElementType::bf16>(model, Products::fast) < 4e-2);
  }
}
