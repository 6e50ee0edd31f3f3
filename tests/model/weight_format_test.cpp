// SPDX-License-Identifier: Apache-2.0
#include "sluice/model/description.hpp"

#include <doctest/doctest.h>

using namespace sluice;

TEST_CASE("formats take the bytes of their elements and scales") {
  CHECK(plain_weights(2).bytes(300, 500) == 300 * 500 * 2);
  CHECK(plain_weights(4).bytes(300, 1) == 300 * 4);
  CHECK(fp8_weights().bytes(300, 500) == 300 * 500 + 4);
  // 300 x 500 has 3 x 4 blocks of 128 x 128, of which some are cut.
  CHECK(fp8_block_weights(128, 128).bytes(300, 500) == 300 * 500 + 3 * 4 * 4);
  CHECK(fp8_block_weights(128, 128, 8).bytes(300, 500) == 300 * 500 + 3 * 4);
  CHECK(nvfp4_weights(16).bytes(300, 512) == 300 * 512 / 2 + 300 * 32 + 4);
  CHECK(mx_weights(4).bytes(300, 512) == 300 * 512 / 2 + 300 * 16);
  CHECK(mx_weights(8).bytes(300, 512) == 300 * 512 + 300 * 16);
}

TEST_CASE("groups may have zero points, and inputs a group's index") {
  const WeightFormat awq{.element_bits = 4, .scale_bits = 16, .zero_bits = 4, .block_columns = 128};
  CHECK(awq.bytes(256, 512) == 256 * 512 / 2 + 256 * 4 * 2 + 256 * 4 / 2);
  WeightFormat gptq = awq;
  gptq.column_bits = 32;
  CHECK(gptq.bytes(256, 512) == awq.bytes(256, 512) + 512 * 4);
  const WeightFormat channel{.element_bits = 8, .scale_bits = 16};
  CHECK(channel.bytes(256, 512) == 256 * 512 + 256 * 2);
}
