// SPDX-License-Identifier: Apache-2.0
// Refuse: the newest request is refused, with the reason, instead of being preempted.
#pragma once

#include "sluice/policy/relief/relief.hpp"

#include <cstddef>
#include <span>

namespace sluice {

/// Older requests keep their place: the newest candidate is refused for good. (Select-N refuses what it cannot serve
/// within the SLO, as a server that sheds load does.)
struct Refuse {
  using role = roles::Relief;
  struct State {};
  static constexpr Parting parting = Parting::refuse;

  std::size_t choose(const View& /*view*/, State& /*state*/, std::span<const Claim> candidates) const {
    return candidates.size() - 1;
  }
  bool may_return(const View& /*view*/, const RequestRow& /*row*/) const { return true; }
};

static_assert(Relief<Refuse>);

} // namespace sluice
