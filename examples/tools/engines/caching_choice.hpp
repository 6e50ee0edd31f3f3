// SPDX-License-Identifier: Apache-2.0
// CachingChoice: what systems on a real machine keep of requests, and load of found prefixes, selected per run.
#pragma once

#include "sluice/engine/caching.hpp"
#include "sluice/policy/caching/if_faster.hpp"
#include "sluice/policy/caching/when_ended.hpp"
#include "sluice/policy/caching/within_slos.hpp"
#include "sluice/policy/caching/write_through.hpp"

#include "engines/host_caching.hpp"

#include <algorithm>

namespace engines {

/// The library's policies, selected at run time: every system runs with each of them, and one type for all divides the
/// number of engines that the program instantiates. For systems without a Caching policy of their own.
struct CachingChoice : sluice::WriteThrough {
  static constexpr sluice::HintSet uses_hints{.ttl = true, .keep = true, .release = true};

  HostCaching says;

  sluice::Tokens write(const sluice::View& view, const sluice::RequestRow& row) const {
    return std::min(row.hints(sluice::heeded<CachingChoice>).kept(), write_unhinted(view, row));
  }
  template <class Cost>
  sluice::Worth worth(const sluice::View& /*view*/, const sluice::RequestRow& row, const Cost& /*cost*/) const {
    const sluice::SessionHints said = row.hints(sluice::heeded<CachingChoice>);
    sluice::Worth worth;
    worth.kept = said.kept();
    worth.pinned = said.release ? sluice::Seconds{0} : said.ttl.count() > 0 ? said.ttl : says.pinned;
    return worth;
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

 private:
  [[nodiscard]] sluice::Tokens write_unhinted(const sluice::View& view, const sluice::RequestRow& row) const {
    sluice::WriteThrough through;
    through.saves_answers = says.write != HostWrite::prompts;
    if (says.write == HostWrite::ended) return sluice::WhenEnded<sluice::WriteThrough>{through}.write(view, row);
    return says.write == HostWrite::never ? sluice::Tokens{0} : through.write(view, row);
  }
};

} // namespace engines
