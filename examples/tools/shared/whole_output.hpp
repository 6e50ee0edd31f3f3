// SPDX-License-Identifier: Apache-2.0
// with_whole_output: what a program prints is there in whole, or the program says that it is not.
#pragma once

#include <cstdio>
#include <iostream>
#include <system_error>

/// Calls `act()`, a program's main, and returns its exit status; 2 after one line where standard output could not be
/// written, as on a full disk: nobody shall take half a table for the whole.
template <class Act>
[[nodiscard]] int with_whole_output(const char* program, Act&& act) {
  const auto broken = [] {
    std::cout.flush();
    return !std::cout || std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
  };
  int status = 2;
  try {
    status = act();
  } catch (const std::system_error&) {
    if (!broken()) throw; // fmt throws where it cannot write
  }
  if (!broken()) return status;
  std::fprintf(stderr, "%s: standard output: it cannot be written; expected room for it\n", program);
  return 2;
}
