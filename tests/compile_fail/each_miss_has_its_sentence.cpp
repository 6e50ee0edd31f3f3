// SPDX-License-Identifier: Apache-2.0
// Two missed requirements give two messages in one compilation, so that a user can fix both at once.
// sentences: 2
// says: this Relief policy needs a nested .State.: write .struct State \{\}.
// says: this Relief policy needs .static constexpr Parting parting
#include "sluice/policy/relief/relief.hpp"

struct LastOne {
  using role = sluice::roles::Relief;
#ifdef GOOD
  struct State {};
  static constexpr sluice::Parting parting = sluice::Parting::preempt;
  std::size_t choose(const sluice::View&, State&, std::span<const sluice::Claim> candidates) const {
    return candidates.size() - 1;
  }
#endif
  bool may_return(const sluice::View&, const sluice::RequestRow&) const { return true; }
};

static_assert(sluice::explain<LastOne>());
