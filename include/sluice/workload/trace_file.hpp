// SPDX-License-Identifier: Apache-2.0
// open_trace_file: opens a trace's file.
#pragma once

#include "sluice/core/expected.hpp"

#include <filesystem>
#include <fstream>
#include <istream>
#include <memory>
#include <string>
#include <system_error>

namespace sluice {

/// Opens `path` for reading. A folder is an error here, because opening it succeeds and reading it fails without a
/// reason.
inline Expected<std::unique_ptr<std::istream>> open_trace_file(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return Error{ErrorCode::bad_input, path, "this is a folder", "a file"};
  }
  std::unique_ptr<std::istream> file = std::make_unique<std::ifstream>(path, std::ios::binary);
  if (!*file) return Error{ErrorCode::not_found, path, "the file cannot be opened", "a readable file"};
  return file;
}

} // namespace sluice
