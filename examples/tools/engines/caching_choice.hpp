// SPDX-License-Identifier: Apache-2.0
// CachingChoice: how much of a found prefix systems on a real machine load, selected per run.
#pragma once

#include "sluice/engine/caching.hpp"
#include "sluice/policy/caching/if_faster.hpp"
#include "sluice/policy/caching/within_slos.hpp"
#include "sluice/policy/caching/write_through.hpp"

#include "engines/host_reuse.hpp"

namespace engines {

/// `WriteThrough`, `IfFaster` or `WithinSlos`, selected at run time: every system runs with each of them, and one type
/// for all divides the number of engines that the program instantiates by three. For systems without a Caching policy
/// of their own.
struct CachingChoice : sluice::WriteThrough {
  HostReuse loads = HostReuse::if_faster;

  template <class Cost>
  sluice::Reuse reuse(const sluice::View& view, const sluice::RequestRow& row, const sluice::FoundPrefix& found,
                      const Cost& cost, const sluice::Estimate& estimate) const {
    switch (loads) {
    case HostReuse::all:
      return sluice::WriteThrough::reuse(view, row, found, cost);
    case HostReuse::if_faster:
      return sluice::IfFaster<sluice::WriteThrough>{}.reuse(view, row, found, cost);
    case HostReuse::within_slos:
      break;
    }
    return sluice::WithinSlos<sluice::WriteThrough>{}.reuse(view, row, found, cost, estimate);
  }
};

} // namespace engines
