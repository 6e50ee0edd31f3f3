// SPDX-License-Identifier: Apache-2.0
// MadeBy: which Sluice a result comes from.
#pragma once

#include <string>

namespace sluice {

/// The Sluice that a program was built of. The headers do not know it: a header-only library has no moment of its own
/// at which it is built, and a commit among them would recompile everything at each one. A program fills this in, if it
/// knows (examples/tools/shared/version.cpp.in), and hands it to what writes results.
struct MadeBy {
  std::string version; ///< "0.1.0"; empty: not known
  std::string commit;  ///< "5f50bcf", with "-dirty" behind it where tracked files had changed; or "unknown"
  std::string build;   ///< "release", "debug"

  [[nodiscard]] bool known() const { return !version.empty(); }
  /// "sluice 0.1.0 (commit 5f50bcf, release build)".
  [[nodiscard]] std::string line() const {
    return known() ? "sluice " + version + " (commit " + commit + ", " + build + " build)" : "sluice";
  }
};

} // namespace sluice
