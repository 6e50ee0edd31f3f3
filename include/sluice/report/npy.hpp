// SPDX-License-Identifier: Apache-2.0
// NpyWriter: rows of float32 as a NumPy file.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/report/unfinished_file.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

namespace sluice {

/// Writes an array of shape (rows, columns) in format 1.0 of numpy.lib.format, row by row, so that a long run's logits
/// need no memory. The file gets its name only when `finish` is called.
class NpyWriter {
 public:
  [[nodiscard]] static Expected<NpyWriter> create(const std::string& path, std::int64_t columns) {
    SLUICE_ASSERT(columns >= 0, "columns of at least 0");
    Expected<UnfinishedFile> file = UnfinishedFile::create(path);
    if (!file) return file.error();
    return NpyWriter(std::move(*file), columns);
  }

  /// Appends whole rows.
  Status append(std::span<const float> rows) {
    SLUICE_ASSERT(columns_ == 0 ? rows.empty() : rows.size() % static_cast<std::size_t>(columns_) == 0, "whole rows");
    if (rows.empty()) return {};
    Status status = file_.write(end_, std::as_bytes(rows));
    end_ += static_cast<std::int64_t>(rows.size_bytes());
    rows_ += static_cast<std::int64_t>(rows.size()) / columns_;
    return status;
  }

  /// Writes the header and gives the file its name. No call may follow.
  Status finish() {
    std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(rows_) + ", " +
                         std::to_string(columns_) + "), }";
    // Magic, version 1.0 and the header's length, then the header, padded so that the data begin at a multiple of 64.
    header.resize(header_bytes - 11, ' ');
    const std::string start{"\x93NUMPY\x01\x00\x76\x00", 10};
    const std::string text = start + header + '\n';
    if (Status status = file_.write(0, std::as_bytes(std::span<const char>(text))); !status) return status;
    return file_.finish();
  }

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
