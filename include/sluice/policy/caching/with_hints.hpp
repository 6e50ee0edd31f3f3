// SPDX-License-Identifier: Apache-2.0
// WithHints: any Caching policy, for clients that say how long and how much of their KV to keep.
#pragma once

#include "sluice/policy/caching/caching.hpp"

#include <algorithm>

namespace sluice {

/// `Base` where a client says nothing. `ttl` pins the KV for so long, unless that is longer than `longest`: then the KV
/// is as any other, since room on the device that a paused session holds is taken from those that run. `keep` writes,
/// pins and expects no more than so many tokens; `release` writes and pins nothing, and what only this session has used
/// leaves the first tier first; `prefetch` brings the KV to the first tier by then.
template <Caches Base>
struct WithHints : Base {
  static constexpr HintSet uses_hints{.ttl = true, .keep = true, .release = true, .prefetch = true};

  Seconds longest{5};

  Tokens write(const View& view, const RequestRow& row) const requires(!RemembersWrites<Base>) {
    return std::min(Base::write(view, row), row.hints(heeded<WithHints>).kept());
  }
  template <class State>
  Tokens write(State& state, const View& view, const RequestRow& row) const requires RemembersWrites<Base> {
    return std::min(Base::write(state, view, row), row.hints(heeded<WithHints>).kept());
  }
  template <class Cost>
  Worth worth(const View& view, const RequestRow& row, const Cost& cost) const {
    const SessionHints said = row.hints(heeded<WithHints>);
    Worth worth = Base::worth(view, row, cost);
    worth.kept = std::min(worth.kept, said.kept());
    worth.returns = said.release ? Seconds{0} : said.prefetch;
    if (said.release)
      worth.pinned = Seconds{0};
    else if (said.ttl.count() > 0)
      worth.pinned = said.ttl <= longest ? said.ttl : Seconds{0};
    return worth;
  }
};

} // namespace sluice
