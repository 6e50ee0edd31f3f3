// SPDX-License-Identifier: Apache-2.0
// UnfinishedFile: a file that has no name until it is complete (POSIX, Linux).
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace sluice {

/// A file that gets its name, and replaces an existing file, only in `finish`. A program that is killed before `finish`
/// leaves the old file unchanged and leaves no other file, since the new file has no name until then (O_TMPFILE). On a
/// file system without nameless files, the file is called `path.PID.unfinished` until `finish`, and a killed program
/// leaves it there.
class UnfinishedFile {
 public:
  /// Returns the target of `path`: `path` itself, or the target of its links, which need not exist. Returns a link to
  /// itself unchanged.
  [[nodiscard]] static std::string target(const std::string& path);

  /// Opens a file. If `link` is a link, it is kept and its target is written. Errors: `link` is a folder or a device,
  /// or its folder cannot be written to. With `nameless` false it behaves as on a file system without nameless files.
  [[nodiscard]] static Expected<UnfinishedFile> create(const std::string& link, bool nameless = true);

  UnfinishedFile(UnfinishedFile&& other) noexcept { swap(other); }
  UnfinishedFile& operator=(UnfinishedFile&& other) noexcept;
  UnfinishedFile(const UnfinishedFile&) = delete;
  UnfinishedFile& operator=(const UnfinishedFile&) = delete;
  ~UnfinishedFile();

  /// Writes `bytes` at an offset, independently of other writes.
  Status write(std::int64_t at, std::span<const std::byte> bytes);

  /// Gives the file its name. No call may follow.
  Status finish();

 private:
  UnfinishedFile() = default;
  void swap(UnfinishedFile& other);
  [[nodiscard]] Error failed(const char* what, const char* expected) const;
  Status close();

  std::string path_;
  std::string other_name_;
  int descriptor_ = -1;
  bool named_ = false; ///< `other_name_` exists
};

/// Writes a file that gets its name once it is complete.
[[nodiscard]] Status write_whole(const std::string& path, std::string_view text);

// NpyWriter: rows of float32 as a NumPy file.

/// Writes an array of shape (rows, columns) in format 1.0 of numpy.lib.format, row by row, so that a long run's logits
/// need no memory. The file gets its name only when `finish` is called.
class NpyWriter {
 public:
  [[nodiscard]] static Expected<NpyWriter> create(const std::string& path, std::int64_t columns);

  /// Appends whole rows.
  Status append(std::span<const float> rows);

  /// Writes the header and gives the file its name. No call may follow.
  Status finish();

  [[nodiscard]] std::int64_t rows() const { return rows_; }

 private:
  static_assert(std::endian::native == std::endian::little, "'<f4' is the layout in memory");
  static constexpr std::size_t header_bytes = 128; ///< enough for any two numbers

  NpyWriter(UnfinishedFile file, std::int64_t columns) : file_(std::move(file)), columns_(columns) {}

  UnfinishedFile file_;
  std::int64_t columns_ = 0;
  std::int64_t rows_ = 0;
  std::int64_t end_ = static_cast<std::int64_t>(header_bytes);
};

} // namespace sluice

#ifndef SLUICE_REPORT_COMPILED
#include "sluice/report/unfinished_file.inl.hpp"
#endif
