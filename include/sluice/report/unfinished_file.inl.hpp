// SPDX-License-Identifier: Apache-2.0
// UnfinishedFile: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/report/unfinished_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

namespace sluice {

SLUICE_REPORT_INLINE std::string UnfinishedFile::target(const std::string& path) {
  std::filesystem::path at = path;
  std::error_code wrong;
  for (int links = 0; links < 40 && std::filesystem::is_symlink(at, wrong); ++links) {
    const std::filesystem::path to = std::filesystem::read_symlink(at, wrong);
    if (wrong) break;
    at = at.parent_path() / to; // only `to` if it is absolute
  }
  return at.string();
}

SLUICE_REPORT_INLINE Expected<UnfinishedFile> UnfinishedFile::create(const std::string& link, bool nameless) {
  const std::string path = target(link);
  struct ::stat facts {};
  if (::stat(path.c_str(), &facts) == 0 && !S_ISREG(facts.st_mode))
    return Error{ErrorCode::bad_input, path, "this is no regular file", "the name of a file to be written"};
  if (::lstat(path.c_str(), &facts) == 0 && S_ISLNK(facts.st_mode))
    return Error{ErrorCode::bad_input, link, "its links lead nowhere else", "the name of a file to be written"};
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  UnfinishedFile file;
  file.path_ = path;
  file.other_name_ = path + "." + std::to_string(::getpid()) + ".unfinished";
  // A nameless file gets its name through /proc.
  if (nameless && ::access("/proc/self/fd", X_OK) == 0)
    file.descriptor_ = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
  if (file.descriptor_ < 0) {
    file.descriptor_ = ::open(file.other_name_.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0666);
    if (file.descriptor_ < 0) return file.failed("the file cannot be made", "a folder that can be written to");
    file.named_ = true;
  }
  return file;
}

SLUICE_REPORT_INLINE UnfinishedFile& UnfinishedFile::operator=(UnfinishedFile&& other) noexcept {
  swap(other);
  return *this;
}

SLUICE_REPORT_INLINE UnfinishedFile::~UnfinishedFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  if (named_) ::unlink(other_name_.c_str());
}

SLUICE_REPORT_INLINE Status UnfinishedFile::write(std::int64_t at, std::span<const std::byte> bytes) {
  SLUICE_ASSERT(descriptor_ >= 0, "a file that is not finished");
  while (!bytes.empty()) {
    const ::ssize_t written = ::pwrite(descriptor_, bytes.data(), bytes.size(), at);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return failed("the file cannot be written", "room for it");
    at += written;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

SLUICE_REPORT_INLINE Status UnfinishedFile::finish() {
  SLUICE_ASSERT(descriptor_ >= 0, "a file that is not finished");
  if (!named_) {
    const std::string own = "/proc/self/fd/" + std::to_string(descriptor_);
    // Linking cannot replace a file, so the new file gets a second name and is then renamed over the old file.
    if (::linkat(AT_FDCWD, own.c_str(), AT_FDCWD, path_.c_str(), AT_SYMLINK_FOLLOW) == 0) return close();
    if (errno != EEXIST) return failed("the file cannot be named", "a folder that can be written to");
    ::unlink(other_name_.c_str());
    if (::linkat(AT_FDCWD, own.c_str(), AT_FDCWD, other_name_.c_str(), AT_SYMLINK_FOLLOW) != 0)
      return failed("the file cannot be named", "a folder that can be written to");
    named_ = true;
  }
  if (std::rename(other_name_.c_str(), path_.c_str()) != 0)
    return failed("the file cannot be named", "a name that can be given to a file");
  named_ = false;
  return close();
}

SLUICE_REPORT_INLINE void UnfinishedFile::swap(UnfinishedFile& other) {
  std::swap(path_, other.path_);
  std::swap(other_name_, other.other_name_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(named_, other.named_);
}

SLUICE_REPORT_INLINE Error UnfinishedFile::failed(const char* what, const char* expected) const {
  return {ErrorCode::bad_input, path_, std::string{what} + ": " + std::generic_category().message(errno), expected};
}

SLUICE_REPORT_INLINE Status UnfinishedFile::close() {
  const int closed = ::close(std::exchange(descriptor_, -1));
  return closed == 0 ? Status{} : Status{failed("the file cannot be written", "room for it")};
}

SLUICE_REPORT_INLINE Status write_whole(const std::string& path, std::string_view text) {
  Expected<UnfinishedFile> file = UnfinishedFile::create(path);
  if (!file) return file.error();
  if (Status status = file->write(0, std::as_bytes(std::span{text})); !status) return status;
  return file->finish();
}

SLUICE_REPORT_INLINE Expected<NpyWriter> NpyWriter::create(const std::string& path, std::int64_t columns) {
  SLUICE_ASSERT(columns >= 0, "columns of at least 0");
  Expected<UnfinishedFile> file = UnfinishedFile::create(path);
  if (!file) return file.error();
  return NpyWriter(std::move(*file), columns);
}

SLUICE_REPORT_INLINE Status NpyWriter::append(std::span<const float> rows) {
  SLUICE_ASSERT(columns_ == 0 ? rows.empty() : rows.size() % static_cast<std::size_t>(columns_) == 0, "whole rows");
  if (rows.empty()) return {};
  Status status = file_.write(end_, std::as_bytes(rows));
  end_ += static_cast<std::int64_t>(rows.size_bytes());
  rows_ += static_cast<std::int64_t>(rows.size()) / columns_;
  return status;
}

SLUICE_REPORT_INLINE Status NpyWriter::finish() {
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(rows_) + ", " +
                       std::to_string(columns_) + "), }";
  // Magic, version 1.0 and the header's length, then the header, padded so that the data begin at a multiple of 64.
  header.resize(header_bytes - 11, ' ');
  const std::string start{"\x93NUMPY\x01\x00\x76\x00", 10};
  const std::string text = start + header + '\n';
  if (Status status = file_.write(0, std::as_bytes(std::span<const char>(text))); !status) return status;
  return file_.finish();
}

} // namespace sluice
