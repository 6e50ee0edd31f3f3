// SPDX-License-Identifier: Apache-2.0
// MappedFile: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/model/checkpoint/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

namespace sluice {

SLUICE_MODEL_INLINE Expected<MappedFile> MappedFile::open(const std::string& path) {
  const auto failed = [&](const char* what, const char* expected) {
    const int code = errno;
    return Error{code == ENOENT ? ErrorCode::not_found : ErrorCode::bad_input, path,
                 std::string{what} + ": " + std::generic_category().message(code), expected};
  };
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC); // NOLINT(cppcoreguidelines-pro-type-vararg)
  if (descriptor < 0) return failed("the file cannot be opened", "a file that can be read");
  struct Closed {
    int descriptor;
    ~Closed() { ::close(descriptor); }
  } const closed{descriptor}; // a mapping outlives its descriptor
  struct ::stat facts {};
  if (::fstat(descriptor, &facts) != 0) return failed("the file cannot be looked at", "a file that can be read");
  if (!S_ISREG(facts.st_mode)) return Error{ErrorCode::bad_input, path, "this is no regular file", "a file"};
  if (facts.st_size == 0) return Error{ErrorCode::bad_input, path, "the file is empty", "a file with something in it"};
  const auto size = static_cast<std::size_t>(facts.st_size);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (data == MAP_FAILED) return failed("the file cannot be mapped", "a file that can be mapped into memory");
  return MappedFile(static_cast<const std::byte*>(data), size);
}

SLUICE_MODEL_INLINE MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

SLUICE_MODEL_INLINE MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

SLUICE_MODEL_INLINE MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

SLUICE_MODEL_INLINE std::size_t forget_pages(std::span<const std::byte> bytes) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::uintptr_t first = (address + page - 1) / page * page;
  const std::uintptr_t end = (address + bytes.size()) / page * page;
  if (end <= first) return 0;
  // This is advice: it is no error if the system ignores it.
  ::madvise(const_cast<std::byte*>(bytes.data() + (first - address)), end - first, MADV_DONTNEED);
  return end - first;
}

} // namespace sluice
