// SPDX-License-Identifier: Apache-2.0
// PosixFiles: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/records/posix_files.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>

namespace sluice {

SLUICE_INLINE FileHandle& FileHandle::operator=(FileHandle&& other) noexcept {
  std::swap(file_, other.file_);
  return *this;
}

SLUICE_INLINE FileHandle::~FileHandle() {
  if (file_ >= 0) ::close(file_);
}

SLUICE_INLINE Expected<std::unique_ptr<FileLayer>> PosixFiles::open(const std::string& folder) {
  const auto failed = [&folder](const char* what, int code) {
    return Error{ErrorCode::bad_input, folder, std::string{what} + ": " + std::strerror(code),
                 "a folder on a local disk that this process may write"};
  };
  const bool made = ::mkdir(folder.c_str(), 0700) == 0;
  if (!made && errno != EEXIST) return failed("the folder cannot be made", errno);
  FileHandle opened{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (opened.get() < 0) return failed("the folder cannot be opened", errno);
  if (made) { // otherwise a crash could lose the folder with all that was synced in it
    const FileHandle parent{::openat(opened.get(), "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    if (parent.get() < 0 || ::fsync(parent.get()) != 0) {
      const int code = errno;
      ::rmdir(folder.c_str()); // so that the next call makes and syncs it again
      return failed("the folder's name cannot be synced", code);
    }
  }
  FileHandle lock{::openat(opened.get(), lock_name, O_RDWR | O_CREAT | O_CLOEXEC, 0600)};
  if (lock.get() < 0) return failed("it cannot be written", errno);
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return failed("it cannot be locked", errno);
    return Error{ErrorCode::bad_input, folder, "another process uses it", "a folder for each process"};
  }
  return std::unique_ptr<FileLayer>{new PosixFiles(std::move(opened), std::move(lock))};
}

SLUICE_INLINE int PosixFiles::list(std::vector<Entry>& into) {
  const int again = ::openat(folder_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (again < 0) return errno;
  struct Close {
    void operator()(DIR* open) const { ::closedir(open); }
  };
  const std::unique_ptr<DIR, Close> folder{::fdopendir(again)};
  if (folder == nullptr) {
    const int code = errno;
    ::close(again);
    return code;
  }
  for (;;) {
    errno = 0;
    const dirent* const one = ::readdir(folder.get());
    if (one == nullptr) return errno;
    struct ::stat facts {};
    if (::fstatat(folder_.get(), one->d_name, &facts, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(facts.st_mode)) continue;
    // Bounded, so that a damaged time does not overflow: 7e9 s is the year 2191.
    const std::int64_t seconds = std::clamp<std::int64_t>(facts.st_mtim.tv_sec, 0, 7'000'000'000);
    into.push_back({one->d_name, facts.st_size, seconds * 1'000'000'000 + std::int64_t{facts.st_mtim.tv_nsec}});
    const std::lock_guard lock{time_mutex_};
    last_used_ns_ = std::max(last_used_ns_, into.back().used_ns);
  }
}

SLUICE_INLINE int PosixFiles::write(const std::string& name, std::span<const std::span<const std::byte>> parts) {
  FileHandle file{::openat(folder_.get(), name.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600)};
  if (file.get() < 0) return errno;
  for (std::span<const std::byte> part : parts)
    while (!part.empty()) {
      const ::ssize_t written = ::write(file.get(), part.data(), part.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return errno;
      part = part.subspan(static_cast<std::size_t>(written));
    }
  const std::array<::timespec, 2> times = next_times();
  if (::futimens(file.get(), times.data()) != 0) return errno;
  if (::fsync(file.get()) != 0) return errno;
  return file.close();
}

SLUICE_INLINE int PosixFiles::rename(const std::string& from, const std::string& to) {
  return ::renameat(folder_.get(), from.c_str(), folder_.get(), to.c_str()) == 0 ? 0 : errno;
}

SLUICE_INLINE int PosixFiles::read(const std::string& name, std::int64_t bytes, std::int64_t from,
                                   std::span<const std::span<std::byte>> parts) {
  const FileHandle file{::openat(folder_.get(), name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)};
  if (file.get() < 0) return errno;
  struct ::stat facts {};
  if (::fstat(file.get(), &facts) != 0) return errno;
  if (facts.st_size != bytes) return other_length;
  for (std::span<std::byte> part : parts)
    while (!part.empty()) {
      const ::ssize_t got = ::pread(file.get(), part.data(), part.size(), from);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return errno;
      if (got == 0) return other_length; // shortened meanwhile
      part = part.subspan(static_cast<std::size_t>(got));
      from += got;
    }
  return 0;
}

SLUICE_INLINE int PosixFiles::remove(const std::string& name) {
  return ::unlinkat(folder_.get(), name.c_str(), 0) == 0 ? 0 : errno;
}

SLUICE_INLINE int PosixFiles::touch(const std::string& name) {
  const std::array<::timespec, 2> times = next_times();
  return ::utimensat(folder_.get(), name.c_str(), times.data(), AT_SYMLINK_NOFOLLOW) == 0 ? 0 : errno;
}

SLUICE_INLINE std::array<::timespec, 2> PosixFiles::next_times() {
  ::timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const std::lock_guard lock{time_mutex_};
  last_used_ns_ = std::max(last_used_ns_ + 1, std::int64_t{now.tv_sec} * 1'000'000'000 + std::int64_t{now.tv_nsec});
  const ::timespec used{last_used_ns_ / 1'000'000'000, last_used_ns_ % 1'000'000'000};
  return {used, used};
}

} // namespace sluice
