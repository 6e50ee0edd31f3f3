// SPDX-License-Identifier: Apache-2.0
#include "kernels/rows/embed.hpp"
#include "row_data.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

using namespace sluice;
using namespace sluice::kernels;

namespace {

template <ElementType element>
void agrees() {
  using K = Embed<EmbedConfig{element}>;
  using T = typename K::T;
  Random random(6);
  constexpr int vocabulary = 40, most_positions = 20, offset = 2;
  const int shapes[][2] = {{0, 64}, {1, 1}, {4, 7}, {6, 64}, {3, 1000}, {2, 4099}};
  std::uint64_t seed = 1;
  for (const auto& shape : shapes) {
    const int rows = shape[0], features = shape[1];
    CAPTURE(rows);
    CAPTURE(features);
    for (const bool learned : {false, true}) {
      const auto width = static_cast<std::size_t>(features), count = static_cast<std::size_t>(rows);
      const std::vector<T> table = normal_numbers<T>(random, vocabulary * width);
      const std::vector<T> places = normal_numbers<T>(random, (most_positions + offset) * width);
      std::vector<int> tokens, positions;
      for (std::size_t row = 0; row < count; ++row) {
        tokens.push_back(row == 0 ? vocabulary - 1 : static_cast<int>(random.below(vocabulary)));
        positions.push_back(row == 0 ? most_positions - 1 : static_cast<int>(random.below(most_positions)));
        REQUIRE(tokens.back() < vocabulary); // the caller's part
      }
      std::vector<T> out = no_numbers<T>(count * width);
      EmbedParams params;
      params.tokens = tokens.data();
      params.positions = positions.data();
      params.table = table.data();
      if (learned) params.learned = places.data();
      params.out = out.data();
      params.position_offset = offset;
      params.rows = rows;
      params.features = features;
      run_emulated<K>(params, seed++);
      std::vector<T> expected;
      for (std::size_t row = 0; row < count; ++row) {
        for (std::size_t i = 0; i < width; ++i) {
          float value = widen(table[static_cast<std::size_t>(tokens[row]) * width + i]);
          if (learned) value += widen(places[static_cast<std::size_t>(positions[row] + offset) * width + i]);
          expected.push_back(narrow<T>(value));
        }
      }
      CHECK(same_bits(out, expected));

      std::vector<T> alone = no_numbers<T>(count * width); // a row's bits do not depend on other rows
      for (std::size_t row = count; row-- > 0;) {
        EmbedParams one = params;
        one.tokens = tokens.data() + row;
        one.positions = positions.data() + row;
        std::vector<T> result = no_numbers<T>(width); // aligned, whatever the width
        one.out = result.data();
        one.rows = 1;
        run_emulated<K>(one, seed++);
        std::copy(result.begin(), result.end(), alone.begin() + static_cast<std::ptrdiff_t>(row * width));
      }
      CHECK(same_bits(alone, out));
    }
  }
}

} // namespace

TEST_CASE("kernels.embed reads a token's row, and adds its position's row if positions are learned") {
  SUBCASE("f32") { agrees<ElementType::f32>(); }
  SUBCASE("f16") { agrees<ElementType::f16>(); }
  SUBCASE("bf16") { agrees<ElementType::bf16>(); }
}
