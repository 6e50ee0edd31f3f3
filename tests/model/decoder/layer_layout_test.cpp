// SPDX-License-Identifier: Apache-2.0
#include "sluice/core/random.hpp"
#include "sluice/model/decoder/weights.hpp"

#include <doctest/doctest.h>

#include <cstdint>

namespace sluice {

TEST_CASE(
    "a layer is cut in front of the share that streams, between rows, and a large matrix between groups of rows") {
  Random random(11);
  for (int trial = 0; trial < 1000; ++trial) {
    CAPTURE(trial);
    LayerLayout layout;
    const std::int64_t columns = 8 + static_cast<std::int64_t>(random.below(64));
    const std::int64_t rows = random.below(2) == 0 ? 1 + static_cast<std::int64_t>(random.below(1023))
                                                   : 1024 + static_cast<std::int64_t>(random.below(4096));
    layout.add(LayerTensor::attention_norm, 1, columns, ElementType::f32);
    layout.add(LayerTensor::query, rows, columns, ElementType::bf16);
    layout.add(LayerTensor::output, rows, columns, ElementType::bf16);
    const double share = random.uniform();
    const std::int64_t cut = layout.cut(share);
    const auto stays = static_cast<std::int64_t>((1 - share) * static_cast<double>(layout.bytes.count()));
    const std::int64_t group = columns * 2 * (rows < 1024 ? 1 : 64);
    bool in_front = cut == layout.bytes.count();
    for (const TensorPlace& place : layout.places) {
      in_front = in_front || cut == place.offset;
      if (cut <= place.offset || cut >= place.offset + place.bytes()) continue;
      CHECK((cut - place.offset) % (place.type == ElementType::bf16 ? group : 4 * columns) == 0);
      in_front = true;
    }
    CHECK(in_front);
    // The share is exceeded by less than a group of rows; padding between two tensors belongs to either side.
    CHECK(cut - stays < weight_alignment);
    CHECK(stays - cut < group + 4 * columns + weight_alignment);
    CHECK(layout.cut(0) == layout.bytes.count());
    CHECK(layout.cut(1) == 0);
  }
}

} // namespace sluice
