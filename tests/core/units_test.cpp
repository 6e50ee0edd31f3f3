// SPDX-License-Identifier: Apache-2.0
#include "sluice/core/random.hpp"
#include "sluice/core/units.hpp"

#include <doctest/doctest.h>

#include <concepts>

using namespace sluice;

namespace {

template <class A, class B>
concept Adds = requires(A a, B b) {
  a + b;
};
template <class A, class B>
concept Compares = requires(A a, B b) {
  a < b;
};
template <class A, class B>
concept Divides = requires(A a, B b) {
  a / b;
};

// Nothing converts, adds or compares across units, and no plain number becomes a quantity implicitly.
static_assert(Adds<Seconds, Seconds> && !Adds<Seconds, Bytes> && !Adds<Seconds, double>);
static_assert(Compares<Tokens, Tokens> && !Compares<Tokens, LayerBlocks> && !Compares<LayerBlocks, TokenBlocks>);
static_assert(!std::convertible_to<LayerBlocks, TokenBlocks> && !std::constructible_from<LayerBlocks, TokenBlocks>);
static_assert(!std::convertible_to<double, Seconds> && std::constructible_from<Seconds, int>);
static_assert(!std::constructible_from<Tokens, double>); // a fraction of a token is a mistake, not a rounding
static_assert(Divides<Bytes, BytesPerSecond> && !Divides<Bytes, FlopsPerSecond> && !Divides<Flops, BytesPerSecond>);
static_assert(sizeof(Seconds) == sizeof(double) && sizeof(Tokens) == 8);

std::int64_t draw(Random& random) { return static_cast<std::int64_t>(random.below(2'000'001)) - 1'000'000; }

} // namespace

TEST_CASE("quantities of one unit compute as their counts do") {
  Random random(2);
  for (int round = 0; round < 1000; ++round) {
    const std::int64_t a = draw(random), b = draw(random), factor = draw(random) % 1000;
    CHECK((Tokens{a} + Tokens{b}).count() == a + b);
    CHECK((Tokens{a} - Tokens{b}).count() == a - b);
    CHECK((-Tokens{a}).count() == -a);
    CHECK((Tokens{a} * factor).count() == a * factor);
    CHECK((factor * Tokens{a}).count() == a * factor);
    CHECK((Tokens{a} <=> Tokens{b}) == (a <=> b));
    Tokens sum{a};
    sum += Tokens{b};
    sum -= Tokens{a};
    CHECK(sum == Tokens{b});
    if (b != 0) {
      CHECK(Tokens{a} / Tokens{b} == a / b);
      CHECK((Tokens{a} / b).count() == a / b);
    }
  }
}

TEST_CASE("bytes over a rate, and work over a rate, are times") {
  Random random(3);
  for (int round = 0; round < 1000; ++round) {
    const auto amount = static_cast<std::int64_t>(random.below(std::uint64_t{1} << 40));
    const double rate = 1 + random.uniform() * 1e12;
    CHECK((Bytes{amount} / BytesPerSecond{rate}).count() * rate == doctest::Approx(static_cast<double>(amount)));
    CHECK((Flops{amount} / FlopsPerSecond{rate}).count() * rate == doctest::Approx(static_cast<double>(amount)));
  }
}

TEST_CASE("blocks_for gives the least number of blocks that hold the tokens") {
  for (std::int64_t block_tokens = 1; block_tokens <= 33; ++block_tokens) {
    for (std::int64_t tokens = 0; tokens <= 200; ++tokens) {
      const std::int64_t blocks = blocks_for(Tokens{tokens}, Tokens{block_tokens}).count();
      CHECK(blocks * block_tokens >= tokens);
      CHECK((blocks == 0 ? tokens == 0 : (blocks - 1) * block_tokens < tokens));
    }
  }
}

TEST_CASE("a token block spans every layer") {
  CHECK(across_layers(TokenBlocks{7}, 32) == LayerBlocks{224});
  CHECK(across_layers(TokenBlocks{0}, 80) == LayerBlocks{0});
}
