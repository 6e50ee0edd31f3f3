// SPDX-License-Identifier: Apache-2.0
// MadeBy: the version of Sluice that made a result.
#pragma once

#include <string>

namespace sluice {

/// The version of Sluice in a program. The headers do not contain it: a header-only library is not built separately,
/// and a commit in a header would recompile everything at each commit. A program that knows its version sets these
/// fields (examples/tools/shared/version.cpp.in) and passes them to the functions that write results.
struct MadeBy {
  std::string version; ///< "0.1.0"; empty: not known
  std::string commit;  ///< "5f50bcf", followed by "-dirty" if tracked files had changed; or "unknown"
  std::string build;   ///< "release", "debug"

  [[nodiscard]] bool known() const { return !version.empty(); }
  /// "sluice 0.1.0 (commit 5f50bcf, release build)".
  [[nodiscard]] std::string line() const {
    return known() ? "sluice " + version + " (commit " + commit + ", " + build + " build)" : "sluice";
  }
};

} // namespace sluice
