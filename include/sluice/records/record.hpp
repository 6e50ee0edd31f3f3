// SPDX-License-Identifier: Apache-2.0
// Record: the bytes of a block of KV in a file, and how a reader recognises that they are the ones it wants.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
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

/// Returns why a file is not the record that a reader wants; empty if it is. Then `payload` is its payload.
[[nodiscard]] inline std::string_view record_fault(std::span<const std::byte> file, const RecordIdentity& wanted,
                                                   Crc32c crc, std::span<const std::byte>& payload) {
  if (file.size() < record_head_bytes + record_tail_bytes) return "the file is shorter than a record";
  for (std::size_t i = 0; i < record_magic.size(); ++i)
    if (file[i] != static_cast<std::byte>(record_magic[i])) return "the file does not begin as a record";
  if (detail::get_number(file.subspan(8), 4) != record_version) return "the record has another version";
  if (detail::get_number(file.subspan(16), 8) != wanted.digest) return "the record is another model's";
  if (RecordKey{detail::get_number(file.subspan(24), 8), detail::get_number(file.subspan(32), 8)} != wanted.key)
    return "the record is another block's";
  const std::span<const std::byte> checked = file.first(file.size() - record_tail_bytes);
  if (detail::get_number(file.subspan(40), 8) != checked.size() - record_head_bytes)
    return "the file's length is not the record's";
  if (detail::get_number(file.last(record_tail_bytes), record_tail_bytes) != crc(0, checked))
    return "the checksum is wrong";
  payload = checked.subspan(record_head_bytes);
  return {};
}

} // namespace sluice
