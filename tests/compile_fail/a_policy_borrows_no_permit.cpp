// SPDX-License-Identifier: Apache-2.0
// A policy cannot read lengths with the permission of another one, though that one has it.
// sentences: 0
// says[GNU]: LengthPermit<P>::LengthPermit.. .with P = sluice::KnownLength.. is private within this context
// says[Clang]: calling a private constructor of class 'sluice::LengthPermit<sluice::KnownLength>'
// says[nvcc]: LengthPermit.*is inaccessible
#include "sluice/policy/admission/least_first.hpp"
#include "sluice/policy/admission/output_length.hpp"

using namespace sluice;

struct ShortestAnswer {
  struct State {};
#ifdef GOOD
  static constexpr bool knows_lengths = true;
  double operator()(State&, const RequestRow& row) const {
    return static_cast<double>(row.output(LengthPermit<ShortestAnswer>{}).count());
  }
#else
  static constexpr bool knows_lengths = false;
  double operator()(State&, const RequestRow& row) const {
    return static_cast<double>(row.output(LengthPermit<KnownLength>{}).count());
  }
#endif
};
static_assert(explain<BasicLeastFirst<ShortestAnswer>>());
