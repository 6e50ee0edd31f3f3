// SPDX-License-Identifier: Apache-2.0
// A hook with a typo in its name must not pass for a policy without that hook: every hook is required.
// sentences: 1
// says: this Relief policy needs .bool may_return\(const View&, const RequestRow&\) const.
#include "sluice/policy/relief/relief.hpp"

struct LastOne {
  using role = sluice::roles::Relief;
  struct State {};
  static constexpr sluice::Parting parting = sluice::Parting::preempt;
  std::size_t choose(const sluice::View&, State&, std::span<const sluice::Claim> candidates) const {
    return candidates.size() - 1;
  }
#ifdef GOOD
  bool may_return(const sluice::View&, const sluice::RequestRow&) const { return true; }
#else
  bool may_retrun(const sluice::View&, const sluice::RequestRow&) const { return true; }
#endif
};

static_assert(sluice::explain<LastOne>());
