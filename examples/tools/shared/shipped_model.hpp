// SPDX-License-Identifier: Apache-2.0
// shipped_model: the folder of a model that comes with the programs.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>

/// Returns `share/sluice/models/NAME` next to the program's folder. That is correct in a build (examples/models copies
/// it there) and wherever bin/ and share/ are installed. `demo` is the only model there. Rejected: compiling in the
/// path of the sources, which is wrong after a program is moved, and makes the compiler cache miss.
inline std::string shipped_model(const std::string& name) {
  std::error_code ignored; // without /proc, the folder is searched next to the current one
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  return (program.parent_path().parent_path() / "share" / "sluice" / "models" / name).string();
}
