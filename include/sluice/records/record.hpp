// SPDX-License-Identifier: Apache-2.0
// Record: the bytes of a block of KV in a file, and how a reader recognises them. FileLayer: the files' few operations.
#pragma once

#include "sluice/core/compiled.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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

// FileLayer: the few operations on one folder's files that a RecordStore needs.

/// An abstract class, so that tests can fail and cut each operation: no test can make a real disk do that. PosixFiles
/// (posix_files.hpp) is the real one. Functions return 0, or the errno of what went wrong.
class FileLayer {
 public:
  struct Entry {
    std::string name;
    std::int64_t bytes = 0;
    std::int64_t used_ns = 0; ///< when it was last written or touched
  };

  /// Not an errno: the file does not have the length that was asked for.
  static constexpr int other_length = -1;

  FileLayer() = default;
  FileLayer(const FileLayer&) = delete;
  FileLayer& operator=(const FileLayer&) = delete;
  virtual ~FileLayer() = default;

  /// The folder's regular files, in any order.
  [[nodiscard]] virtual int list(std::vector<Entry>& into) = 0;
  /// Writes a whole new file in the order of `parts`, and waits until the disk has its bytes. After an error the file
  /// may be there in part.
  [[nodiscard]] virtual int write(const std::string& name, std::span<const std::span<const std::byte>> parts) = 0;
  /// Gives a file another name, and replaces a file that has it.
  [[nodiscard]] virtual int rename(const std::string& from, const std::string& to) = 0;
  /// Waits until the disk has the folder's names.
  [[nodiscard]] virtual int sync_folder() = 0;
  /// Reads a file of `bytes` bytes, from byte `from` on, into `parts` in their order. If the file has another length,
  /// returns `other_length`: a reader allocates by what it expects, not by what a damaged disk claims.
  [[nodiscard]] virtual int read(const std::string& name, std::int64_t bytes, std::int64_t from,
                                 std::span<const std::span<std::byte>> parts) = 0;
  [[nodiscard]] virtual int remove(const std::string& name) = 0;
  /// Notes that the file is used now: after every file that was written or touched before.
  [[nodiscard]] virtual int touch(const std::string& name) = 0;
};

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/records/record.inl.hpp"
#endif
