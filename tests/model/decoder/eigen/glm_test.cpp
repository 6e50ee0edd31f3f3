// SPDX-License-Identifier: Apache-2.0
// GLM-4.5: logits agree with a decoder in double precision, written from Hugging Face's `Glm4MoeAttention`, whose heads
// rotate in part and have norms or none, and its router. A folder gives the logits of the same weights in memory.
#include "sluice/model/checkpoint/nlohmann/hf_folder.hpp"

#include "model/decoder/doubled.hpp"
#include "model/decoder/doubled_router.hpp"
#include "support/checkpoint_writer.hpp"
#include "support/program.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace {

using namespace sluice;
using namespace sluice::testing;

/// A head's vector at `position`: each number of the first half of what rotates, against its partner in the second.
Vector turned(const DecoderConfig& config, int position, Vector head) {
  const int half = config.shape.rotated / 2;
  for (int i = 0; i < half; ++i) {
    const double angle = position / std::pow(config.rope_theta, 2.0 * i / config.shape.rotated);
    double& first = head[static_cast<std::size_t>(i)];
    double& second = head[static_cast<std::size_t>(i + half)];
    const double was = first;
    first = was * std::cos(angle) - second * std::sin(angle);
    second = second * std::cos(angle) + was * std::sin(angle);
  }
  return head;
}

/// The heads of a projection with bias, normalised if `norm` is there, and rotated.
std::vector<Vector> glm_heads(const DecoderConfig& config, const Vector& all, const Matrix& norm, int position) {
  std::vector<Vector> heads;
  const auto dim = static_cast<std::ptrdiff_t>(config.shape.head_dim);
  for (auto at = all.begin(); at != all.end(); at += dim) {
    const Vector head(at, at + dim);
    const auto epsilon = static_cast<double>(config.norm_epsilon);
    heads.push_back(turned(config, position, norm.empty() ? head : normalised(head, norm, epsilon)));
  }
  return heads;
}

std::vector<Vector> glm_attending(const DecoderConfig& config, const LayerWeights& w, const std::vector<Vector>& x) {
  const ModelShape& shape = config.shape;
  const auto dim = static_cast<std::size_t>(shape.head_dim);
  std::vector<std::vector<Vector>> keys;
  std::vector<Vector> values, results;
  for (std::size_t t = 0; t < x.size(); ++t) {
    const int position = static_cast<int>(t);
    keys.push_back(glm_heads(config, product(w.key, x[t], w.key_bias), w.key_norm, position));
    values.push_back(product(w.value, x[t], w.value_bias));
    const auto queries = glm_heads(config, product(w.query, x[t], w.query_bias), w.query_norm, position);
    Vector attended;
    for (std::size_t h = 0; h < queries.size(); ++h) {
      const std::size_t kv = h / static_cast<std::size_t>(shape.heads / shape.kv_heads);
      Vector sum(dim, 0.0);
      double total = 0;
      for (std::size_t s = 0; s <= t; ++s) {
        double score = 0;
        for (std::size_t d = 0; d < dim; ++d) score += queries[h][d] * keys[s][kv][d];
        const double weight = std::exp(score / std::sqrt(static_cast<double>(dim)));
        total += weight;
        for (std::size_t d = 0; d < dim; ++d) sum[d] += weight * values[s][kv * dim + d];
      }
      for (const double one : sum) attended.push_back(one / total);
    }
    results.push_back(product(w.output, attended));
  }
  return results;
}

} // namespace

TEST_CASE("GLM-4.5: logits agree with double precision, and a folder gives the same bits") {
  std::vector<Vector> last;
  for (const bool normed : {true, false})
    for (const int groups : {1, 3}) {
      CAPTURE(normed);
      CAPTURE(groups);
      DecoderConfig config = family_config("glm4_moe");
      config.shape.name = "glm4_moe";
      config.shape.shared_intermediate = config.shape.moe_intermediate; // one shared expert
      config.query_key_norm = normed;
      config.routing.groups = groups;
      config.routing.groups_per_token = groups == 1 ? 1 : 2;
      REQUIRE(check(config, "the test").ok());
      const MadeModel model{config, ElementType::f32};
      const std::vector<std::int32_t> tokens = some_tokens(83, config.shape.vocabulary);
      std::vector<int> chosen(static_cast<std::size_t>(config.shape.experts), 0);
      const GroupedRouter router{.groups = static_cast<std::size_t>(groups),
                                 .groups_per_token = static_cast<std::size_t>(config.routing.groups_per_token),
                                 .experts_per_token = static_cast<std::size_t>(config.shape.experts_per_token),
                                 .scale = config.routing.scale};
      const std::vector<Vector> expected = doubled_logits(
          model, tokens,
          [&](int, const LayerWeights& w, const std::vector<Vector>& x) { return glm_attending(config, w, x); },
          [&](const Vector& logits, const LayerWeights& w) { return grouped_weights(router, logits, w, chosen); });
      check_agrees(model, tokens, expected);
      CHECK(*std::min_element(chosen.begin(), chosen.end()) > 0);
      for (const Vector& other : last) CHECK(apart(expected.back(), other) > 0.01);
      last.push_back(expected.back());

      const sluice_test::TemporaryFolder folder;
      write_checkpoint(folder.path, model.weights);
      const Expected<ModelWeights> read = read_checkpoint(folder.path.string());
      if (!read) FAIL(read.error().line());
      CHECK(logits_of(made_of(*read), tokens) == logits_of(model, tokens));
    }
}
