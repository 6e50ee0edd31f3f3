// SPDX-License-Identifier: Apache-2.0
#include "sluice/core/random.hpp"
#include "sluice/model/decoder/sampler.hpp"
#include "sluice/model/decoder/sampling_weight.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

using namespace sluice;

TEST_CASE("the table of powers is 2^(-i/256) to the last bits of 64") {
  static_assert(sampling_power(0) == std::uint64_t{1} << 63);
  for (int i = 0; i < 256; ++i) {
    const long double exact = std::exp2(-static_cast<long double>(i) / 256) * 0x1p63L;
    CHECK(std::fabs(static_cast<long double>(sampling_power(i)) - exact) < 16);
  }
}

TEST_CASE("a weight is the exponential in units of 2^-44, at most one off") {
  Random random(1);
  static_assert(sampling_weight(0.0, sampling_scale(1), detail::sampling_powers) == std::uint64_t{1} << 44);
  int off = 0;
  constexpr int count = 200000;
  for (int i = 0; i < count; ++i) {
    const double temperature = i % 2 == 0 ? 1 : 0.1 + 2 * random.uniform();
    const double below = 33 * temperature * random.uniform();
    const auto exact = std::llround(std::exp(-static_cast<long double>(below) / temperature) * 0x1p44L);
    const auto got =
        static_cast<long long>(sampling_weight(below, sampling_scale(temperature), detail::sampling_powers));
    if (got != exact) ++off;
    REQUIRE(std::llabs(got - exact) <= 1);
  }
  CHECK(off < count / 10);
}

TEST_CASE("a weight is right at the ends of its range") {
  const auto weight = [](double below, double temperature) {
    return sampling_weight(below, sampling_scale(temperature), detail::sampling_powers);
  };
  constexpr double infinite = std::numeric_limits<double>::infinity();
  for (const double temperature : {5e-324, 1e-300, 1e-9, 1.0, 1e300}) {
    CHECK(weight(0, temperature) == std::uint64_t{1} << 44);
    CHECK(weight(infinite, temperature) == 0);
    CHECK(weight(std::numeric_limits<double>::quiet_NaN(), temperature) == 0);
  }
  CHECK(weight(1e-30, 5e-324) == 0);
  CHECK(weight(44.99 * std::log(2.0), 1) == 1);
  CHECK(weight(45.01 * std::log(2.0), 1) == 0);
  CHECK(weight(6e38, 1e300) == std::uint64_t{1} << 44);
}

TEST_CASE("the key of a logit rises as the logit falls") {
  std::vector<float> logits{0.0F, -0.0F, 1e-45F, -1e-45F, 3e38F, -3e38F};
  for (const float one : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    logits.push_back(one);
    logits.push_back(-one);
  }
  Random random(2);
  for (int i = 0; i < 100; ++i) logits.push_back(static_cast<float>(std::ldexp(random.uniform() - 0.5, i % 40 - 20)));
  for (const float a : logits) {
    for (const float b : logits) {
      CHECK((sampling_key(a) < sampling_key(b)) == detail::below(b, a));
      CHECK((sampling_place(a, 7) < sampling_place(b, 3)) == detail::below(b, a));
      CHECK(sampling_place(a, 3) < sampling_place(a, 7));
    }
  }
}

TEST_CASE("the sum that a prefix must reach is exact") {
  __extension__ using Wide = unsigned __int128;
  Random random(3);
  for (int i = 0; i < 10000; ++i) {
    const std::uint64_t total = 1 + (random() >> (2 + random.below(62)));
    const double top_p = std::ldexp(random.uniform() + 1e-9, -static_cast<int>(random.below(60)));
    const std::uint64_t share = sampling_share(top_p);
    CHECK(std::ldexp(static_cast<double>(share), -53) >= top_p);
    CHECK(std::ldexp(static_cast<double>(share) - 1, -53) < top_p);
    const std::uint64_t nucleus = sampling_nucleus(share, total);
    CHECK(((Wide{nucleus} << 53) >= Wide{share} * total));
    CHECK(((Wide{nucleus - 1} << 53) < Wide{share} * total));
    const std::uint64_t draw = random() >> 11;
    const std::uint64_t target = sampling_target(draw, total);
    CHECK(((Wide{target} << 53) > Wide{draw} * total));
    CHECK(((Wide{target - 1} << 53) <= Wide{draw} * total));
    CHECK(target <= total);
  }
  CHECK(sampling_nucleus(sampling_share(1), 12345) == 12345);
}
