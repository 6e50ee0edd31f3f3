// SPDX-License-Identifier: Apache-2.0
// BundleFiles: the files of an imported bundle, with their provenance.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/report/unfinished_file.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
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
  /// Before the names of facts that are true of one tpN alone ("tp2_"), so that a bundle may get several imports; empty
  /// for tp1.
  std::string fact;

  /// Writes the files; those that are there are replaced, others stay, and so do the facts of other tpN in meta.yaml.
  /// Errors: the folder is a bundle of another GPU; it cannot be written.
  [[nodiscard]] sluice::Status write(const std::string& folder) const {
    using namespace sluice;
    std::string lines;
    for (const std::string& line : meta) lines += line + "\n";
    const auto key_of = [](std::string_view line) { return line.substr(0, line.find(':')); };
    const auto of_one_part = [&](std::string_view line) {
      return line.starts_with("tp") && key_of(line).find('_') != line.npos;
    };
    std::ifstream before(std::filesystem::path(folder) / "meta.yaml");
    for (std::string line; std::getline(before, line);) {
      const auto same =
          std::find_if(meta.begin(), meta.end(), [&](const std::string& now) { return key_of(now) == key_of(line); });
      const bool of_this = fact.empty() ? !of_one_part(line) : line.starts_with(fact);
      if (same == meta.end() && !of_this)
        lines += line + "\n";
      else if (same == meta.end())
        continue; // an earlier import's, whose tables are replaced
      else if (key_of(line) == "gpu" && *same != line)
        return Error{ErrorCode::bad_input, "--out", folder + " has a bundle of " + excerpt(line.substr(5)),
                     "a new folder, or a bundle of " + same->substr(5)};
    }
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
