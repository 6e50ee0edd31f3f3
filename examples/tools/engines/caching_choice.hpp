// SPDX-License-Identifier: Apache-2.0
// CachingChoice: what systems on a real machine keep of requests, and load of found prefixes, selected per run.
#pragma once

#include "sluice/engine/caching.hpp"
#include "sluice/policy/caching/if_faster.hpp"
#include "sluice/policy/caching/when_ended.hpp"
#include "sluice/policy/caching/within_slos.hpp"
#include "sluice/policy/caching/write_through.hpp"

#include "engines/host_caching.hpp"

namespace engines {

/// The library's policies, selected at run time: every system runs with each of them, and one type for all divides the
/// number of engines that the program instantiates. For systems without a Caching policy of their own.
struct CachingChoice : sluice::WriteThrough {
  HostCaching says;

  sluice::Tokens write(const sluice::View& view, const sluice::RequestRow& row) const {
    sluice::WriteThrough through;
    through.saves_answers = says.write != HostWrite::prompts;
    if (says.write == HostWrite::ended) return sluice::WhenEnded<sluice::WriteThrough>{through}.write(view, row);
    return says.write == HostWrite::never ? sluice::Tokens{0} : through.write(view, row);
  }
  template <class Cost>
  sluice::Reuse reuse(const sluice::View& view, const sluice::RequestRow& row, const sluice::FoundPrefix& found,
                      const Cost& cost, const sluice::Estimate& estimate) const {
    switch (says.reuse) {
    case HostReuse::all:
      return sluice::WriteThrough::reuse(view, row, found, cost);
    case HostReuse::if_faster:
      return sluice::IfFaster<sluice::WriteThrough>{}.reuse(view, row, found, cost);
    case HostReuse::within_slos:
      break;
    }
    return sluice::WithinSlos<sluice::WriteThrough>{}.reuse(view, row, found, cost, estimate);
  }
  template <class Cost>
  sluice::Worth worth(const sluice::View& /*view*/, const sluice::RequestRow& /*row*/, const Cost& /*cost*/) const {
    return {0, says.pinned};
  }
};

} // namespace engines
