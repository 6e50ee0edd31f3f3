// SPDX-License-Identifier: Apache-2.0
// The library never guesses whether an Admission knows lengths: a missing declaration is an error message.
// sentences: 1
// says: this Admission policy needs .static constexpr bool knows_lengths = false;.
#include "sluice/policy/admission/admission.hpp"

using namespace sluice;

struct Closed {
  using role = roles::Admission;
  static constexpr bool steady = true;
#ifdef GOOD
  static constexpr bool knows_lengths = false;
#endif
  struct State {};
  void enter(State&, Slot, const RequestRow&) const {}
  void leave(State&, Slot, const RequestRow&) const {}
  void propose(const View&, State&, Proposal&) const {}
  void settle(const View&, std::span<Claim>) const {}
};
static_assert(explain<Closed>());
