// SPDX-License-Identifier: Apache-2.0
// The weights outside the layers can lie anywhere, in one piece of memory.
#include "sluice/model/decoder/weights.hpp"

#include "support/small_models.hpp"
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

using namespace sluice;

TEST_CASE("weights outside the layers are laid out without gaps beyond alignment, and a tied head once") {
  for (const testing::SmallModel model : testing::small_models)
    for (const std::int64_t alignment : {1, 64, 256}) {
      CAPTURE(testing::name_of(model));
      CAPTURE(alignment);
      const ModelWeights weights = testing::small_weights(model, ElementType::bf16);
      std::int64_t end = 0, bytes = 0;
      const std::int64_t all = weights.lay_out(alignment, [&](Matrix OuterWeights::*member, std::int64_t at) {
        CHECK(at % alignment == 0);
        CHECK((at >= end && at < end + alignment));
        end = at + (weights.*member).rows * (weights.*member).row_bytes();
        bytes += end - at;
      });
      CHECK((all >= end && all < end + alignment));
      CHECK(weights.outer_bytes() == Bytes{bytes});

      std::vector<std::byte> memory(static_cast<std::size_t>(all));
      weights.lay_out(alignment, [&](Matrix OuterWeights::*member, std::int64_t at) {
        const Matrix& matrix = weights.*member;
        std::memcpy(memory.data() + at, matrix.row(0), static_cast<std::size_t>(matrix.rows * matrix.row_bytes()));
      });
      const OuterWeights moved = weights.moved_to(memory.data(), alignment);
      CHECK(moved.is_head_tied() == weights.is_head_tied());
      for (Matrix OuterWeights::*const member :
           {&OuterWeights::embedding, &OuterWeights::positions, &OuterWeights::final_norm,
            &OuterWeights::final_norm_bias, &OuterWeights::head}) {
        const Matrix &was = weights.*member, &is = moved.*member;
        REQUIRE((is.rows == was.rows && is.columns == was.columns && is.type == was.type));
        for (std::int64_t row = 0; row < is.rows; ++row) {
          CHECK(is.row(row) >= memory.data());
          CHECK(std::memcmp(is.row(row), was.row(row), static_cast<std::size_t>(is.row_bytes())) == 0);
        }
      }
    }
}
