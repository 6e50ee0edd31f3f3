// SPDX-License-Identifier: Apache-2.0
#include "sluice/model/decoder/sampler.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <set>
#include <string>
#include <vector>

using namespace sluice;

namespace {

std::vector<float> random_logits(Random& random, std::size_t count, double spread, bool ties) {
  std::vector<float> logits(count);
  for (float& logit : logits) {
    logit = static_cast<float>(spread * (random.uniform() - 0.5));
    if (ties) logit = std::floor(logit);
  }
  return logits;
}

/// Each token's probability by the definition, step by step: shares nothing with the tested code.
std::vector<double> probabilities(const std::vector<float>& logits, const Sampling& sampling) {
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  if (sampling.top_k > 0) order.resize(std::min(order.size(), static_cast<std::size_t>(sampling.top_k)));
  const auto normalised = [&] {
    std::vector<double> chance;
    double total = 0;
    for (const std::size_t token : order) {
      chance.push_back(std::exp(static_cast<double>(logits[token] - logits[order[0]]) / sampling.temperature));
      total += chance.back();
    }
    for (double& value : chance) value /= total;
    return chance;
  };
  std::vector<double> chance = normalised();
  std::size_t kept = 0;
  for (double sum = 0; kept < order.size() && sum < sampling.top_p - 1e-12; ++kept) sum += chance[kept];
  order.resize(std::max<std::size_t>(kept, 1));
  chance = normalised();
  std::vector<double> all(logits.size(), 0.0);
  for (std::size_t i = 0; i < order.size(); ++i) all[order[i]] = chance[i];
  return all;
}

} // namespace

TEST_CASE("greedy takes the largest logit, and the first among equals") {
  CHECK(sample(std::vector<float>{0, 3, -1, 3, 2}, {}, 0, 0) == 1);
  CHECK(sample(std::vector<float>{-5}, {}, 9, 9) == 0);
  CHECK(sample(std::vector<float>{-std::numeric_limits<float>::infinity(), -1e30F}, {}, 0, 0) == 1);
  CHECK(sample(std::vector<float>{2, 2, 2}, {.temperature = 0, .top_k = 2, .top_p = 0.5, .seed = 4}, 0, 0) == 0);
}

TEST_CASE("one token, a small nucleus or a temperature near 0 are greedy") {
  Random random(1);
  for (int i = 0; i < 200; ++i) {
    const auto count = static_cast<std::size_t>(1 + random.below(600));
    const std::vector<float> logits = random_logits(random, count, 8, i % 2 == 0);
    const std::int32_t best = greedy_token(logits);
    const std::uint64_t sequence = random();
    const auto position = static_cast<std::int64_t>(random.below(1000));
    CHECK(sample(logits, {.temperature = 1, .top_k = 1, .seed = random()}, sequence, position) == best);
    CHECK(sample(logits, {.temperature = 1, .top_p = 1e-9, .seed = random()}, sequence, position) == best);
    if (i % 2 == 0) continue; // among tied ones a temperature above 0 may choose any
    CHECK(sample(logits, {.temperature = 1e-9, .seed = random()}, sequence, position) == best);
    CHECK(sample(logits, {.temperature = 1e-300, .top_k = 5, .top_p = 0.9, .seed = random()}, sequence, position) ==
          best);
  }
}

TEST_CASE("a drawn token is a function of seed, sequence and position") {
  Random random(2);
  const std::vector<float> logits = random_logits(random, 1000, 2, false);
  const Sampling sampling{.temperature = 1, .seed = 3};
  std::set<std::int32_t> by_sequence;
  std::set<std::int32_t> by_position;
  std::set<std::int32_t> by_seed;
  for (std::uint64_t i = 0; i < 100; ++i) {
    by_sequence.insert(sample(logits, sampling, i, 7));
    by_position.insert(sample(logits, sampling, 7, static_cast<std::int64_t>(i)));
    by_seed.insert(sample(logits, {.temperature = 1, .seed = i}, 7, 7));
    CHECK(sample(logits, sampling, i, 7) == sample(logits, sampling, i, 7));
  }
  for (const auto& seen : {by_sequence, by_position, by_seed}) CHECK(seen.size() > 80);
}

TEST_CASE("tokens are drawn with their probabilities") {
  const std::vector<float> logits{1.0F, 0.2F, -0.5F, 2.0F, 0.2F, -3.0F, 1.4F, 0.9F, -1.0F, 0.0F};
  const Sampling ways[] = {
      {.temperature = 1, .seed = 1},
      {.temperature = 0.6, .seed = 2},
      {.temperature = 3, .top_k = 4, .seed = 3},
      {.temperature = 1, .top_p = 0.7, .seed = 4},
      {.temperature = 1.5, .top_k = 6, .top_p = 0.8, .seed = 5},
      {.temperature = 1, .top_k = 100, .seed = 6},
  };
  constexpr int draws = 20000;
  for (const Sampling& way : ways) {
    CAPTURE(way.seed);
    const std::vector<double> expected = probabilities(logits, way);
    std::vector<int> found(logits.size(), 0);
    for (int i = 0; i < draws; ++i) {
      // Over sequences and positions alike.
      const auto token = sample(logits, way, static_cast<std::uint64_t>(i % 100), i / 100);
      ++found[static_cast<std::size_t>(token)];
    }
    double chi_square = 0;
    for (std::size_t token = 0; token < logits.size(); ++token) {
      if (expected[token] == 0) {
        CHECK(found[token] == 0);
        continue;
      }
      const double mean = expected[token] * draws;
      chi_square += (found[token] - mean) * (found[token] - mean) / mean;
    }
    CHECK(chi_square < 33.7); // with 9 degrees of freedom one in 10,000 is above; with fewer, less
  }
}

TEST_CASE("the kept tokens and the draw agree with the definition, for any number of tokens") {
  Random random(5);
  for (int i = 0; i < 60; ++i) {
    const auto count = static_cast<std::size_t>(1 + random.below(i % 4 == 0 ? 4000 : 300));
    const std::vector<float> logits = random_logits(random, count, 1 + 10 * random.uniform(), i % 3 == 0);
    Sampling sampling{.temperature = 0.2 + 2 * random.uniform(), .seed = random()};
    if (i % 2 == 0) sampling.top_p = 0.05 + 0.94 * random.uniform();
    if (i % 5 < 3) sampling.top_k = static_cast<int>(random.below(count + 10));
    const std::vector<double> expected = probabilities(logits, sampling);
    for (std::int64_t position = 0; position < 10; ++position) {
      const auto token = static_cast<std::size_t>(sample(logits, sampling, 1, position));
      CHECK(expected[token] > 0);
      if (sampling.top_k <= 1 && sampling.top_p >= 1) continue; // drawn in the order of tokens, checked above
      // The draw falls into the token's part of the unit interval, most likely tokens first.
      double before = 0;
      for (std::size_t other = 0; other < count; ++other) {
        const bool first = logits[other] > logits[token] || (logits[other] == logits[token] && other < token);
        if (first) before += expected[other];
      }
      const double draw = static_cast<double>(detail::sampling_draw(sampling.seed, 1, position)) * 0x1p-53;
      if (static_cast<std::size_t>(sampling.top_k) >= count && sampling.top_p >= 1) continue;
      CHECK(draw >= before - 1e-9);
      CHECK(draw <= before + expected[token] + 1e-9);
    }
  }
}

TEST_CASE("a forbidden token is never drawn") {
  std::vector<float> logits(50, -std::numeric_limits<float>::infinity());
  logits[20] = 1;
  logits[40] = 1;
  std::set<std::int32_t> seen;
  for (std::int64_t position = 0; position < 300; ++position) {
    seen.insert(sample(logits, {.temperature = 2}, 0, position));
    seen.insert(sample(logits, {.temperature = 2, .top_k = 30}, 0, position));
    seen.insert(sample(logits, {.temperature = 2, .top_p = 0.99}, 0, position));
  }
  CHECK(seen == std::set<std::int32_t>{20, 40});
}

TEST_CASE("NaN logits do not break sorting") {
  Random random(6);
  for (int i = 0; i < 50; ++i) {
    std::vector<float> logits = random_logits(random, 500, 4, false);
    for (std::size_t token = 0; token < logits.size(); ++token)
      if (random.below(3) == 0) logits[token] = std::numeric_limits<float>::quiet_NaN();
    const std::int32_t token = sample(logits, {.temperature = 1, .top_k = 40, .seed = random()}, 0, i);
    CHECK(token >= 0);
    CHECK(token < 500);
  }
}

TEST_CASE("a NaN logit never wins against a number, greedily or by sorting") {
  constexpr float none = std::numeric_limits<float>::quiet_NaN(), least = -std::numeric_limits<float>::infinity();
  CHECK(greedy_token(std::vector<float>{none, -3, 2, none}) == 2);
  CHECK(greedy_token(std::vector<float>{none, least}) == 1);
  CHECK(greedy_token(std::vector<float>{-none, none, none}) == 0);
  Random random(8);
  for (int i = 0; i < 200; ++i) {
    std::vector<float> logits = random_logits(random, 1 + random.below(9), 4, false);
    for (float& logit : logits) {
      const std::uint64_t kind = random.below(6);
      if (kind < 3) logit = kind == 0 ? least : none;
      if (kind == 3) logit = std::round(logit); // some are equal
    }
    std::int32_t best = -1; // by a definition without sorting
    for (std::size_t token = 0; token < logits.size(); ++token) {
      if (std::isnan(logits[token])) continue;
      if (best < 0 || logits[token] > logits[static_cast<std::size_t>(best)]) best = static_cast<std::int32_t>(token);
    }
    CHECK(greedy_token(logits) == std::max(best, 0));
    std::vector<std::uint64_t> places;
    for (std::size_t token = 0; token < logits.size(); ++token)
      places.push_back(sampling_place(logits[token], static_cast<std::int64_t>(token)));
    detail::sort_likeliest(places, 1);
    CHECK(static_cast<std::int32_t>(places.front() & 0xffffffffU) == greedy_token(logits));
  }
}

TEST_CASE("invalid numbers are refused with their flag's name") {
  const double none = std::numeric_limits<double>::quiet_NaN();
  const double infinite = std::numeric_limits<double>::infinity();
  CHECK(check(Sampling{}).ok());
  CHECK(check(Sampling{.temperature = 5, .top_k = 1 << 20, .top_p = 1e-9}).ok());
  for (const double temperature : {-0.1, none, infinite})
    CHECK(check(Sampling{.temperature = temperature}).error().where == "--temperature");
  CHECK(check(Sampling{.top_k = -1}).error().line() ==
        "--top-k: it is -1; expected a whole number of at least 0 (0: all tokens)");
  for (const double top_p : {0.0, -0.1, 1.1, none}) CHECK(check(Sampling{.top_p = top_p}).error().where == "--top-p");
}
