// SPDX-License-Identifier: Apache-2.0
// Every run-time error must be checked: an ignored Status is a warning, and warnings are errors here.
// sentences: 0
// says[GNU]: ignoring returned value of type 'sluice::Status'
// says[Clang]: ignoring return value of function declared with 'nodiscard' attribute
// not: nvcc (which has a warning of its own for this, that no pragma turns into an error)
#include "sluice/core/expected.hpp"

#pragma GCC diagnostic error "-Wunused-result"
sluice::Status parse();
#ifdef GOOD
bool use() { return parse().ok(); }
#else
bool use() {
  parse();
  return true;
}
#endif
