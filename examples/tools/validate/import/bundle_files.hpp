// SPDX-License-Identifier: Apache-2.0
// BundleFiles: the files of an imported bundle, with their provenance.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/report/unfinished_file.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace imported {

/// A file's bytes.
inline sluice::Expected<std::string> read_bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return sluice::Error{sluice::ErrorCode::not_found, path.string(), "the file cannot be opened", "a readable file"};
  return std::string{std::istreambuf_iterator<char>(file), {}};
}

/// An imported bundle. Its files depend on the imported tables alone: they contain no time and no path.
struct BundleFiles {
  std::map<std::string, std::string> texts; ///< by path in the bundle: "tp1/dense.csv"
  std::vector<std::string> meta;            ///< lines of meta.yaml

  /// Writes the files; those that are there are replaced, others stay.
  [[nodiscard]] sluice::Status write(const std::string& folder) const {
    using namespace sluice;
    std::string lines;
    for (const std::string& line : meta) lines += line + "\n";
    std::map<std::string, std::string> all = texts;
    all["meta.yaml"] = std::move(lines);
    for (const auto& [name, text] : all) {
      const std::filesystem::path path = std::filesystem::path(folder) / name;
      std::error_code failed;
      std::filesystem::create_directories(path.parent_path(), failed);
      if (failed)
        return Error{ErrorCode::bad_input, "--out", folder + " is no folder and cannot be made", "a folder to write"};
      if (Status status = write_whole(path.string(), text); !status) return status;
    }
    return {};
  }
};

} // namespace imported
