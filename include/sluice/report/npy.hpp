// SPDX-License-Identifier: Apache-2.0
// NpyWriter: rows of float32 as a NumPy file.
#pragma once

#include "sluice/core/compiled.hpp"
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
#include "sluice/report/npy.inl.hpp"
#endif
