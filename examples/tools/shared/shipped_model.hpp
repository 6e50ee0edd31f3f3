// SPDX-License-Identifier: Apache-2.0
// shipped_model: the folder of a model that comes with the programs.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>

/// `share/sluice/models/NAME` beside the folder that the program lies in: so it is in a build (examples/models copies
/// it there) and wherever bin/ and share/ are put. Of the models only `demo` is there. Rejected: the path of the
/// sources, compiled in, which is another machine's when a program is moved, and gives the compiler cache another
/// program.
inline std::string shipped_model(const std::string& name) {
  std::error_code ignored; // where there is no /proc the folder is looked for beside the current one
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  return (program.parent_path().parent_path() / "share" / "sluice" / "models" / name).string();
}
