// SPDX-License-Identifier: Apache-2.0
// suite: replays every recording that is found, and says how far each figure is off.
#pragma once

#include <string>

struct SuiteOptions {
  std::string recordings; ///< folder that is searched
  std::string profiles;   ///< folder of bundles; empty: `profiles` in that folder or beside it
  std::string iterations; ///< folder for pictures of iterations; empty: none
  bool json = false;
  bool ablation = true;
};

/// Prints the table, or JSON. Returns the exit status: 1 if a bound is missed, 2 if a recording cannot be read.
int run_suite(const SuiteOptions& options);
