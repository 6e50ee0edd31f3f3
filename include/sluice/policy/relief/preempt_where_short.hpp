// SPDX-License-Identifier: Apache-2.0
// PreemptWhereShort: preempts the newest request whose KV is in the memory that is short.
#pragma once

#include "sluice/policy/relief/relief.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice {

/// For an Admission that divides the requests between device and host (`Claim::on_host`). If those on the device need
/// more than the device has, the victim is the newest of them; otherwise the newest on the host. Preempting a request
/// of the other memory would free nothing where room is needed. Which is newest is decided by arrival, since the claims
/// are in Admission's order. NEO's code has no such case: it ends when its host is full.
struct PreemptWhereShort {
  using role = roles::Relief;
  struct State {};
  static constexpr Parting parting = Parting::preempt;

  std::size_t choose(const View& view, State& /*state*/, std::span<const Claim> candidates) const {
    std::int64_t needed = 0;
    for (const Claim& claim : candidates)
      if (!claim.on_host)
        needed +=
            view.geometry.kv_of(view.row(claim.slot).blocks_after(claim.tokens, view.limits.block_tokens)).count();
    const bool device_is_short = needed > view.ledger->device().capacity().count();
    std::size_t newest = candidates.size();
    for (const bool anywhere : {false, true}) {
      for (std::size_t i = 0; i < candidates.size(); ++i) {
        if (!anywhere && candidates[i].on_host == device_is_short) continue;
        if (newest == candidates.size() || view.row(candidates[newest].slot).id < view.row(candidates[i].slot).id)
          newest = i;
      }
      if (newest < candidates.size()) break;
    }
    return newest;
  }
  bool may_return(const View& /*view*/, const RequestRow& /*row*/) const { return true; }
};

static_assert(Relief<PreemptWhereShort>);

} // namespace sluice
