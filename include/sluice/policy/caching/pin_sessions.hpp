// SPDX-License-Identifier: Apache-2.0
// PinSessions: the device holds a session's KV for a while after each answer; nothing is copied.
#pragma once

#include "sluice/policy/caching/caching.hpp"

namespace sluice {

/// A pin with a time to live, as Continuum (arXiv:2511.02230) gives one to an agent's KV while its tool runs. The paper
/// derives the time from the tool's past durations; its code takes 2.0 s if their mean is at most 2 s or unknown. Here
/// it is always unknown, and so is whether an answer was its session's last.
struct PinSessions {
  using role = roles::Caching;
  static constexpr bool caches = true;
  static constexpr Writes writes = Writes::behind;
  static constexpr Feed feed = Feed::written;

  Seconds pinned{2.0};

  Tokens write(const View& /*view*/, const RequestRow& /*row*/) const { return Tokens{0}; }
  template <class Cost>
  Reuse reuse(const View& /*view*/, const RequestRow& /*row*/, const FoundPrefix& /*found*/,
              const Cost& /*cost*/) const {
    return {};
  }
  template <class Cost>
  Worth worth(const View& /*view*/, const RequestRow& /*row*/, const Cost& /*cost*/) const {
    return {0, pinned};
  }
};

static_assert(explain<PinSessions>());

} // namespace sluice
