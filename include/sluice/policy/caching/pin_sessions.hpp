// SPDX-License-Identifier: Apache-2.0
// PinSessions: the device holds a session's KV for a while after each answer; nothing is copied.
#pragma once

#include "sluice/policy/caching/caching.hpp"

namespace sluice {

/// A pin with a time to live, as Continuum (arXiv:2511.02230) gives one to an agent's KV while its tool runs. The paper
/// derives the time from the tool's past durations; its code takes 2.0 s if their mean is at most 2 s or unknown. Here
/// it is unknown, and so is whether an answer was its session's last, unless the client says so: `ttl` is then the
/// pin's length, and `release` pins nothing.
struct PinSessions {
  using role = roles::Caching;
  static constexpr bool caches = true;
  static constexpr Writes writes = Writes::behind;
  static constexpr Feed feed = Feed::written;
  static constexpr HintSet uses_hints{.ttl = true, .release = true};

  Seconds pinned{2.0};

  Tokens write(const View& /*view*/, const RequestRow& /*row*/) const { return Tokens{0}; }
  template <class Cost>
  Reuse reuse(const View& /*view*/, const RequestRow& /*row*/, const FoundPrefix& /*found*/,
              const Cost& /*cost*/) const {
    return {};
  }
  template <class Cost>
  Worth worth(const View& /*view*/, const RequestRow& row, const Cost& /*cost*/) const {
    const SessionHints said = row.hints(heeded<PinSessions>);
    return {0, said.release ? Seconds{0} : said.ttl.count() > 0 ? said.ttl : pinned};
  }
};

static_assert(explain<PinSessions>());

} // namespace sluice
