// SPDX-License-Identifier: Apache-2.0
#include "sluice/core/math.hpp"
#include "sluice/core/random.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>

using namespace sluice;

namespace {

bool same_bits(double a, double b) { return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b); }

} // namespace

TEST_CASE("math agrees with <cmath> bit by bit") {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double x : {0.0, -0.0, infinity, -infinity, std::numeric_limits<double>::quiet_NaN()}) {
    CHECK(math::isnan(x) == std::isnan(x));
    CHECK(math::isinf(x) == std::isinf(x));
    CHECK(math::isfinite(x) == std::isfinite(x));
    CHECK(same_bits(math::abs(x), std::abs(x)));
    CHECK(same_bits(math::ceil(x), std::ceil(x)));
    CHECK(same_bits(math::floor(x), std::floor(x)));
  }
  Random random(7);
  for (int i = 0; i < 1000; ++i) {
    const double x = (random.uniform() - 0.5) * 200, positive = std::abs(x) + 1e-9;
    CHECK(math::isfinite(x));
    CHECK(same_bits(math::abs(x), std::abs(x)));
    CHECK(same_bits(math::ceil(x), std::ceil(x)));
    CHECK(same_bits(math::floor(x), std::floor(x)));
    CHECK(same_bits(math::sqrt(positive), std::sqrt(positive)));
    CHECK(same_bits(math::exp(x), std::exp(x)));
    CHECK(same_bits(math::exp2(x), std::exp2(x)));
    CHECK(same_bits(math::log(positive), std::log(positive)));
    CHECK(same_bits(math::pow(positive, x / 50), std::pow(positive, x / 50)));
    CHECK(same_bits(math::sin(x), std::sin(x)));
    CHECK(same_bits(math::cos(x), std::cos(x)));
    CHECK(math::llround(x) == std::llround(x));
  }
}
