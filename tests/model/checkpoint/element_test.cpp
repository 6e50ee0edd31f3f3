// SPDX-License-Identifier: Apache-2.0
#include "sluice/core/random.hpp"
#include "sluice/model/checkpoint/element.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

using namespace sluice;

namespace {

/// The value of a half with these exponent and mantissa bits, from the definition of IEEE 754.
double worth(std::uint16_t half, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (half >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = half & ((1 << mantissa_bits) - 1);
  const double sign = (half & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == (1 << exponent_bits) - 1)
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits);
}

struct Kind {
  std::uint16_t (*narrow)(float);
  float (*widen)(std::uint16_t);
  int exponent_bits;
  int mantissa_bits;
};

constexpr std::array kinds{Kind{to_f16, from_f16, 5, 10}, Kind{to_bf16, from_bf16, 8, 7}};

} // namespace

TEST_CASE("every half widens to its bits' value, and back") {
  for (const Kind& kind : kinds) {
    int wrong = 0;
    for (int bits = 0; bits <= 0xffff; ++bits) {
      const auto half = static_cast<std::uint16_t>(bits);
      const double expected = worth(half, kind.exponent_bits, kind.mantissa_bits);
      const float wide = kind.widen(half);
      if (std::isnan(expected)) {
        wrong += !std::isnan(wide) || !std::isnan(kind.widen(kind.narrow(wide)));
      } else {
        wrong += static_cast<double>(wide) != expected || std::signbit(wide) != std::signbit(expected);
        wrong += kind.narrow(wide) != half;
      }
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("a number narrows to the nearest half, ties to the even one") {
  Random random(1);
  for (const Kind& kind : kinds) {
    int wrong = 0;
    const auto infinity = static_cast<std::uint16_t>(((1 << kind.exponent_bits) - 1) << kind.mantissa_bits);
    for (int i = 0; i < 200000; ++i) {
      // Half of them on or near the middle of two halves, where rounding decides.
      const auto below = static_cast<std::uint16_t>(random.below(infinity - 1U));
      const auto above = static_cast<std::uint16_t>(below + 1);
      const double low = static_cast<double>(kind.widen(below));
      const double high = static_cast<double>(kind.widen(above));
      auto value = static_cast<float>((low + high) / 2);
      const auto bent = static_cast<int>(random.below(4));
      if (bent == 0) value = std::nextafter(value, 0.0F);
      if (bent == 1) value = std::nextafter(value, std::numeric_limits<float>::infinity());
      if (bent == 2) value = static_cast<float>(low + (high - low) * random.uniform());
      const double to_low = static_cast<double>(value) - low;
      const double to_high = high - static_cast<double>(value);
      const std::uint16_t expected = to_low < to_high || (to_low == to_high && below % 2 == 0) ? below : above;
      wrong += kind.narrow(value) != expected || kind.narrow(-value) != (expected | 0x8000);
    }
    CHECK(wrong == 0);
    CHECK(kind.narrow(std::numeric_limits<float>::infinity()) == infinity);
    CHECK(kind.narrow(std::numeric_limits<float>::max()) == infinity);
    CHECK(std::isnan(kind.widen(kind.narrow(std::numeric_limits<float>::quiet_NaN()))));
  }
  CHECK(from_f16(to_f16(65519.0F)) == 65504.0F);
  CHECK(std::isinf(from_f16(to_f16(65520.0F))));
}

TEST_CASE("an element is stored and loaded at any address") {
  std::array<std::byte, 16> memory{};
  for (const ElementType type : {ElementType::f32, ElementType::f16, ElementType::bf16})
    for (std::size_t at = 0; at < 8; ++at) {
      store_element(memory.data() + at, type, -1.5F);
      CHECK(load_element(memory.data() + at, type) == -1.5F);
    }
}
