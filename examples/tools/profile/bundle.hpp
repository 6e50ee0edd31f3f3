// SPDX-License-Identifier: Apache-2.0
// Bundle: the files of a measurement, which all appear at once.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/text.hpp"
#include "sluice/report/unfinished_file.hpp"

#include <array>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace profiled {

/// Refuses a folder where a bundle would replace a model's own config.json: the folder of `model` (a path, or a name
/// without a folder), or any folder with weights.
inline sluice::Status check_out(const std::filesystem::path& out, const std::filesystem::path& model) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const auto refused = [&](const std::string& what) {
    return sluice::Error{sluice::ErrorCode::bad_input, "--out",
                         "'" + sluice::excerpt(out.string(), 200) + "' " + what + ", which would be replaced",
                         "a folder of the measurement's own"};
  };
  const fs::path config = "config.json"; // in the folder itself, or behind a link that a write would follow
  if (fs::equivalent(out / config, model / config, ignored)) return refused("has the config.json of --model");
  const fs::directory_iterator end;
  for (fs::directory_iterator file(out, ignored); file != end; file.increment(ignored))
    if (file->path().extension() == ".safetensors")
      return refused("has the config.json of " + sluice::excerpt(file->path().filename().string(), 100));
  return {};
}

/// The files are opened before the long measurement, which proves that they are writable, and get their names at
/// its end. If the program stops early, the folder is unchanged; if it is killed, at most an empty folder remains.
class Bundle {
 public:
  static constexpr std::array<const char*, 8> names{"config.json", "dense.csv",   "per_sequence.csv", "attention.csv",
                                                    "link.csv",    "device.json", "meta.yaml",        "skew.csv"};

  /// Creates the folder if it does not exist. Errors name --out.
  static sluice::Expected<Bundle> open(const std::string& folder) {
    namespace fs = std::filesystem;
    std::error_code wrong;
    Bundle bundle;
    bundle.folder_ = folder;
    const bool made = fs::create_directories(folder, wrong);
    if (wrong || !fs::is_directory(folder, wrong))
      return sluice::Error{sluice::ErrorCode::bad_input, "--out", folder + " is no folder and cannot be made",
                           "a folder to write"};
    if (made) bundle.made_.reset(new fs::path(folder));
    bundle.files_.reserve(names.size());
    for (const char* name : names) {
      sluice::Expected<sluice::UnfinishedFile> file =
          sluice::UnfinishedFile::create((fs::path(folder) / name).string());
      if (!file) return of_flag(file.error());
      bundle.files_.push_back(std::move(*file));
    }
    return bundle;
  }

  /// Writes all texts, in the order of `names`, before the first file gets its name: writing can run out of space,
  /// renaming cannot. A file with an empty text is left out, and an earlier measurement's is removed.
  sluice::Status finish(const std::array<std::string, names.size()>& texts) {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const auto bytes = std::as_bytes(std::span<const char>(texts[i]));
      if (sluice::Status status = files_[i].write(0, bytes); !status) return of_flag(status.error());
    }
    for (std::size_t i = 0; i < texts.size(); ++i) {
      std::error_code ignored;
      if (texts[i].empty())
        std::filesystem::remove(folder_ / names[i], ignored);
      else if (sluice::Status status = files_[i].finish(); !status)
        return of_flag(status.error());
    }
    return {};
  }

 private:
  /// Removes the folder if it is empty.
  struct Remove {
    void operator()(const std::filesystem::path* folder) const {
      std::error_code ignored;
      std::filesystem::remove(*folder, ignored);
      delete folder;
    }
  };

  Bundle() = default;
  static sluice::Error of_flag(sluice::Error error) {
    error.where = "--out: " + error.where;
    return error;
  }

  std::filesystem::path folder_;
  std::unique_ptr<const std::filesystem::path, Remove> made_; ///< declared before the files, so destroyed after them
  std::vector<sluice::UnfinishedFile> files_;
};

} // namespace profiled
