// SPDX-License-Identifier: Apache-2.0
// Record: the bytes of a block of KV in a file, and how a reader recognises that they are the ones it wants.
#pragma once

#include "sluice/core/compiled.hpp"

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

[[nodiscard]] std::uint64_t get_number(std::span<const std::byte> at, std::size_t bytes);

} // namespace detail

[[nodiscard]] std::array<std::byte, record_head_bytes> record_head(const RecordIdentity& identity,
                                                                   std::uint64_t payload_bytes);
[[nodiscard]] std::array<std::byte, record_tail_bytes> record_tail(std::uint32_t crc);

inline constexpr std::int64_t least_record_bytes{record_head_bytes + record_tail_bytes};

/// Returns why a file of `file_bytes` does not begin as the record that a reader wants; empty if it does.
[[nodiscard]] std::string_view record_fault(const std::array<std::byte, record_head_bytes>& head,
                                            const RecordIdentity& wanted, std::int64_t file_bytes);

/// A record's file: DIGEST-KEY.kv, in hexadecimal.
[[nodiscard]] std::string record_name(const RecordIdentity& identity);
/// The reverse. False: it is no record's name.
[[nodiscard]] bool parse_record_name(std::string_view name, RecordIdentity& identity);

} // namespace sluice

#ifndef SLUICE_READERS_COMPILED
#include "sluice/records/record.inl.hpp"
#endif
