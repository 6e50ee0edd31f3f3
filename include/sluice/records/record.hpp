// SPDX-License-Identifier: Apache-2.0
// Record: the bytes of a block of KV in a file, and how a reader recognises that they are the ones it wants.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace sluice {

/// Identifies a block's content, and all content before it. 128 bits, so that no two blocks of a full disk share one by
/// chance.
struct RecordKey {
  std::uint64_t high = 0, low = 0;
  friend constexpr bool operator==(const RecordKey&, const RecordKey&) = default;
};

/// What a reader demands of a record. `digest`: of everything else that the bytes depend on (weights, tokenizer,
/// element type, block size, RoPE), so that another model finds nothing.
struct RecordIdentity {
  std::uint64_t digest = 0;
  RecordKey key;
  friend constexpr bool operator==(const RecordIdentity&, const RecordIdentity&) = default;
};

/// CRC-32C (Castagnoli; RFC 3720, section 12.1) of bytes that follow others: `before` is the value so far, 0 at first.
using Crc32c = std::uint32_t (*)(std::uint32_t before, std::span<const std::byte> bytes);

/// A record, little-endian: magic (8 bytes), version (4), zero (4), digest (8), key (8 + 8), length of the payload (8),
/// payload, CRC-32C of all before it (4).
inline constexpr std::string_view record_magic = "SLUICEKV";
inline constexpr std::uint32_t record_version = 1;
inline constexpr std::size_t record_head_bytes = 48, record_tail_bytes = 4;

namespace detail {

template <class Number>
void put_number(std::span<std::byte> at, Number number) {
  for (std::size_t i = 0; i < sizeof(Number); ++i) at[i] = static_cast<std::byte>((number >> (8 * i)) & 0xFFU);
}
[[nodiscard]] inline std::uint64_t get_number(std::span<const std::byte> at, std::size_t bytes) {
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < bytes; ++i) number |= std::to_integer<std::uint64_t>(at[i]) << (8 * i);
  return number;
}

} // namespace detail

[[nodiscard]] inline std::array<std::byte, record_head_bytes> record_head(const RecordIdentity& identity,
                                                                          std::uint64_t payload_bytes) {
  std::array<std::byte, record_head_bytes> head{};
  const std::span<std::byte> to(head);
  for (std::size_t i = 0; i < record_magic.size(); ++i) head[i] = static_cast<std::byte>(record_magic[i]);
  detail::put_number(to.subspan(8), record_version);
  detail::put_number(to.subspan(16), identity.digest);
  detail::put_number(to.subspan(24), identity.key.high);
  detail::put_number(to.subspan(32), identity.key.low);
  detail::put_number(to.subspan(40), payload_bytes);
  return head;
}
[[nodiscard]] inline std::array<std::byte, record_tail_bytes> record_tail(std::uint32_t crc) {
  std::array<std::byte, record_tail_bytes> tail{};
  detail::put_number(std::span<std::byte>(tail), crc);
  return tail;
}

inline constexpr std::int64_t least_record_bytes{record_head_bytes + record_tail_bytes};

/// Returns why a file of `file_bytes` does not begin as the record that a reader wants; empty if it does.
[[nodiscard]] inline std::string_view record_fault(const std::array<std::byte, record_head_bytes>& head,
                                                   const RecordIdentity& wanted, std::int64_t file_bytes) {
  const std::span<const std::byte> from(head);
  for (std::size_t i = 0; i < record_magic.size(); ++i)
    if (from[i] != static_cast<std::byte>(record_magic[i])) return "the file does not begin as a record";
  if (detail::get_number(from.subspan(8), 4) != record_version) return "the record has another version";
  if (detail::get_number(from.subspan(16), 8) != wanted.digest) return "the record is another model's";
  if (RecordKey{detail::get_number(from.subspan(24), 8), detail::get_number(from.subspan(32), 8)} != wanted.key)
    return "the record is another block's";
  if (detail::get_number(from.subspan(40), 8) != static_cast<std::uint64_t>(file_bytes - least_record_bytes))
    return "the file's length is not the record's";
  return {};
}

/// A record's file: DIGEST-KEY.kv, in hexadecimal.
[[nodiscard]] inline std::string record_name(const RecordIdentity& identity) {
  std::string name;
  const auto add = [&name](std::uint64_t number) {
    for (int shift = 60; shift >= 0; shift -= 4) name += "0123456789abcdef"[(number >> shift) & 15U];
  };
  add(identity.digest);
  name += '-';
  add(identity.key.high);
  add(identity.key.low);
  return name + ".kv";
}
/// The reverse. False: it is no record's name.
[[nodiscard]] inline bool parse_record_name(std::string_view name, RecordIdentity& identity) {
  std::array<std::uint64_t, 3> numbers{};
  std::size_t at = 0;
  for (std::size_t digit = 0; digit < 48; ++digit, ++at) {
    if (digit == 16 && (at >= name.size() || name[at++] != '-')) return false;
    if (at >= name.size()) return false;
    const std::size_t value = std::string_view{"0123456789abcdef"}.find(name[at]);
    if (value == std::string_view::npos) return false;
    numbers[digit / 16] = (numbers[digit / 16] << 4) | value;
  }
  identity = {numbers[0], {numbers[1], numbers[2]}};
  return name.substr(at) == ".kv";
}

} // namespace sluice
