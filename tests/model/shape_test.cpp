// SPDX-License-Identifier: Apache-2.0
#include "sluice/model/named.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

using namespace sluice;

namespace {

// Published totals in billions: the model cards, and for the sparse models also the active parameters.
struct Published {
  ModelShape (*shape)();
  double total;
  double active;
};
constexpr Published published[] = {
    {llama2_7b, 6.74, 6.74},     {llama2_13b, 13.02, 13.02},  {llama2_70b, 68.98, 68.98}, {llama3_8b, 8.03, 8.03},
    {llama3_70b, 70.55, 70.55},  {opt_6_7b, 6.66, 6.66},      {opt_13b, 12.85, 12.85},    {opt_30b, 29.97, 29.97},
    {qwen1_5_7b, 7.72, 7.72},    {qwen2_5_32b, 32.76, 32.76}, {mixtral_8x7b, 46.7, 12.9}, {qwen3_32b, 32.76, 32.76},
    {qwen3_30b_a3b, 30.5, 3.35},
};

} // namespace

TEST_CASE("parameter counts are the published ones") {
  CHECK(std::size(published) == named_models.size());
  for (const Published& row : published) {
    const ModelShape shape = row.shape();
    CAPTURE(shape.name);
    CHECK(static_cast<double>(shape.parameters()) / 1e9 == doctest::Approx(row.total).epsilon(0.005));
    CHECK(static_cast<double>(shape.active_parameters()) / 1e9 == doctest::Approx(row.active).epsilon(0.005));
  }
}

TEST_CASE("a layer block of Llama-3-8B is 65,536 bytes") {
  const ModelShape shape = llama3_8b();
  CHECK(shape.layer_block_bytes(Tokens{16}) == Bytes{65'536});
  CHECK(shape.token_block_bytes(Tokens{16}) == Bytes{65'536 * 32});
  CHECK(shape.kv_bytes_per_token() == Bytes{131'072});
}

TEST_CASE("bytes and FLOPs agree with the matrices counted one by one") {
  for (const NamedModel& model : named_models) {
    const ModelShape shape = model.shape();
    CAPTURE(shape.name);
    const double hidden = shape.hidden;
    const double query = static_cast<double>(shape.heads) * shape.head_dim;
    const double kv = static_cast<double>(shape.kv_heads) * shape.head_dim;
    double active = hidden * query + hidden * kv + hidden * kv + query * hidden;
    double all = active;
    const int matrices = shape.gated_mlp ? 3 : 2;
    if (shape.experts == 0) {
      active += matrices * hidden * shape.mlp;
      all = active;
    } else {
      active += hidden * shape.experts + shape.experts_per_token * matrices * hidden * shape.moe_intermediate;
      all += hidden * shape.experts + shape.experts * (matrices * hidden * shape.moe_intermediate);
    }
    CHECK(shape.linear_flops_per_token_per_layer().count() == 2.0 * active);
    CHECK(static_cast<double>(shape.layer_weight_bytes().count()) == 2.0 * all);
    // One query against one key: a dot product of head_dim per head, and as many multiply-adds with the value.
    CHECK(shape.attention_flops_per_pair_per_layer().count() == 2.0 * 2.0 * query);
    CHECK(static_cast<double>(shape.kv_bytes_per_token_per_layer().count()) == 2.0 * kv * 2.0);
    // In a dense model's layers, every parameter is multiplied once per token.
    if (shape.experts == 0) {
      CHECK(shape.linear_flops_per_token_per_layer().count() == 2.0 * static_cast<double>(shape.layer_parameters()));
    }
  }
}

TEST_CASE("every token passes the shared experts, and an iteration reads them once") {
  const ModelShape plain = mixtral_8x7b();
  ModelShape shape = plain;
  shape.shared_intermediate = 1024;
  const std::int64_t shared = std::int64_t{3} * shape.hidden * 1024;
  CHECK(shape.layer_parameters() == plain.layer_parameters() + shared);
  CHECK(shape.active_layer_parameters() == plain.active_layer_parameters() + shared);
  for (const Tokens tokens : {Tokens{1}, Tokens{100}})
    CHECK(shape.layer_weight_bytes_read(tokens) == plain.layer_weight_bytes_read(tokens) + Bytes{2 * shared});
}

TEST_CASE("experts touched grow from those of one token to all") {
  for (const ModelShape& shape : {mixtral_8x7b(), qwen3_30b_a3b()}) {
    CAPTURE(shape.name);
    CHECK(shape.experts_touched(Tokens{0}) == 0.0);
    CHECK(shape.experts_touched(Tokens{1}) == doctest::Approx(shape.experts_per_token));
    double before = 0.0;
    for (std::int64_t tokens = 1; tokens <= 4096; tokens *= 2) {
      const double touched = shape.experts_touched(Tokens{tokens});
      CHECK(touched >= before);
      CHECK(touched <= shape.experts);
      before = touched;
    }
    CHECK(before == doctest::Approx(shape.experts).epsilon(1e-6));
    CHECK(shape.layer_weight_bytes_read(Tokens{4096}) <= shape.layer_weight_bytes());
    CHECK(shape.layer_weight_bytes_read(Tokens{1}) < shape.layer_weight_bytes());
  }
  CHECK(llama3_8b().layer_weight_bytes_read(Tokens{7}) == llama3_8b().layer_weight_bytes());
}

TEST_CASE("every named model is found, under its own name, and is valid") {
  for (const NamedModel& model : named_models) {
    CAPTURE(model.name);
    const Expected<ModelShape> found = find_model(model.name);
    REQUIRE(found);
    CHECK(*found == model.shape());
    CHECK(found->name == model.name);
    CHECK(check(*found, "test").ok());
  }
}

TEST_CASE("an unknown model's error lists every name") {
  const Expected<ModelShape> found = find_model("llama4");
  REQUIRE(!found);
  CHECK(found.error().code == ErrorCode::not_found);
  for (const NamedModel& model : named_models) {
    CHECK(found.error().line().find(model.name) != std::string::npos);
  }
}

TEST_CASE("invalid sizes are refused by name") {
  const struct {
    const char* says;
    void (*spoil)(ModelShape&);
  } rows[] = {
      {"layers", [](ModelShape& s) { s.layers = 0; }},
      {"layers", [](ModelShape& s) { s.layers = max_layers + 1; }},
      {"hidden", [](ModelShape& s) { s.hidden = -4096; }},
      {"heads", [](ModelShape& s) { s.heads = 0; }},
      {"KV heads", [](ModelShape& s) { s.kv_heads = 0; }},
      {"cannot share", [](ModelShape& s) { s.kv_heads = 3; }},
      {"cannot share", [](ModelShape& s) { s.kv_heads = 2 * s.heads; }},
      {"head size", [](ModelShape& s) { s.head_dim = 0; }},
      {"rotates is 129", [](ModelShape& s) { s.rotated = s.head_dim + 1; }},
      {"rotates", [](ModelShape& s) { s.rotated = -2; }},
      {"latents and states",
       [](ModelShape& s) {
         s.latent = {.rank = 64, .rotated = 16, .value = 64};
         s.kv_heads = 1;
         s.delta = {
             .layers = LayerSet::all(1), .key_heads = 1, .value_heads = 1, .key_dim = 8, .value_dim = 8, .kernel = 4};
       }},
      {"MLP", [](ModelShape& s) { s.mlp = 0; }},
      {"vocabulary", [](ModelShape& s) { s.vocabulary = 0; }},
      {"weight", [](ModelShape& s) { s.weight_element_bytes = 0; }},
      {"KV element", [](ModelShape& s) { s.kv_element_bytes = 8; }},
      {"experts per token", [](ModelShape& s) { s.experts = 8, s.moe_intermediate = 64, s.experts_per_token = 9; }},
      {"expert", [](ModelShape& s) { s.experts = 8, s.experts_per_token = 2; }},
      {"shared experts is 64", [](ModelShape& s) { s.shared_intermediate = 64; }},
      {"layer with a dense MLP is 32",
       [](ModelShape& s) {
         s.experts = 8, s.moe_intermediate = 64, s.experts_per_token = 2;
         s.dense.insert(s.layers);
       }},
      {"the MLP size is 0",
       [](ModelShape& s) {
         s.experts = 8, s.moe_intermediate = 64, s.experts_per_token = 2, s.mlp = 0;
         s.dense.insert(0);
       }},
  };
  for (const auto& row : rows) {
    ModelShape shape = llama3_8b();
    row.spoil(shape);
    const Status status = check(shape, "config.json");
    REQUIRE(!status);
    CAPTURE(status.error().line());
    CHECK(status.error().line().rfind("config.json: ", 0) == 0);
    CHECK(status.error().line().find(row.says) != std::string::npos);
    CHECK(!status.error().expected.empty());
  }
}

TEST_CASE("the largest valid sizes overflow nothing") {
  ModelShape shape;
  shape.layers = max_layers;
  shape.hidden = shape.moe_intermediate = shape.mlp = 1 << 18;
  shape.heads = shape.kv_heads = shape.head_dim = shape.experts = shape.experts_per_token = 1 << 12;
  shape.vocabulary = 1 << 24;
  shape.weight_element_bytes = shape.kv_element_bytes = 4;
  REQUIRE(check(shape, "test").ok());
  CHECK(static_cast<double>(shape.weight_bytes().count()) ==
        doctest::Approx(4.0 * (128.0 * static_cast<double>(shape.layer_parameters()) + 2.0 * std::ldexp(1.0, 42))));
}
