// SPDX-License-Identifier: Apache-2.0
// LeastWaste: holds a paused session's KV on the device as long as that wastes less memory than bringing it back.
#pragma once

#include "sluice/policy/caching/if_faster.hpp"
#include "sluice/policy/caching/write_through.hpp"

#include <algorithm>

namespace sluice {

/// InferCept's rule (ICML 2024, section 4) for the KV of a request that pauses. Three ways waste memory times seconds:
///
///   preserve   the pause x its tokens
///   swap       twice the time of its transfer x the tokens of the whole batch
///   discard    the time of computing it again x its own tokens and the batch's
///
/// If the client says how long the pause will last (`ttl`), the KV is pinned for that long if this wastes the least,
/// and else not at all. Without a word it is unknown; as the paper estimates it by the time that has passed, preserving
/// is best until it has wasted as much as the better of the other two: the pin's length. KV goes to the host behind the
/// computation, which hides the swap, and is computed again if that is faster than to load it.
struct LeastWaste : WriteThrough {
  static constexpr HintSet uses_hints{.ttl = true, .release = true};

  template <class Cost>
  Worth worth(const View& view, const RequestRow& row, const Cost& cost) const {
    const Tokens own = row.computed;
    const SessionHints said = row.hints(heeded<LeastWaste>);
    if (own.count() == 0 || said.release) return {};
    Tokens batch{0};
    for (const Slot slot : view.running)
      if (const RequestRow& other = view.row(slot); other.id != row.id) batch += other.computed;
    const auto tokens = [](Tokens some) { return static_cast<double>(some.count()); };
    const double swap = 2 * load_time(view, cost, own).count() * tokens(own + batch);
    const double discard = compute_time_of(view, cost, own, Tokens{0}).count() * tokens(own + batch);
    const Seconds longest{std::min(swap, discard) / tokens(own)};
    return {0, said.ttl.count() == 0 ? longest : said.ttl <= longest ? said.ttl : Seconds{0}};
  }
};

static_assert(explain<LeastWaste>());

} // namespace sluice
