// SPDX-License-Identifier: Apache-2.0
// Shipped files: models and profiles that are found by name beside the programs.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>

/// `share/sluice/KIND/NAME` next to the folder of the program: that is correct in a build (examples/models copies the
/// models there) and wherever bin/ and share/ are installed. Rejected: compiling in the path of the sources, which is
/// wrong after a program is moved, and makes the compiler cache miss.
inline std::string shipped(const std::string& kind, const std::string& name) {
  std::error_code ignored; // without /proc the folder is searched next to the current one
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  return (program.parent_path().parent_path() / "share" / "sluice" / kind / name).string();
}

/// A model that comes with the programs. `demo` is the only one.
inline std::string shipped_model(const std::string& name) { return shipped("models", name); }

/// What `--profile` names: a file or folder, or else a bundle in share/sluice/profiles. The name unchanged if there is
/// neither.
inline std::string profile_at(const std::string& name) {
  std::error_code ignored;
  if (name.empty() || std::filesystem::exists(name, ignored)) return name;
  const std::string found = shipped("profiles", name);
  return std::filesystem::is_directory(found, ignored) ? found : name;
}
