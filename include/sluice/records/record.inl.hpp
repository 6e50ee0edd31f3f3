// SPDX-License-Identifier: Apache-2.0
// Record: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/records/record.hpp"

namespace sluice::detail {

template <class Number>
void put_number(std::span<std::byte> at, Number number) {
  for (std::size_t i = 0; i < sizeof(Number); ++i) at[i] = static_cast<std::byte>((number >> (8 * i)) & 0xFFU);
}

SLUICE_INLINE std::uint64_t get_number(std::span<const std::byte> at, std::size_t bytes) {
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < bytes; ++i) number |= std::to_integer<std::uint64_t>(at[i]) << (8 * i);
  return number;
}

} // namespace sluice::detail

namespace sluice {

SLUICE_INLINE std::array<std::byte, record_head_bytes> record_head(const RecordIdentity& identity,
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

SLUICE_INLINE std::array<std::byte, record_tail_bytes> record_tail(std::uint32_t crc) {
  std::array<std::byte, record_tail_bytes> tail{};
  detail::put_number(std::span<std::byte>(tail), crc);
  return tail;
}

SLUICE_INLINE std::string_view record_fault(const std::array<std::byte, record_head_bytes>& head,
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

SLUICE_INLINE std::string record_name(const RecordIdentity& identity) {
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

SLUICE_INLINE bool parse_record_name(std::string_view name, RecordIdentity& identity) {
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
