// SPDX-License-Identifier: Apache-2.0
// An Admission that says knows_lengths = false cannot get the permission to read lengths; one that says true can.
// sentences: 1
// says: only an oracle may read how long an answer will be
#include "sluice/policy/admission/least_first.hpp"

using namespace sluice;

struct ShortestAnswer {
#ifdef GOOD
  static constexpr bool knows_lengths = true;
#else
  static constexpr bool knows_lengths = false;
#endif
  struct State {};
  double operator()(State&, const RequestRow& row) const {
    return static_cast<double>(row.output(LengthPermit<ShortestAnswer>{}).count());
  }
};
static_assert(explain<BasicLeastFirst<ShortestAnswer>>());
