// SPDX-License-Identifier: Apache-2.0
#include "sluice/model/decoder/weights.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

using namespace sluice;

TEST_CASE("weights_digest is the same for the same weights, and another if any tensor or its size changes") {
  std::vector<float> outer(64, 1), one(256, 2), two(256, 3);
  ModelWeights weights;
  const auto at = [](std::vector<float>& numbers) { return reinterpret_cast<const std::byte*>(numbers.data()); };
  weights.embedding = weights.head = Matrix::whole(at(outer), 8, 8, ElementType::f32);
  weights.layout.add(LayerTensor::query, 16, 16, ElementType::f32);
  weights.layers = {{at(one)}, {at(two)}};
  const std::string first = weights_digest(weights);
  CHECK(first.size() == 16);
  CHECK(first.find_first_not_of("0123456789abcdef") == std::string::npos);
  CHECK(weights_digest(weights) == first);
  for (std::vector<float>* const numbers : {&outer, &one, &two}) {
    for (float& number : *numbers) number += 0.5F; // as training does
    CHECK(weights_digest(weights) != first);
    for (float& number : *numbers) number -= 0.5F;
  }
  CHECK(weights_digest(weights) == first);
  weights.embedding.rows = weights.head.rows = 4;
  CHECK(weights_digest(weights) != first);
}
