// SPDX-License-Identifier: Apache-2.0
#include "sluice/core/random.hpp"
#include "sluice/model/shape.hpp"
#include "sluice/policy/cost/calibrated.hpp"
#include "sluice/policy/cost/layered_roofline.hpp"
#include "sluice/policy/cost/rebuild.hpp"
#include "sluice/policy/cost/roofline.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

using namespace sluice;

namespace layered_roofline_test {

/// A device that computes 1e12 FLOPs and reads 1e11 bytes a second, at any share.
Device round_device() {
  Device device;
  device.half_precision_peak = FlopsPerSecond{1e12};
  device.memory_bandwidth = BytesPerSecond{1e11};
  device.host_to_device = device.device_to_host = BytesPerSecond{1e9};
  device.compute_fraction = device.bandwidth_fraction = 1;
  return device;
}

Work decoding(const std::vector<std::int64_t>& contexts, const KvGroups& kv) {
  Work work;
  for (const std::int64_t context : contexts) work.add_decode(Tokens{context}, ReadLimits{kv});
  work.samples = work.decodes;
  return work;
}

AttentionAmount amount(const LayerDescription& layer, const KvRule& rule, const Work& work) {
  KvGroups kv;
  CHECK(kv.add(0, rule));
  return attention_amount(attention_cost(layer, rule, ReadLimits{kv}), work);
}
AttentionAmount decoded(const LayerDescription& layer, const KvRule& rule, const std::vector<std::int64_t>& contexts) {
  KvGroups kv;
  CHECK(kv.add(0, rule));
  return amount(layer, rule, decoding(contexts, kv));
}

TEST_CASE("pairs within a reach are those of each token, one by one") {
  Random random(3);
  for (int trial = 0; trial < 500; ++trial) {
    const auto cached = static_cast<std::int64_t>(random.below(60)),
               fresh = static_cast<std::int64_t>(random.below(60));
    const auto reach = static_cast<std::int64_t>(1 + random.below(80));
    std::int64_t some = 0, all = 0;
    for (std::int64_t token = 1; token <= fresh; ++token) {
      some += std::min(cached + token, reach);
      all += cached + token;
    }
    CHECK(pairs_within(cached, fresh, reach) == static_cast<double>(some));
    CHECK(pairs_within(cached, fresh, KvRule::unlimited) == static_cast<double>(all));
  }
}

TEST_CASE("a window limits what each decode reads, not their mean") {
  // gpt-oss: 64 query and 8 KV heads of 64, two bytes: 2,048 B a token, 16,384 FLOPs a pair.
  const LayerDescription layer{
      .attention = AttentionKind::sliding, .heads = 64, .kv_heads = 8, .head_dim = 64, .value_dim = 64};
  const KvRule window{.kind = KvKind::sliding, .entry = 2048, .window = 128};
  const AttentionAmount sum = decoded(layer, window, {28, 1000});
  CHECK(sum.flops == 16384.0 * (28 + 128));
  CHECK(sum.bytes == 2048.0 * (28 + 128 + 2)); // and two tokens are written
  CHECK(decoded(layer, {.entry = 2048}, {28, 1000}).flops == 16384.0 * 1028);
  // Where only the sum of the contexts is known, each counts at the mean.
  Work unknown;
  unknown.decodes = 2;
  unknown.decode_context = Tokens{1028};
  CHECK(amount(layer, window, unknown).flops == 16384.0 * 256);
}

TEST_CASE("latents are absorbed when decoding and expanded for prompts") {
  // DeepSeek-V3: 128 heads; ranks 512 + 64; K of 128 + 64 and V of 128.
  LayerDescription layer{.attention = AttentionKind::latent,
                         .heads = 128,
                         .kv_heads = 1,
                         .head_dim = 192,
                         .value_dim = 128,
                         .latent = 576,
                         .latent_value = 512,
                         .expands = true};
  const KvRule rule{.kind = KvKind::latent, .entry = 1152};
  const AttentionAmount decode = decoded(layer, rule, {1000});
  CHECK(decode.flops == 278'528.0 * 1000); // 2 * 128 * (576 + 512)
  CHECK(decode.bytes == 1152.0 * 1001);
  Work prompt;
  const ChunkWork chunk{.fresh = Tokens{10}, .cached = Tokens{100}};
  prompt.chunks = {&chunk, 1};
  const double expanded = 2.0 * 512 * 128 * (128 + 128) * 100; // kv_b_proj of the cached tokens
  CHECK(amount(layer, rule, prompt).flops == 2.0 * 128 * (192 + 128) * (10 * 100 + 55) + expanded);
  const double written = 2.0 * 128 * (192 + 128) * 100; // K and V of the cached tokens, bytes; and they are read
  CHECK(amount(layer, rule, prompt).bytes == 1152.0 * (100 + 2 * 10) + 2 * written);
  // Sparse attention: as latents in prompts too, and of the top k alone. All latents of the chunk's context are read.
  layer.expands = false;
  const KvRule sparse{.kind = KvKind::latent, .entry = 1152, .picked = 64};
  CHECK(decoded(layer, sparse, {1000}).flops == 278'528.0 * 64);
  CHECK(decoded(layer, sparse, {1000}).bytes == 1152.0 * 65);
  CHECK(amount(layer, sparse, prompt).flops == 278'528.0 * 64 * 10);
  CHECK(amount(layer, sparse, prompt).bytes == 1152.0 * (100 + 2 * 10));
}

TEST_CASE("an indexer scores every token, and compressed entries stand for several") {
  const LayerDescription layer{.attention = AttentionKind::latent,
                               .heads = 64,
                               .kv_heads = 1,
                               .head_dim = 512,
                               .value_dim = 512,
                               .latent = 512,
                               .latent_value = 512,
                               .index_heads = 64,
                               .index_dim = 128};
  const KvRule keys{.kind = KvKind::indexer, .entry = 132};
  CHECK(decoded(layer, keys, {5000}).flops == 2.0 * 64 * 128 * 5000);
  CHECK(decoded(layer, keys, {5000}).bytes == 132.0 * 5001);
  const KvRule fourth{.kind = KvKind::compressed, .entry = 1024, .stride = 4, .picked = 512};
  CHECK(decoded(layer, fourth, {400}).flops == 2.0 * 64 * (512 + 512) * 100);
  CHECK(decoded(layer, fourth, {40'000}).flops == 2.0 * 64 * (512 + 512) * 512);
}

TEST_CASE("a state is read and written by every step of every sequence") {
  // A gated delta rule of 32 heads with 128 x 128 elements in f32.
  const LayerDescription layer{
      .attention = AttentionKind::gated_delta, .heads = 32, .kv_heads = 32, .head_dim = 128, .value_dim = 128};
  const KvRule state{.kind = KvKind::state, .entry = 32 * 128 * 128 * 4};
  const AttentionAmount short_ones = decoded(layer, state, {10, 20, 30});
  CHECK(short_ones.flops == 3 * 8.0 * 32 * 128 * 128); // decay, outer product, products with the key and the query
  CHECK(short_ones.bytes == 3 * 2.0 * 32 * 128 * 128 * 4);
  CHECK(decoded(layer, state, {1000, 2000, 3000}).bytes == short_ones.bytes);
  Work prompt;
  const ChunkWork chunk{.fresh = Tokens{100}, .cached = Tokens{100}};
  prompt.chunks = {&chunk, 1};
  CHECK(amount(layer, state, prompt).flops == 100 * 8.0 * 32 * 128 * 128);
  LayerDescription mamba = layer;
  mamba.attention = AttentionKind::mamba;
  CHECK(amount(mamba, state, prompt).flops == 100 * 6.0 * 32 * 128 * 128);
  CHECK(amount(layer, state, prompt).bytes == 2.0 * 32 * 128 * 128 * 4);
}

/// The description of a shape: every layer alike, without norms.
ModelDescription described(const ModelShape& shape) {
  ModelDescription model;
  model.hidden = shape.hidden;
  model.vocabulary = shape.vocabulary;
  LayerDescription layer{.attention = AttentionKind::full,
                         .heads = shape.heads,
                         .kv_heads = shape.kv_heads,
                         .head_dim = shape.head_dim,
                         .value_dim = shape.head_dim,
                         .mlp = shape.mlp,
                         .experts = shape.experts,
                         .per_token = shape.experts_per_token};
  for (int l = 0; l < shape.layers; ++l) {
    const std::string at = "layers." + std::to_string(l) + ".";
    model.layers.push_back(layer);
    model.modules.push_back({.name = at + "attention",
                             .of = ModuleClass::attention,
                             .rows = shape.attention_parameters() / shape.hidden,
                             .columns = shape.hidden});
    if (shape.experts > 0)
      model.modules.push_back(
          {.name = at + "router", .of = ModuleClass::router, .rows = shape.experts, .columns = shape.hidden});
    model.modules.push_back({.name = at + "mlp",
                             .of = shape.experts > 0 ? ModuleClass::routed_experts : ModuleClass::dense_mlp,
                             .rows = shape.expert_parameters() / shape.hidden,
                             .columns = shape.hidden,
                             .count = std::max(shape.experts, 1),
                             .active = std::max(shape.experts_per_token, 1)});
    CHECK(model.kv.add(l, {.entry = shape.kv_bytes_per_token_per_layer().count()}));
  }
  for (const ModuleClass of : {ModuleClass::embedding, ModuleClass::head})
    model.modules.push_back({.name = "ends", .of = of, .rows = shape.vocabulary, .columns = shape.hidden});
  return model;
}

TEST_CASE("a model whose layers are alike takes the time of its roofline") {
  ModelShape dense{.name = "dense", .layers = 3, .hidden = 256, .heads = 8, .kv_heads = 2, .head_dim = 32, .mlp = 512};
  dense.vocabulary = 1000;
  ModelShape sparse = dense;
  sparse.experts = 16;
  sparse.experts_per_token = 2;
  sparse.moe_intermediate = 64;
  Random random(5);
  for (const ModelShape& shape : {dense, sparse}) {
    const ModelDescription model = described(shape);
    CHECK(model.weight_bytes() == shape.weight_bytes());
    const Roofline one(shape, round_device());
    const LayeredRoofline other(model, round_device());
    for (int trial = 0; trial < 100; ++trial) {
      std::vector<std::int64_t> contexts;
      for (std::uint64_t i = random.below(20); i > 0; --i)
        contexts.push_back(static_cast<std::int64_t>(1 + random.below(5000)));
      Work work = decoding(contexts, model.kv);
      std::vector<ChunkWork> chunks;
      for (std::uint64_t i = random.below(3); i > 0; --i)
        chunks.push_back({Tokens{static_cast<std::int64_t>(1 + random.below(500))},
                          Tokens{static_cast<std::int64_t>(random.below(900))}});
      work.chunks = chunks;
      // The expected bytes of touched experts are rounded down in a shape.
      CHECK(other.step(work).total(3).count() == doctest::Approx(one.step(work).total(3).count()).epsilon(1e-6));
    }
  }
}

TEST_CASE("layers that differ add up") {
  ModelShape shape{.name = "dense", .layers = 2, .hidden = 256, .heads = 8, .kv_heads = 2, .head_dim = 32, .mlp = 512};
  shape.vocabulary = 1000;
  const ModelDescription full = described(shape);
  ModelDescription windowed = full, mixed = full;
  const KvRule window{.kind = KvKind::sliding, .entry = 256, .window = 100};
  windowed.kv = mixed.kv = KvGroups{};
  for (int l = 0; l < 2; ++l) CHECK(windowed.kv.add(l, window));
  CHECK(mixed.kv.add(0, {.entry = 256}));
  CHECK(mixed.kv.add(1, window));
  const auto layers_s = [](const ModelDescription& model) {
    const Work work = decoding({50, 4000, 3000}, model.kv);
    return LayeredRoofline(model, round_device()).step(work).layer.count() * 2;
  };
  CHECK(layers_s(windowed) < layers_s(full));
  CHECK(layers_s(mixed) == doctest::Approx((layers_s(full) + layers_s(windowed)) / 2));

  // Each layer's own time is that of a layer of the model that has only such layers, also corrected by what was
  // learned.
  const LayeredRoofline model(mixed, round_device());
  const Work work = decoding({50, 4000, 3000}, mixed.kv);
  std::array<double, 2> each{};
  CHECK(model.layer_times(work, each));
  CHECK(each[0] == doctest::Approx(layers_s(full) / 2));
  CHECK(each[1] == doctest::Approx(layers_s(windowed) / 2));
  const Calibrated<LayeredRoofline> learning(model, CalibrationPace::at_rest());
  Calibrated<LayeredRoofline>::State learned;
  learned.compute = 3;
  std::array<double, 2> corrected{}, by_function{};
  CHECK(learning.predictor(learned).layer_times(work, corrected));
  CHECK(corrected[0] == 3 * each[0]);
  CHECK(corrected[1] == 3 * each[1]);
  // What fills an iteration's layers asks the model, and takes the mean of one that does not tell layers apart.
  (void)layer_times(learning.predictor(learned), work, by_function);
  CHECK(by_function == corrected);
  const Roofline alike(shape, round_device());
  (void)layer_times(alike, work, by_function);
  CHECK(by_function[0] == by_function[1]);
  CHECK(by_function[0] == alike.step(work).layer.count());
  Work nothing;
  CHECK(model.layer_times(nothing, each));
  CHECK(each == std::array<double, 2>{});
}

} // namespace layered_roofline_test
