// SPDX-License-Identifier: Apache-2.0
// Bundle: the files of a measurement, which appear together.
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

/// Refuses a folder in which a bundle would replace a model's own config.json: that of `model` (a folder, or a name
/// that is none), or any with weights.
inline sluice::Status check_out(const std::filesystem::path& out, const std::filesystem::path& model) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const auto refused = [&](const std::string& what) {
    return sluice::Error{sluice::ErrorCode::bad_input, "--out",
                         "'" + sluice::excerpt(out.string(), 200) + "' " + what + ", which would be replaced",
                         "a folder of the measurement's own"};
  };
  const fs::path config = "config.json"; // of the folder itself, or by a link, which is written through
  if (fs::equivalent(out / config, model / config, ignored)) return refused("has the config.json of --model");
  const fs::directory_iterator end;
  for (fs::directory_iterator file(out, ignored); file != end; file.increment(ignored))
    if (file->path().extension() == ".safetensors")
      return refused("has the config.json of " + sluice::excerpt(file->path().filename().string(), 100));
  return {};
}

/// The six files are opened before the long work, so that they are known to be writable, and get their names at its
/// end. What is stopped before leaves the folder as it was, or, killed, at most an empty one.
class Bundle {
 public:
  static constexpr std::array<const char*, 6> names{"config.json",   "dense.csv", "per_sequence.csv",
                                                    "attention.csv", "link.csv",  "device.json"};

  /// Makes the folder where it is not there. Errors name --out.
  static sluice::Expected<Bundle> open(const std::string& folder) {
    namespace fs = std::filesystem;
    std::error_code wrong;
    Bundle bundle;
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

  /// Writes all, as `names` has them, before the first gets its name: room for them may run out, names do not.
  sluice::Status finish(const std::array<std::string, 6>& texts) {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const auto bytes = std::as_bytes(std::span<const char>(texts[i]));
      if (sluice::Status status = files_[i].write(0, bytes); !status) return of_flag(status.error());
    }
    for (sluice::UnfinishedFile& file : files_)
      if (sluice::Status status = file.finish(); !status) return of_flag(status.error());
    return {};
  }

 private:
  /// Takes an empty folder away; one with files in it stays.
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

  std::unique_ptr<const std::filesystem::path, Remove> made_; ///< goes after the files
  std::vector<sluice::UnfinishedFile> files_;
};

} // namespace profiled
