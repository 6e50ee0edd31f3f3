// SPDX-License-Identifier: Apache-2.0
// QueueAware: what waiting requests need is fetched before their turn, and evicted last.
#pragma once

#include "sluice/policy/caching/write_through.hpp"

namespace sluice {

/// CachedAttention (USENIX ATC 2024): KV of all sessions is saved behind the computation; what the host evicts goes to
/// the disk, and comes back as soon as a request that needs it has arrived. The host evicts blocks that no waiting
/// request needs first, then those of the request that arrived last. Loads are layer by layer.
struct QueueAware : BasicWriteThrough<Writes::behind, Feed::evicted> {
  static constexpr bool looks_ahead = true;

  /// The host's memory, ordered by the queue.
  [[nodiscard]] static Tier first_tier(Tier host) {
    host.replacement = Replacement::least_worth;
    return host;
  }
  /// More for a waiting request than for any other, and the more the earlier it arrived.
  template <class Cost>
  Worth worth(const View& /*view*/, const RequestRow& row, const Cost& /*cost*/) const {
    return {row.phase == Phase::waiting ? 1 / (1 + row.spec.arrival.count()) : 0, Seconds{0}};
  }
};

static_assert(explain<QueueAware>());

} // namespace sluice
