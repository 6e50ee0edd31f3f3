// SPDX-License-Identifier: Apache-2.0
// The served model is the trained one: the trainer's logits compared with the decoder's, on the folder that the trainer
// writes.
#include "sluice/core/random.hpp"
#include "sluice/model/checkpoint/nlohmann/hf_folder.hpp"
#include "sluice/model/decoder/eigen/make_decoder.hpp"

#include "../../../examples/train/llama_pass.hpp"
#include "../../../examples/train/model_folder.hpp"
#include "model/decoder/made_sequence.hpp"
#include "support/program.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace {

using namespace training;

constexpr LlamaShape shape{
    .vocabulary = 300, .hidden = 48, .layers = 3, .heads = 4, .kv_heads = 2, .head_dim = 16, .mlp = 80, .context = 64};

/// The decoder's logits at each of `tokens`.
std::vector<std::vector<float>> decoded(const sluice::ModelWeights& weights, std::span<const std::int32_t> tokens) {
  using namespace sluice;
  const auto decoder = make_decoder(weights, Tokens{sluice::testing::block_tokens}, 1);
  sluice::testing::SequenceKv kv{weights.config, static_cast<int>(tokens.size())};
  std::vector<std::int32_t> positions;
  std::vector<int> rows;
  for (int i = 0; i < static_cast<int>(tokens.size()); ++i) {
    positions.push_back(i);
    rows.push_back(i);
  }
  const auto count = static_cast<int>(tokens.size());
  decoder->begin(tokens, positions);
  for (std::size_t layer = 0; layer < weights.layers.size(); ++layer) {
    std::vector<std::byte> image(static_cast<std::size_t>(weights.layout.bytes.count()));
    for (std::size_t i = 0; i < weights.layout.places.size(); ++i) {
      const TensorPlace& place = weights.layout.places[i];
      std::memcpy(image.data() + place.offset, weights.layers[layer][i], static_cast<std::size_t>(place.bytes()));
    }
    const LayerWeights whole(weights.layout, image.data(), nullptr, weights.layout.bytes.count());
    const SequenceRows sequence{0, count, 0, kv.layers[layer].data(), 0};
    decoder->layer(static_cast<int>(layer), whole, std::span{&sequence, 1}, count, 0);
  }
  std::vector<float> logits(tokens.size() * static_cast<std::size_t>(shape.vocabulary));
  decoder->logits(rows, logits);
  std::vector<std::vector<float>> found;
  for (std::size_t i = 0; i < tokens.size(); ++i)
    found.emplace_back(logits.begin() + static_cast<std::ptrdiff_t>(i) * shape.vocabulary,
                       logits.begin() + static_cast<std::ptrdiff_t>(i + 1) * shape.vocabulary);
  return found;
}

} // namespace

TEST_CASE("the decoder computes the trainer's logits from the folder that the trainer writes") {
  const sluice_test::TemporaryFolder temporary;
  const std::string folder = temporary.path.string();
  LlamaPass<float> pass(shape);
  for (const sluice::ElementType type : {sluice::ElementType::f32, sluice::ElementType::bf16}) {
    CAPTURE(sluice::bytes_of(type));
    sluice::Random random(11);
    std::vector<float> weights(pass.places().count);
    for (const ParameterTensor& tensor : pass.places().tensors)
      for (std::size_t i = 0; i < tensor.count(); ++i) {
        const double spread = (random.uniform() - 0.5) * (tensor.is_vector() ? 0.5 : 0.4);
        const auto value = static_cast<float>(spread + (tensor.is_vector() ? 1 : 0));
        weights[tensor.offset + i] =
            type == sluice::ElementType::bf16 ? sluice::from_bf16(sluice::to_bf16(value)) : value;
      }
    REQUIRE(write_config(folder, shape, 128, type).ok());
    REQUIRE(write_weights(folder, pass.places(), weights, type).ok());
    const sluice::Expected<sluice::ModelWeights> read = sluice::read_checkpoint(folder);
    if (!read) FAIL(read.error().line());
    CHECK(read->config.max_positions == 128);
    CHECK(read->config.end_tokens == std::vector<int>{297, 299});

    std::vector<std::int32_t> tokens;
    std::vector<std::uint16_t> short_tokens;
    for (int i = 0; i < shape.context; ++i) {
      tokens.push_back((11 * i * i + 3 * i + 1) % shape.vocabulary);
      short_tokens.push_back(static_cast<std::uint16_t>(tokens.back()));
    }
    const auto& trained = pass.logits(weights, short_tokens);
    const std::vector<std::vector<float>> served = decoded(*read, tokens);
    float worst = 0;
    for (Eigen::Index i = 0; i < trained.rows(); ++i)
      for (Eigen::Index token = 0; token < trained.cols(); ++token)
        worst = std::max(
            worst, std::abs(trained(i, token) - served[static_cast<std::size_t>(i)][static_cast<std::size_t>(token)]));
    CHECK(worst < 1e-4F * trained.cwiseAbs().maxCoeff());
  }
}
