// SPDX-License-Identifier: Apache-2.0
// tensor_shard: a group's parts add up to the model, and indivisible sizes are refused.
#include "sluice/model/named.hpp"
#include "sluice/model/shape.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace sluice;

TEST_CASE("a group of one is the model itself") {
  for (const NamedModel& named : named_models) {
    const Expected<ModelShape> shard = tensor_shard(named.shape(), 1, "--tp");
    REQUIRE(shard);
    CHECK(*shard == named.shape());
  }
}

TEST_CASE("a group's parts add up to the model's weights, KV and FLOPs, except for duplicates on every device") {
  for (const NamedModel& named : named_models) {
    const ModelShape whole = named.shape();
    for (const int degree : {2, 4, 8, 16, 32}) {
      CAPTURE(named.name);
      CAPTURE(degree);
      const Expected<ModelShape> shard = tensor_shard(whole, degree, "--tp");
      if (!shard) {
        const int mlp = whole.experts > 0 ? whole.moe_intermediate : whole.mlp;
        const bool divides = whole.heads % degree == 0 && mlp % degree == 0 &&
                             (whole.kv_heads % degree == 0 || degree % whole.kv_heads == 0);
        CHECK(!divides);
        continue;
      }
      CHECK(check(*shard, "test").ok());
      const int copies = degree > whole.kv_heads ? degree / whole.kv_heads : 1;
      CHECK(shard->kv_bytes_per_token() * degree == whole.kv_bytes_per_token() * copies);
      // Copies of K's and V's projections, the router on every device, and up to degree - 1 rows of padding.
      const std::int64_t kv_projections = std::int64_t{2} * whole.hidden * whole.kv_heads * whole.head_dim;
      const std::int64_t layer =
          whole.layer_parameters() + kv_projections * (copies - 1) + whole.router_parameters() * (degree - 1);
      CHECK(shard->layer_parameters() * degree == layer);
      const std::int64_t padding = shard->embedding_parameters() * degree - whole.embedding_parameters();
      CHECK(padding >= 0);
      CHECK(padding < std::int64_t{degree} * whole.hidden);
      const double active = static_cast<double>(whole.active_layer_parameters() + kv_projections * (copies - 1) +
                                                whole.router_parameters() * (degree - 1));
      CHECK(shard->linear_flops_per_token_per_layer().count() * degree == doctest::Approx(2 * active));
      CHECK(shard->attention_flops_per_pair_per_layer().count() * degree ==
            doctest::Approx(whole.attention_flops_per_pair_per_layer().count()));
      CHECK(shard->hidden_bytes_per_token() == whole.hidden_bytes_per_token());
    }
  }
}

TEST_CASE("an indivisible size is refused in one line that names a divisible one") {
  const struct {
    ModelShape shape;
    int degree;
    const char* says;
  } rows[] = {
      {llama3_70b(), 3, "the 64 heads of llama3-70b do not divide among 3 devices"},
      {llama3_70b(), 128, "the 64 heads of llama3-70b"},
      {llama3_8b(), 0, "there are 0 devices"},
      {llama3_8b(), -2, "there are -2 devices"},
  };
  for (const auto& row : rows) {
    const Expected<ModelShape> shard = tensor_shard(row.shape, row.degree, "--tp");
    REQUIRE(!shard);
    const std::string line = shard.error().line();
    CAPTURE(line);
    CHECK(line.rfind("--tp: ", 0) == 0);
    CHECK(line.find(row.says) != std::string::npos);
    CHECK(line.find('\n') == std::string::npos);
    CHECK(!shard.error().expected.empty());
  }
  ModelShape shape = llama3_8b();
  shape.heads = 24;
  shape.kv_heads = 12; // 8 neither divides them nor is divided by them
  CHECK(tensor_shard(shape, 8, "--tp").error().line().find("12 KV heads") != std::string::npos);
  shape = llama3_8b();
  shape.mlp = 14338;
  CHECK(tensor_shard(shape, 4, "--tp").error().line().find("14338 columns of the MLP") != std::string::npos);
  shape = mixtral_8x7b();
  shape.shared_intermediate = 1026;
  CHECK(tensor_shard(shape, 2, "--tp")->shared_intermediate == 513);
  CHECK(tensor_shard(shape, 4, "--tp").error().line().find("1026 columns of the shared experts") != std::string::npos);
  shape = mixtral_8x7b();
  shape.mlp = 2050;
  shape.dense.insert(0);
  CHECK(tensor_shard(shape, 2, "--tp")->mlp == 1025);
  CHECK(tensor_shard(shape, 2, "--tp")->moe_intermediate == 7168);
  CHECK(tensor_shard(shape, 4, "--tp").error().line().find("2050 columns of the MLP") != std::string::npos);
}
