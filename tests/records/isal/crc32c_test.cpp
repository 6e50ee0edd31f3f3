// SPDX-License-Identifier: Apache-2.0
// crc32c: RFC 3720's examples, and the definition, at every length and alignment of short inputs.
#include "sluice/core/random.hpp"
#include "sluice/records/isal/crc32c.hpp"

#include "records/disk_model.hpp"
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

using namespace sluice;
using namespace sluice_test;

TEST_CASE("crc32c of RFC 3720's examples (section B.4)") {
  std::vector<std::byte> bytes(32);
  CHECK(crc32c(0, bytes) == 0x8A9136AAU);
  for (std::byte& byte : bytes) byte = std::byte{0xFF};
  CHECK(crc32c(0, bytes) == 0x62A8AB43U);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
  CHECK(crc32c(0, bytes) == 0x46DD794EU);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(31 - i);
  CHECK(crc32c(0, bytes) == 0x113FDB5CU);
  CHECK(crc32c(0, {}) == 0);
}

TEST_CASE("crc32c equals the definition, whole and in parts") {
  Random random(3);
  std::vector<std::byte> bytes(600);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.below(256));
  for (std::size_t from = 0; from < 20; ++from)
    for (std::size_t length = 0; length < 100; ++length) {
      const std::span<const std::byte> some = std::span(bytes).subspan(from, length);
      CHECK(crc32c(0, some) == crc32c_by_bit(0, some));
    }
  for (std::size_t cut = 0; cut <= bytes.size(); cut += 7)
    CHECK(crc32c(crc32c(0, std::span(bytes).first(cut)), std::span(bytes).subspan(cut)) == crc32c_by_bit(0, bytes));
}
