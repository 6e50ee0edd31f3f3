// SPDX-License-Identifier: Apache-2.0
// measure: what a model takes on this machine, as a folder that sluice-compare reads.
#pragma once

#include "sluice/core/expected.hpp"

#include <string>

namespace profiled {

struct MeasureOptions {
  std::string model = "tiny"; ///< or a folder with weights
  std::string out;            ///< the folder, made where it is not there
  int threads = 1;
  double seconds = 30; ///< to measure for; what must be measured is, however long it takes
  double link = 0;     ///< bytes a second that the copy engine is told; 0: as fast as memory is
  bool quiet = false;
};

/// Measures, and writes the files of a `Bundle`. Warns on standard error where repeated timings spread. Errors name the
/// flag: no such model, and a folder that cannot be written to or is a model's.
sluice::Status measure(const MeasureOptions& options);

} // namespace profiled
