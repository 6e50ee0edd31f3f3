// SPDX-License-Identifier: Apache-2.0
// with_whole_output: makes a program report that it could not print its whole output.
#pragma once

#include <cstdio>
#include <iostream>
#include <system_error>

/// Calls `act()`, a program's main function, and returns its exit status. Prints one line and returns 2 if standard
/// output could not be written, for example because the disk is full: readers must not take half a table for a whole
/// one.
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
    if (!broken()) throw; // fmt throws if it cannot write
  }
  if (!broken()) return status;
  std::fprintf(stderr, "%s: standard output: it cannot be written; expected room for it\n", program);
  return 2;
}
