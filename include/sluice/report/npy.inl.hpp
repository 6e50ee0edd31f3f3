// SPDX-License-Identifier: Apache-2.0
// NpyWriter: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/report/npy.hpp"

namespace sluice {

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
