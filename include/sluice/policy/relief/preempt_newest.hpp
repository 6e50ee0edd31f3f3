// SPDX-License-Identifier: Apache-2.0
// PreemptNewest: preempts the request that joined last (vLLM; the default).
#pragma once

#include "sluice/policy/relief/relief.hpp"

#include <cstddef>
#include <span>

namespace sluice {

/// The last candidate in the order of the claims, which is the request that joined last. It may return as soon as there
/// is room, at the head of the queue (vLLM: `running.pop()`, `waiting.prepend_request`).
struct PreemptNewest {
  using role = roles::Relief;
  struct State {};
  static constexpr Parting parting = Parting::preempt;

  std::size_t choose(const View& /*view*/, State& /*state*/, std::span<const Claim> candidates) const {
    return candidates.size() - 1;
  }
  bool may_return(const View& /*view*/, const RequestRow& /*row*/) const { return true; }
};

static_assert(Relief<PreemptNewest>);

template <>
struct Default<roles::Relief> {
  using type = PreemptNewest;
};

} // namespace sluice
