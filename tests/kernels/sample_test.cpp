// SPDX-License-Identifier: Apache-2.0
#include "kernels/decoder/kernel_runner.hpp"
#include "kernels/sample/sample.hpp"
#include "row_data.hpp"
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

using namespace sluice;
using namespace sluice::kernels;

namespace {

Sampling random_sampling(Random& random, std::size_t vocabulary) {
  Sampling sampling{.temperature = 0.2 + 2 * random.uniform(), .seed = random()};
  switch (random.below(8)) {
  case 0:
    sampling.temperature = 0;
    break;
  case 1:
    sampling.top_k = 1;
    break;
  case 2:
    sampling.temperature = random.below(2) == 0 ? 1e-300 : 1e6;
    break;
  default:
    break;
  }
  if (random.below(2) == 0 && sampling.top_k == 0) sampling.top_k = static_cast<int>(random.below(vocabulary + 3));
  if (random.below(3) == 0) sampling.top_k = static_cast<int>(random.below(50));
  if (random.below(2) == 0) sampling.top_p = random.below(4) == 0 ? 1e-9 : 1 - random.uniform();
  return sampling;
}

/// Some rows have equal logits, some have ties, some forbid tokens, some contain NaN.
template <Element T>
void fill(Random& random, std::span<T> logits) {
  const std::uint64_t kind = random.below(6);
  const double spread = kind == 0 ? 0 : 1 + 6 * random.uniform();
  for (T& logit : logits) {
    double value = spread * normal(random) + (kind == 5 ? 30 : 0);
    if (kind == 1) value = std::floor(value);
    logit = narrow<T>(static_cast<float>(value));
    if (kind == 2 && random.below(3) == 0) logit = narrow<T>(-std::numeric_limits<float>::infinity());
    if (kind == 3 && random.below(10) == 0) logit = narrow<T>(std::numeric_limits<float>::quiet_NaN());
    if (kind == 3 && random.below(10) == 0) logit = narrow<T>(-0.0F);
  }
  logits[random.below(logits.size())] = narrow<T>(1.0F); // at least one logit is a number
}

template <ElementType element>
void chooses_what_the_cpu_does(int vocabulary, int rows, std::uint64_t seed) {
  CAPTURE(vocabulary);
  using K = Sample<SampleConfig{element}>;
  using T = typename K::T;
  Random random(seed);
  const auto width = static_cast<std::size_t>(vocabulary), count = static_cast<std::size_t>(rows);
  std::vector<T> logits(width * count);
  std::vector<SampleWay> ways;
  std::vector<Sampling> samplings;
  for (std::size_t row = 0; row < count; ++row) {
    fill(random, std::span<T>{logits}.subspan(row * width, width));
    samplings.push_back(random_sampling(random, width));
    ways.push_back(sample_way(samplings.back(), row, static_cast<std::int64_t>(seed)));
  }
  std::vector<int> tokens(count, -1), arrivals(count, 0);
  const int parts = 1 + static_cast<int>(seed) % 4; // of which some may have no token
  std::vector<std::uint64_t> best(count * static_cast<std::size_t>(parts) * (1 + sampling_most_listed), 0);
  run_emulated<K>(
      {logits.data(), ways.data(), tokens.data(), rows, vocabulary, false, parts, best.data(), arrivals.data()}, seed);
  CHECK(arrivals == std::vector<int>(count, 0)); // as the next launch needs them
  std::vector<float> widened(width);
  int other = 0;
  for (std::size_t row = 0; row < count; ++row) {
    for (std::size_t i = 0; i < width; ++i) widened[i] = widen(logits[row * width + i]);
    const std::int32_t expected = sample(widened, samplings[row], row, static_cast<std::int64_t>(seed));
    if (tokens[row] == expected) continue;
    ++other;
    CAPTURE(row);
    CAPTURE(samplings[row].temperature);
    CAPTURE(samplings[row].top_k);
    CAPTURE(samplings[row].top_p);
    CHECK(tokens[row] == expected);
  }
  CHECK(other == 0);
}

template <ElementType element>
void chooses(int percent) {
  if (under_thread_sanitizer) percent = 3;
  const auto of = [percent](int rows) { return (rows * percent + 99) / 100; };
  chooses_what_the_cpu_does<element>(1, of(20), 1);
  chooses_what_the_cpu_does<element>(2, of(300), 2);
  chooses_what_the_cpu_does<element>(31, of(300), 3);
  chooses_what_the_cpu_does<element>(256, of(300), 4);
  chooses_what_the_cpu_does<element>(1000, of(600), 5);
  chooses_what_the_cpu_does<element>(5000, of(120), 6);
  chooses_what_the_cpu_does<element>(70001, of(6), 7);
}

} // namespace

TEST_CASE("kernels.sample chooses the CPU sampler's token") {
  SUBCASE("f32") { chooses<ElementType::f32>(100); }
  SUBCASE("f16") { chooses<ElementType::f16>(30); }
  SUBCASE("bf16") { chooses<ElementType::bf16>(30); }
}

TEST_CASE("kernels.sample chooses the same tokens by several blocks a row as by one") {
  using K = Sample<SampleConfig{ElementType::f32}>;
  constexpr int rows = 40, vocabulary = 9001; // up to five parts have tokens
  Random random(10);
  std::vector<float> logits(std::size_t{rows} * vocabulary);
  std::vector<SampleWay> ways;
  for (int row = 0; row < rows; ++row) {
    fill(random, std::span<float>{logits}.subspan(static_cast<std::size_t>(row) * vocabulary, vocabulary));
    Sampling sampling = random_sampling(random, vocabulary);
    if (row % 2 == 0) // as many as a part lists, or has, and one more
      sampling = {.temperature = 1, .top_k = (row % 4 == 0 ? sampling_most_listed : 2048) + row / 4 % 2, .seed = 1};
    ways.push_back(sample_way(sampling, static_cast<std::uint64_t>(row), 1));
  }
  const auto chosen = [&](int parts) {
    std::vector<int> tokens(rows, -7), arrivals(rows, 0);
    std::vector<std::uint64_t> best(std::size_t{rows} * static_cast<std::size_t>(parts) * (1 + sampling_most_listed));
    run_emulated<K>(
        {logits.data(), ways.data(), tokens.data(), rows, vocabulary, false, parts, best.data(), arrivals.data()},
        static_cast<std::uint64_t>(parts));
    return tokens;
  };
  const std::vector<int> expected = chosen(1);
  for (const int parts : under_thread_sanitizer ? std::vector{3} : std::vector{2, 5, 8})
    CHECK(chosen(parts) == expected);
}

TEST_CASE("kernels.sample takes the greedy token if no logit is a number, whatever the parameters") {
  using K = Sample<SampleConfig{ElementType::f32}>;
  const float none = std::numeric_limits<float>::quiet_NaN(), least = -std::numeric_limits<float>::infinity();
  const std::vector<float> logits{none, none, none, none, none, least, none, least};
  const SampleWay way = sample_way({.temperature = 1, .top_k = 2, .top_p = 0.5, .seed = 1}, 0, 0);
  const std::vector<SampleWay> ways{way, way};
  std::vector<int> tokens(2, -1);
  run_emulated<K>({logits.data(), ways.data(), tokens.data(), 2, 4}, 1);
  CHECK(tokens == std::vector<int>{0, 1});
}

TEST_CASE("kernels.sample gives no token to a row that it refuses, and other rows theirs") {
  using K = Sample<SampleConfig{ElementType::f32}>;
  constexpr float none = std::numeric_limits<float>::quiet_NaN(), infinite = std::numeric_limits<float>::infinity();
  constexpr int vocabulary = 37, rows = 5;
  Random random(9);
  std::vector<float> logits;
  for (int i = 0; i < rows * vocabulary; ++i) logits.push_back(static_cast<float>(normal(random)));
  logits[3] = none;
  logits[vocabulary + 36] = infinite;
  logits[2 * vocabulary + 20] = -infinite;
  logits[3 * vocabulary + 5] = std::numeric_limits<float>::max();
  const Sampling sampling{.temperature = 1, .seed = 3};
  for (const bool samples : {false, true}) {
    std::vector<SampleWay> ways;
    for (int row = 0; row < rows; ++row)
      ways.push_back(sample_way(samples ? sampling : Sampling{}, static_cast<std::uint64_t>(row), 1));
    std::vector<int> tokens(rows, -7), arrivals(rows, 0);
    std::vector<std::uint64_t> best(rows * 3 * (1 + sampling_most_listed), 0);
    const int parts = samples ? 3 : 1;
    run_emulated<K>(
        {logits.data(), ways.data(), tokens.data(), rows, vocabulary, true, parts, best.data(), arrivals.data()}, 1);
    for (int row = 0; row < rows; ++row) {
      const std::span<const float> mine{logits.data() + row * vocabulary, vocabulary};
      const int expected =
          row < 3 ? -1 : sample(mine, samples ? sampling : Sampling{}, static_cast<std::uint64_t>(row), 1);
      CHECK(tokens[static_cast<std::size_t>(row)] == expected);
    }
  }
}

TEST_CASE("kernels.sample searches a row by as many blocks as leave no SM idle") {
  CHECK(sample_parts(1, 128256, 132) == 32);
  CHECK(sample_parts(8, 128256, 132) == 16);
  CHECK(sample_parts(132, 128256, 132) == 1);
  CHECK(sample_parts(1000, 128256, 132) == 1);
  for (int rows = 1; rows < 300; ++rows) {
    const int parts = sample_parts(rows, 128256, 1000);
    CHECK((parts == 1 || rows * parts <= sampling_all_parts));
  }
  CHECK(sample_parts(1, 4096, 132) == 1); // a block has 4096 tokens or more
  CHECK(sample_parts(0, 128256, 132) == 1);
}
