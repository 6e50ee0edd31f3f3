// SPDX-License-Identifier: Apache-2.0
// A policy's number has a range.
// sentences: 0
// says[GNU]: call to non-.constexpr. function .*the_least_value_is_above_the_most
// says[Clang]: constexpr variable .numbers. must be initialized by a constant expression
// says[nvcc]: constant
#include "sluice/core/numbers.hpp"

struct Policy {
  double share = 0.5;
#ifdef GOOD
  static constexpr auto numbers = sluice::Numbers{"Policy", sluice::Number{"share", &Policy::share, 0, 1, "of it"}};
#else
  static constexpr auto numbers = sluice::Numbers{"Policy", sluice::Number{"share", &Policy::share, 1, 0, "of it"}};
#endif
};
