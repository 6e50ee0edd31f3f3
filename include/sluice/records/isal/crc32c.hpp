// SPDX-License-Identifier: Apache-2.0
// crc32c: the checksum of records, by ISA-L, which uses the processor's instructions for it.
#pragma once

#include <isa-l/crc.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice {

/// CRC-32C, as a `Crc32c`. Rejected: Boost.CRC, which works byte by byte and would be slower than an SSD; zlib, which
/// has only the CRC-32 of another polynomial.
[[nodiscard]] inline std::uint32_t crc32c(std::uint32_t before, std::span<const std::byte> bytes) {
  constexpr std::size_t most = std::size_t{1} << 30; // ISA-L's length is an int
  std::uint32_t value = ~before;
  while (!bytes.empty()) {
    const std::size_t part = std::min(most, bytes.size());
    // ISA-L reads only, though its pointer is not const.
    auto* const at = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(bytes.data()));
    value = crc32_iscsi(at, static_cast<int>(part), value);
    bytes = bytes.subspan(part);
  }
  return ~value;
}

} // namespace sluice
