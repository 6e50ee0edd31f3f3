// SPDX-License-Identifier: Apache-2.0
// PosixFiles: the files of a folder on this machine (POSIX).
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/records/record.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

/// Owns a file descriptor.
class FileHandle {
 public:
  FileHandle() = default;
  explicit FileHandle(int file) : file_(file) {}
  FileHandle(FileHandle&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  FileHandle& operator=(FileHandle&& other) noexcept;
  ~FileHandle();
  [[nodiscard]] int get() const { return file_; }
  /// Closes the file. Returns the errno of a write that only now failed (NFS), or 0.
  [[nodiscard]] int close() { return ::close(std::exchange(file_, -1)) == 0 ? 0 : errno; }

 private:
  int file_ = -1;
};

/// Names are relative to the folder, which stays open: renaming it does not move the files elsewhere. The folder
/// belongs to one PosixFiles at a time, since two processes that both bounded its size would double it.
class PosixFiles final : public FileLayer {
 public:
  static constexpr const char* lock_name = "lock";

  /// Opens a folder, and makes it if only its last part is missing. Errors: it cannot be made or written, or another
  /// process uses it.
  [[nodiscard]] static Expected<std::unique_ptr<FileLayer>> open(const std::string& folder);

  [[nodiscard]] int list(std::vector<Entry>& into) override;
  [[nodiscard]] int write(const std::string& name, std::span<const std::span<const std::byte>> parts) override;
  [[nodiscard]] int rename(const std::string& from, const std::string& to) override;
  [[nodiscard]] int sync_folder() override { return ::fsync(folder_.get()) == 0 ? 0 : errno; }
  [[nodiscard]] int read(const std::string& name, std::int64_t bytes, std::int64_t from,
                         std::span<const std::span<std::byte>> parts) override;
  [[nodiscard]] int remove(const std::string& name) override;
  [[nodiscard]] int touch(const std::string& name) override;

 private:
  PosixFiles(FileHandle folder, FileHandle lock) : folder_(std::move(folder)), lock_(std::move(lock)) {}

  /// Now, but later than every time before: the system's time of a file advances only every few milliseconds.
  [[nodiscard]] std::array<::timespec, 2> next_times();

  FileHandle folder_, lock_;
  std::mutex time_mutex_;
  std::int64_t last_used_ns_ = 0; ///< the latest time of any file, guarded by `time_mutex_`
};

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/records/posix_files.inl.hpp"
#endif
