// SPDX-License-Identifier: Apache-2.0
// LogitsFile: a run's logits as rows in the order of requests and positions; rows may arrive in any order.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/report/unfinished_file.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace running {

/// Rows wait in an unnamed file for earlier ones, not in memory: with a vocabulary of 128k, a thousand tokens take half
/// a gigabyte.
class LogitsFile {
 public:
  static sluice::Expected<LogitsFile> create(const std::string& path, int vocabulary) {
    sluice::Expected<sluice::NpyWriter> npy = sluice::NpyWriter::create(path, vocabulary);
    if (!npy) return npy.error();
    LogitsFile file{std::move(*npy), path, vocabulary};
    if (file.waiting_ == nullptr)
      return sluice::Error{sluice::ErrorCode::bad_input, path, "no temporary file can be made for its rows",
                           "room in the folder for temporary files"};
    return file;
  }

  /// Adds the next row of a request. `finish` reports errors.
  void add(std::size_t request, std::span<const float> logits) {
    if (request >= rows_.size()) rows_.resize(request + 1);
    rows_[request].push_back(written_++);
    if (std::fwrite(logits.data(), sizeof(float), logits.size(), waiting_.get()) != logits.size()) failed_ = true;
  }

  sluice::Status finish() {
    if (failed_ || std::fflush(waiting_.get()) != 0)
      return sluice::Error{sluice::ErrorCode::bad_input, path_, "its rows cannot be kept until they are written",
                           "room in the folder for temporary files"};
    std::vector<float> row(static_cast<std::size_t>(vocabulary_));
    const auto bytes = static_cast<std::int64_t>(row.size() * sizeof(float));
    for (const std::vector<std::int64_t>& request : rows_)
      for (const std::int64_t at : request) {
        if (fseeko(waiting_.get(), static_cast<off_t>(at * bytes), SEEK_SET) != 0 ||
            std::fread(row.data(), sizeof(float), row.size(), waiting_.get()) != row.size())
          return sluice::Error{sluice::ErrorCode::bad_input, path_, "its rows cannot be read back", ""};
        if (sluice::Status status = npy_.append(row); !status) return status;
      }
    return npy_.finish();
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  LogitsFile(sluice::NpyWriter npy, std::string path, int vocabulary)
      : npy_(std::move(npy)), path_(std::move(path)), vocabulary_(vocabulary), waiting_(std::tmpfile()) {}

  sluice::NpyWriter npy_;
  std::string path_;
  int vocabulary_;
  std::unique_ptr<std::FILE, Close> waiting_;
  std::vector<std::vector<std::int64_t>> rows_; ///< by request: the offsets of its waiting rows
  std::int64_t written_ = 0;
  bool failed_ = false;
};

} // namespace running
