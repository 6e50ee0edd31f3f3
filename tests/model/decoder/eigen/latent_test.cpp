// SPDX-License-Identifier: Apache-2.0
// Latent attention: logits agree with a decoder in double precision that expands K and V of every head, as DeepSeek's
// own code does.
#include "model/decoder/doubled.hpp"
#include "model/decoder/doubled_router.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <string>
#include <vector>

namespace {

using namespace sluice;
using namespace sluice::testing;

/// What DeepSeek's configs say of YaRN.
struct Yarn {
  double factor = 40, fast = 32, slow = 1, original = 64, mscale = 1, mscale_all = 1;
};

/// Radians per token of a pair, by DeepSeek's `DeepseekV2YarnRotaryEmbedding`.
double frequency(double theta, int dim, int pair, const Yarn* yarn) {
  const double plain = 1 / std::pow(theta, 2.0 * pair / dim);
  if (yarn == nullptr) return plain;
  const auto correction = [&](double rotations) {
    return dim * std::log(yarn->original / (rotations * 2 * std::numbers::pi)) / (2 * std::log(theta));
  };
  const double low = std::max(std::floor(correction(yarn->fast)), 0.0);
  double high = std::min(std::ceil(correction(yarn->slow)), dim - 1.0);
  if (low == high) high += 0.001;
  const double ramp = std::min(1.0, std::max(0.0, (pair - low) / (high - low)));
  return plain / yarn->factor * ramp + plain * (1 - ramp);
}
double mscale_of(const Yarn& yarn, double mscale) { return 0.1 * mscale * std::log(yarn.factor) + 1; }

Vector rotated(const DecoderConfig& config, const Yarn* yarn, int position, const double* from) {
  const int dim = config.shape.latent.rotated;
  const double scale = yarn == nullptr ? 1 : mscale_of(*yarn, yarn->mscale) / mscale_of(*yarn, yarn->mscale_all);
  Vector to;
  for (int i = 0; i < dim; i += 2) {
    const double angle = position * frequency(config.rope_theta, dim, i / 2, yarn);
    to.push_back(scale * (from[i] * std::cos(angle) - from[i + 1] * std::sin(angle)));
    to.push_back(scale * (from[i + 1] * std::cos(angle) + from[i] * std::sin(angle)));
  }
  return to;
}

std::vector<Vector> expanded(const MadeModel& model, const std::vector<std::int32_t>& tokens, const Yarn* yarn,
                             const Weigh& weigh = {}) {
  const DecoderConfig& config = model.weights.config;
  const ModelShape& shape = config.shape;
  const int rope = shape.latent.rotated, nope = shape.head_dim - rope, value = shape.latent.value;
  double scale = 1 / std::sqrt(static_cast<double>(shape.head_dim));
  if (yarn != nullptr) scale *= mscale_of(*yarn, yarn->mscale_all) * mscale_of(*yarn, yarn->mscale_all);
  const Attend attend = [&](int, const LayerWeights& w, const std::vector<Vector>& normed) {
    std::vector<Vector> keys, values, results; // [token][head][..]
    for (std::size_t t = 0; t < normed.size(); ++t) {
      const int position = static_cast<int>(t);
      const Vector query = w.query_down.empty()
                               ? product(w.query, normed[t])
                               : product(w.query, normalised(product(w.query_down, normed[t]), w.query_norm, 1e-6));
      const Vector entry = product(w.key, normed[t]);
      const Vector latent = normalised({entry.begin(), entry.begin() + shape.latent.rank}, w.key_norm, 1e-6);
      const Vector shared = rotated(config, yarn, position, entry.data() + shape.latent.rank);
      const Vector up = product(w.latent_up, latent);
      Vector key, of_values, attended;
      for (int h = 0; h < shape.heads; ++h) {
        const double* own = up.data() + h * (nope + value);
        key.insert(key.end(), own, own + nope);
        key.insert(key.end(), shared.begin(), shared.end());
        of_values.insert(of_values.end(), own + nope, own + nope + value);
      }
      keys.push_back(key);
      values.push_back(of_values);
      for (int h = 0; h < shape.heads; ++h) {
        const double* own = query.data() + h * shape.head_dim;
        Vector ask(own, own + nope);
        const Vector turned = rotated(config, yarn, position, own + nope);
        ask.insert(ask.end(), turned.begin(), turned.end());
        Vector sum(static_cast<std::size_t>(value), 0.0);
        double total = 0;
        for (std::size_t s = 0; s <= t; ++s) {
          double score = 0;
          for (std::size_t d = 0; d < ask.size(); ++d)
            score += ask[d] * keys[s][static_cast<std::size_t>(h * shape.head_dim) + d];
          const double weight = std::exp(score * scale);
          total += weight;
          for (std::size_t d = 0; d < sum.size(); ++d)
            sum[d] += weight * values[s][static_cast<std::size_t>(h * value) + d];
        }
        for (const double one : sum) attended.push_back(one / total);
      }
      results.push_back(product(w.output, attended));
    }
    return results;
  };
  return doubled_logits(model, tokens, attend, weigh);
}

} // namespace

TEST_CASE("latent attention: logits agree with double precision to 1e-4 of the largest, in one piece and in chunks") {
  const LatentAttention kinds[] = {
      {.rank = 40, .rotated = 8, .value = 12, .query_rank = 24}, // not whole registers
      {.rank = 64, .rotated = 16, .value = 32, .query_rank = 0},
      {.rank = 5, .rotated = 2, .value = 40, .query_rank = 80}, // smaller than a head's K, and than its V
  };
  for (const LatentAttention& latent : kinds) {
    DecoderConfig config = family_config("deepseek");
    config.shape.latent = latent;
    CAPTURE(latent.rank);
    const MadeModel model{config, ElementType::f32};
    const std::vector<std::int32_t> tokens = some_tokens(83, config.shape.vocabulary);
    check_agrees(model, tokens, expanded(model, tokens, nullptr));
  }
}

TEST_CASE("latent attention with YaRN as DeepSeek's classes compute it") {
  for (const Yarn& yarn : {Yarn{}, Yarn{.factor = 8, .fast = 4, .mscale = 0.707, .mscale_all = 0.5},
                           Yarn{.factor = 32, .fast = 1}}) { // Kimi-K2's: no blend
    DecoderConfig config = family_config("deepseek");
    config.shape.latent.rotated = 16;
    config.rope_theta = 100;
    const MadeModel plain{config, ElementType::f32};
    const double all = mscale_of(yarn, yarn.mscale_all);
    config.rope_scaling = {.factor = yarn.factor,
                           .low_frequency_factor = yarn.slow,
                           .high_frequency_factor = yarn.fast,
                           .original_positions = static_cast<int>(yarn.original),
                           .kind = RopeScalingKind::yarn,
                           .rotated_factor = mscale_of(yarn, yarn.mscale) / all,
                           .score_factor = all * all};
    const MadeModel model{config, ElementType::f32};
    const std::vector<std::int32_t> tokens = some_tokens(83, config.shape.vocabulary);
    const std::vector<Vector> expected = expanded(model, tokens, &yarn);
    check_agrees(model, tokens, expected);
    CHECK(apart(expected.back(), expanded(plain, tokens, nullptr).back()) > 0.01);
  }
}

TEST_CASE("the experts of DeepSeek-V2 and V3: logits agree with double precision") {
  const GroupedRouter routers[] = {
      {.third = false, .experts_per_token = 3, .normalised = false, .scale = 16},
      {.third = false, .groups = 3, .groups_per_token = 1, .experts_per_token = 2, .normalised = false, .scale = 1},
      {.third = true, .groups = 3, .groups_per_token = 2, .experts_per_token = 3, .normalised = true, .scale = 2.5},
      {.third = true, .experts_per_token = 4, .normalised = false, .scale = 1},
  };
  std::vector<Vector> last;
  for (const GroupedRouter& router : routers)
    for (const bool gated : {false, true}) {
      CAPTURE(router.third);
      CAPTURE(router.groups);
      CAPTURE(gated);
      DecoderConfig config = family_config("deepseek_experts");
      config.gated_shared_experts = gated;
      config.shape.experts_per_token = static_cast<int>(router.experts_per_token);
      config.routing = {.score = router.third ? RouterScore::sigmoid : RouterScore::softmax,
                        .corrected = router.third,
                        .normalised = router.normalised,
                        .scale = router.scale,
                        .groups = static_cast<int>(router.groups),
                        .groups_per_token = static_cast<int>(router.groups_per_token),
                        .group_scores = router.third ? 2 : 1};
      REQUIRE(check(config, "the test").ok());
      const MadeModel model{config, ElementType::f32};
      const std::vector<std::int32_t> tokens = some_tokens(83, config.shape.vocabulary);
      std::vector<int> chosen(static_cast<std::size_t>(config.shape.experts), 0);
      const auto weigh = [&](const Vector& logits, const LayerWeights& w) {
        return grouped_weights(router, logits, w, chosen);
      };
      const std::vector<Vector> expected = expanded(model, tokens, nullptr, weigh);
      check_agrees(model, tokens, expected);
      CHECK(*std::min_element(chosen.begin(), chosen.end()) > 0);
      for (const Vector& other : last) CHECK(apart(expected.back(), other) > 0.01);
      last.push_back(expected.back());
    }
}
