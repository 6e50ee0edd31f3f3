// SPDX-License-Identifier: Apache-2.0
// Fnv: a digest of bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace sluice {

/// FNV-1a, 64 bits. It tells inputs apart that differ by chance; inputs can be made to have a given digest.
class Fnv {
 public:
  void add(const std::byte* at, std::int64_t bytes) {
    for (std::int64_t i = 0; i < bytes; ++i) {
      value_ ^= static_cast<std::uint64_t>(at[i]);
      value_ *= 0x100000001b3ULL;
    }
  }
  void add(std::int64_t number) {
    for (int i = 0; i < 8; ++i) {
      const std::byte byte{static_cast<unsigned char>(static_cast<std::uint64_t>(number) >> (8 * i))};
      add(&byte, 1);
    }
  }
  [[nodiscard]] std::uint64_t value() const { return value_; }
  /// 16 hexadecimal digits.
  [[nodiscard]] std::string text() const {
    std::string text;
    for (int shift = 60; shift >= 0; shift -= 4) text += "0123456789abcdef"[(value_ >> shift) & 15U];
    return text;
  }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325ULL;
};

} // namespace sluice
