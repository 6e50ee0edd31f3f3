// SPDX-License-Identifier: Apache-2.0
// A row's result depends only on its sequence, bit for bit: not on other rows, addresses or threads.
#include "sluice/core/random.hpp"
#include "sluice/model/decoder/eigen/make_decoder.hpp"

#include "model/decoder/made_sequence.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace sluice;
using namespace sluice::testing;

using Logits = std::vector<std::vector<float>>; // by position

struct Alone {
  SequenceKv kv;
  Logits logits;
};

std::vector<std::uint32_t> bits(const std::vector<float>& floats) {
  std::vector<std::uint32_t> bits;
  for (const float value : floats) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

/// The bits of all K and V that `tokens` tokens wrote, and of the states behind each block's last one.
std::vector<std::uint32_t> stored_bits(const DecoderConfig& config, const SequenceKv& kv, int tokens) {
  const ModelShape& shape = config.shape;
  std::vector<std::uint32_t> bits;
  for (std::size_t layer = 0; layer < kv.layers.size(); ++layer) {
    if (shape.delta.layers.contains(static_cast<int>(layer))) {
      for (int t = 0; t < tokens; t += block_tokens) {
        const float* at = kv.block(layer, static_cast<std::size_t>(t / block_tokens));
        for (int i = 0; i < shape.delta.numbers(); ++i) bits.push_back(std::bit_cast<std::uint32_t>(at[i]));
      }
      continue;
    }
    for (int t = 0; t < tokens; ++t) {
      for (int head = 0; head < shape.kv_vectors(); ++head) {
        const float* at = kv.block(layer, static_cast<std::size_t>(t / block_tokens)) +
                          (head * block_tokens + t % block_tokens) * shape.kv_width();
        for (int d = 0; d < shape.kv_width(); ++d) bits.push_back(std::bit_cast<std::uint32_t>(at[d]));
      }
    }
  }
  return bits;
}

std::vector<std::int32_t> random_tokens(Random& random, int count, int vocabulary) {
  std::vector<std::int32_t> tokens;
  for (int i = 0; i < count; ++i)
    tokens.push_back(static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(vocabulary))));
  return tokens;
}

/// One token at a time on one thread.
Alone alone(const MadeModel& model, const std::vector<std::int32_t>& tokens) {
  const auto decoder = make_decoder(model.weights, Tokens{block_tokens}, 1);
  Alone result{{model.weights.config, static_cast<int>(tokens.size())}, {}};
  for (std::size_t at = 0; at < tokens.size(); ++at) {
    result.logits.push_back(
        pass(*decoder, model, result.kv, std::span{tokens}.subspan(at, 1), static_cast<int>(at)).front());
    const auto& logits = result.logits.back();
    REQUIRE(std::all_of(logits.begin(), logits.end(), [](float logit) { return std::isfinite(logit); }));
  }
  return result;
}

/// A layer whose image is cut at a random row, with the two parts at different addresses.
struct CutLayer {
  CutLayer(const MadeModel& model, int layer, double share) {
    const auto& image = model.images[static_cast<std::size_t>(layer)];
    const LayerLayout& layout = model.weights.layout_at(layer);
    const std::int64_t cut = layout.cut(share);
    head.assign(image.begin(), image.begin() + cut);
    tail.assign(image.begin() + cut, image.end());
    weights = LayerWeights{layout, head.data(), tail.data(), cut};
  }
  std::vector<std::byte> head;
  std::vector<std::byte> tail;
  LayerWeights weights;
};

struct Case {
  const char* family;
  ElementType type;
  std::vector<int> windows{};
};

} // namespace

TEST_CASE("a sequence has the same bits alone and among others, in chunks, on threads, on the host's and from split "
          "matrices") {
  Random random{71};
  int hosted = 0;
  const Case cases[] = {{"llama2", ElementType::f32},
                        {"llama3", ElementType::bf16},
                        {"qwen2", ElementType::f16},
                        {"qwen3", ElementType::f32},
                        {"opt", ElementType::bf16},
                        {"mixtral", ElementType::f32},
                        {"llama2", ElementType::f32, {7, 7}},
                        {"qwen3", ElementType::bf16, {0, 18}},
                        {"deepseek", ElementType::f32},
                        {"deepseek", ElementType::bf16},
                        {"deepseek", ElementType::f16, {5, 0}},
                        {"deepseek_experts", ElementType::f32},
                        {"deepseek_experts", ElementType::bf16},
                        {"qwen3_next", ElementType::f32},
                        {"qwen3_next", ElementType::bf16},
                        {"qwen3_5", ElementType::f16},
                        {"qwen3_next_experts", ElementType::f32},
                        {"qwen3_next_experts", ElementType::bf16}};
  for (const Case& with : cases) {
    CAPTURE(with.family);
    DecoderConfig config = family_config(with.family);
    config.shape.layers = 2;
    config.shape.delta.layers = config.shape.delta.layers.below(1);
    config.windows = with.windows;
    const MadeModel model{config, with.type};
    std::vector<std::vector<std::int32_t>> tokens;
    std::vector<Alone> expected;
    std::vector<SequenceKv> kv;
    for (const int count : {1, 9, 37}) {
      tokens.push_back(random_tokens(random, count, config.shape.vocabulary));
      expected.push_back(alone(model, tokens.back()));
      kv.emplace_back(config, count);
    }
    const int threads = 1 + static_cast<int>(random.below(3));
    CAPTURE(threads);
    const auto decoder = make_decoder(model.weights, Tokens{block_tokens}, threads);
    REQUIRE(decoder->has_host_lane() == !config.shape.has_states());
    decoder->open_host_lane();
    std::vector<int> done(tokens.size(), 0);
    for (;;) {
      // A chunk of random length of each unfinished sequence, in random order.
      std::vector<std::size_t> order;
      for (std::size_t s = 0; s < tokens.size(); ++s) {
        if (done[s] < static_cast<int>(tokens[s].size()) && (order.empty() || random.below(3) > 0)) order.push_back(s);
      }
      if (order.empty()) break;
      for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
      std::vector<std::int32_t> ids;
      std::vector<std::int32_t> positions;
      std::vector<SequenceRows> rows;
      for (const std::size_t s : order) {
        const int left = static_cast<int>(tokens[s].size()) - done[s];
        const int count = 1 + static_cast<int>(random.below(static_cast<std::uint64_t>(left)));
        rows.push_back({static_cast<int>(ids.size()), count, done[s], nullptr, 0});
        rows.back().on_host = decoder->has_host_lane() && count == 1 && random.below(2) == 0;
        hosted += rows.back().on_host;
        for (int i = 0; i < count; ++i) {
          ids.push_back(tokens[s][static_cast<std::size_t>(done[s] + i)]);
          positions.push_back(done[s] + i);
        }
      }
      decoder->begin(ids, positions);
      for (int layer = 0; layer < config.shape.layers; ++layer) {
        for (std::size_t i = 0; i < order.size(); ++i)
          rows[i].blocks = kv[order[i]].layers[static_cast<std::size_t>(layer)].data();
        const CutLayer cut{model, layer, random.uniform()};
        decoder->layer(layer, cut.weights, rows, static_cast<int>(ids.size()), 0);
      }
      std::vector<int> sampled; // all rows, backwards
      for (int row = static_cast<int>(ids.size()) - 1; row >= 0; --row) sampled.push_back(row);
      const auto vocabulary = static_cast<std::size_t>(config.shape.vocabulary);
      std::vector<float> logits(sampled.size() * vocabulary);
      decoder->logits(sampled, logits);
      for (std::size_t i = 0; i < order.size(); ++i) {
        for (int r = 0; r < rows[i].rows; ++r) {
          const std::size_t at = ids.size() - 1 - static_cast<std::size_t>(rows[i].first_row + r);
          const std::vector<float> got(logits.begin() + static_cast<std::ptrdiff_t>(at * vocabulary),
                                       logits.begin() + static_cast<std::ptrdiff_t>((at + 1) * vocabulary));
          CHECK(bits(got) == bits(expected[order[i]].logits[static_cast<std::size_t>(rows[i].position + r)]));
        }
        done[order[i]] += rows[i].rows;
      }
    }
    for (std::size_t s = 0; s < tokens.size(); ++s) {
      const int count = static_cast<int>(tokens[s].size());
      CHECK(stored_bits(config, kv[s], count) == stored_bits(config, expected[s].kv, count));
    }
  }
  CHECK(hosted > 0);
}

TEST_CASE("a prefix that passes again keeps existing K and V, rebuilds missing ones, and changes no logit") {
  for (const char* const family :
       {"llama2", "llama3", "qwen2", "qwen3", "opt", "mixtral", "deepseek", "deepseek_experts"}) {
    CAPTURE(family);
    const DecoderConfig config = family_config(family);
    const MadeModel model{config, ElementType::f32};
    Random random{72};
    const int count = 40;
    const std::vector<std::int32_t> tokens = random_tokens(random, count, config.shape.vocabulary);
    const Alone expected = alone(model, tokens);
    const int last = count - 1;
    // Layers 0 and 1 have lost K and V of the prefix from some token on; layer 2 has everything.
    const int prefix = 33;
    const int kept = 21;
    SequenceKv kv{config, count};
    for (std::size_t layer = 0; layer < kv.layers.size(); ++layer) {
      const auto floats = static_cast<std::size_t>(kv_block_floats(config.shape, Tokens{block_tokens}));
      for (std::size_t block = 0; block < kv.layers[layer].size(); ++block)
        std::copy_n(expected.kv.block(layer, block), floats, kv.block(layer, block));
      for (int t = 0; t < count; ++t) {
        const bool lost = t == last || (layer < 2 && t >= kept && t < prefix);
        for (int head = 0; lost && head < config.shape.kv_vectors(); ++head) {
          float* at = kv.block(layer, static_cast<std::size_t>(t / block_tokens)) +
                      (head * block_tokens + t % block_tokens) * config.shape.kv_width();
          std::fill_n(at, config.shape.kv_width(), std::numeric_limits<float>::quiet_NaN());
        }
      }
    }
    const auto decoder = make_decoder(model.weights, Tokens{block_tokens}, 2);
    // The last token's row, after the prefix.
    std::vector<std::int32_t> ids{tokens[static_cast<std::size_t>(last)]};
    std::vector<std::int32_t> positions{last};
    for (int t = 0; t < prefix; ++t) {
      ids.push_back(tokens[static_cast<std::size_t>(t)]);
      positions.push_back(t);
    }
    decoder->begin(ids, positions);
    for (int layer = 0; layer < config.shape.layers; ++layer) {
      std::byte* const* blocks = kv.layers[static_cast<std::size_t>(layer)].data();
      const std::vector<SequenceRows> rows{{0, 1, last, blocks, 0}, {1, prefix, 0, blocks, kept}};
      if (layer == 0) decoder->layer(layer, model.layer(layer), rows, 1 + prefix, 0);
      if (layer == 1) decoder->layer(layer, model.layer(layer), rows, 1, prefix);
      if (layer == 2) decoder->layer(layer, model.layer(layer), std::span{rows}.first(1), 1, 0);
    }
    std::vector<float> logits(static_cast<std::size_t>(config.shape.vocabulary));
    const int row = 0;
    decoder->logits(std::span{&row, 1}, logits);
    CHECK(bits(logits) == bits(expected.logits.back()));
    CHECK(stored_bits(config, kv, count) == stored_bits(config, expected.kv, count));
  }
}

TEST_CASE("combinations that no family uses make no decoder") {
  const MadeModel model{family_config("llama2"), ElementType::f32};
  ModelWeights weights = model.weights;
  CHECK(make_decoder(weights, Tokens{block_tokens}, 1) != nullptr);
  weights.config.norm = NormKind::layer;
  CHECK(make_decoder(weights, Tokens{block_tokens}, 1) == nullptr);
}
