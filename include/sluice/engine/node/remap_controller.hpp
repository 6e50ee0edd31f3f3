// SPDX-License-Identifier: Apache-2.0
// RemapController: decides which models lend their weights' memory when the active model's KV runs out (MIRAGE).
#pragma once

#include "sluice/engine/node/coordinator.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

namespace sluice {

/// MIRAGE's controller (5.1, 5.2, Algorithm 1). When KV runs out, memory is taken one layer at a time: from inactive
/// models first, the lowest priority before the others, and at equal priority from the model that was active last,
/// whose turn is the furthest away under round robin (MRU; LRU for comparison). Each model gives as many layers as it
/// can bring back while it computes its first prompt, and at most its cap (`ParameterRemap::most_layers`). Only then
/// does the active model use its own layers' memory: that is its own `ParameterRemap`, which takes the borrowed memory
/// into account.
///
/// With `revert`, when KV needs less, the borrower first returns what it would take last (dynamic reversion, 7.6.1),
/// once one more layer would be spare, and everything when it has no request left. A borrower is not preempted when the
/// lender's turn comes: the lender streams the missing layers until they return. The paper leaves this open.
struct RemapController {
  using role = roles::Coordinator;
  static constexpr bool lends = true;
  static constexpr bool grants = false;
  enum class Order : std::uint8_t { most_recent_first, least_recent_first };

  Order order = Order::most_recent_first;
  bool revert = true;

  void lend(std::span<const Member> members, std::size_t asks, Bytes missing, std::span<int> layers) const {
    std::vector<std::size_t> lenders(members.size());
    std::iota(lenders.begin(), lenders.end(), std::size_t{0});
    std::erase(lenders, asks);
    std::sort(lenders.begin(), lenders.end(), [&](std::size_t a, std::size_t b) {
      if (members[a].priority != members[b].priority) return members[a].priority < members[b].priority;
      const Seconds first = members[a].active_until;
      const Seconds second = members[b].active_until;
      if (first != second) return order == Order::most_recent_first ? first > second : first < second;
      return a < b;
    });
    const auto bytes = [&](std::size_t i) { return members[i].layer_weight_bytes.count(); };
    std::int64_t needed = missing.count();
    for (const std::size_t i : lenders) needed -= layers[i] * bytes(i);
    bool took = false;
    for (const std::size_t i : lenders)
      for (int lent = members[i].lent; needed > 0 && members[i].inactive && lent < members[i].lendable; ++lent) {
        ++layers[i];
        needed -= bytes(i);
        took = true;
      }
    if (!revert || took) return;
    // The last lender gets its memory back first. One spare layer is kept: without that margin the number would change
    // with every block.
    std::reverse(lenders.begin(), lenders.end());
    for (const std::size_t i : lenders)
      while (layers[i] > 0 && (!members[asks].alive || -needed >= 2 * bytes(i))) {
        --layers[i];
        needed += bytes(i);
      }
  }
  [[nodiscard]] int grant(std::span<const Member> /*members*/, std::size_t /*asks*/) const {
    return std::numeric_limits<int>::max();
  }
};

static_assert(Coordinator<RemapController>);

} // namespace sluice
