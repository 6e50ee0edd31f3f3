// SPDX-License-Identifier: Apache-2.0
// SoonestFirst: the host keeps the KV of the sessions that will come back the soonest, and has it by then.
#pragma once

#include "sluice/policy/caching/write_through.hpp"

#include <algorithm>

namespace sluice {

/// KVFlow's idea (NeurIPS 2025, arXiv:2507.07400). The paper knows an agent workflow's graph: the KV of the agent that
/// is the most steps away leaves first, and the next agent's is fetched before its turn. Here clients say the time
/// (`prefetch`), as no server knows the graph. The host evicts blocks that nobody has announced, then those of the
/// sessions that return last, then those that requests wait for, the last request's first. What only its session has
/// used leaves first when the session releases it.
struct SoonestFirst : BasicWriteThrough<Writes::behind, Feed::evicted> {
  static constexpr bool looks_ahead = true;
  static constexpr HintSet uses_hints{.keep = true, .release = true, .prefetch = true};

  /// The host's memory, ordered by the next use.
  [[nodiscard]] static Tier first_tier(Tier host) {
    host.replacement = Replacement::least_worth;
    return host;
  }
  Tokens write(const View& view, const RequestRow& row) const {
    return std::min(BasicWriteThrough::write(view, row), row.hints(heeded<SoonestFirst>).kept());
  }
  /// Above 1 for a request that waits, the more the earlier it arrived; up to 1 for one that is announced.
  template <class Cost>
  Worth worth(const View& view, const RequestRow& row, const Cost& /*cost*/) const {
    if (row.phase == Phase::waiting) return {1 + 1 / (1 + row.spec.arrival.count())};
    if (row.phase != Phase::ended) return {};
    const SessionHints said = row.hints(heeded<SoonestFirst>);
    Worth worth;
    worth.kept = said.kept();
    worth.returns = said.release ? Seconds{0} : said.prefetch;
    if (worth.returns.count() > 0) worth.score = 1 / (1 + (view.now + worth.returns).count());
    return worth;
  }
};

static_assert(explain<SoonestFirst>());

} // namespace sluice
