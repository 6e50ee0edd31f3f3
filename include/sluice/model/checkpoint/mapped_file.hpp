// SPDX-License-Identifier: Apache-2.0
// MappedFile: a file's bytes in place, never copied (POSIX).
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"

#include <cstddef>
#include <span>
#include <string>

namespace sluice {

/// A regular file mapped for reading. Its pages are the kernel's copy of the file, shared with every other process that
/// maps it, and are loaded when they are first read.
///
/// If another process truncates the file, reading past the new end raises SIGBUS, as with any mapping: replace a
/// checkpoint by renaming a new file over it, not by writing into it.
class MappedFile {
 public:
  /// Errors: no such file, not a regular file, an empty file, other errors of the system.
  [[nodiscard]] static Expected<MappedFile> open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  MappedFile(const std::byte* data, std::size_t size) : data_(data), size_(size) {}

  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Drops the pages that lie wholly within `bytes` of a mapped file, and returns their total size: they take no memory
/// of this process until they are read again, with the same contents. Safe while others read.
std::size_t forget_pages(std::span<const std::byte> bytes);

} // namespace sluice

#ifndef SLUICE_MODEL_COMPILED
#include "sluice/model/checkpoint/mapped_file.inl.hpp"
#endif
