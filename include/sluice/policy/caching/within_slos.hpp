// SPDX-License-Identifier: Apache-2.0
// WithinSlos: chooses how much of a found prefix to load, and how, so that requests miss their SLOs least.
#pragma once

#include "sluice/policy/caching/caching.hpp"
#include "sluice/policy/caching/join_forecast.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace sluice {

/// `Base`, which loads as much as keeps a newcomer's TTFT SLO without breaking anybody's TBT SLO, and computes the
/// rest. Two ways are tried, each with any number of blocks:
///
///   layerwise  the beginning is loaded in the first iteration, for which every running request waits
///   beside     the end is loaded while the beginning is computed, which takes longer, and no other request waits; not
///              where the backend can only load layer by layer
///
/// The choice is the one that the evaluator predicts to be the least late (`JoinCost`); among those that are not late,
/// the one with the earliest first token. All loaded and all computed are among them. A fetch from lower tiers, which
/// delays the newcomer alone, is waited for if that makes it less late or sooner.
template <Caches Base>
struct WithinSlos : Base {
  template <class Cost>
  Reuse reuse(const View& view, const RequestRow& row, const FoundPrefix& found, const Cost& cost,
              const Estimate& estimate) const {
    const Reuse base = Base::reuse(view, row, found, cost);
    JoinForecast forecast(view, row, found, estimate);
    const Choice now = choose(forecast, base.tokens, view.limits.block_tokens, Seconds{0}, found.only_layerwise);
    if (base.fetched.count() == 0 || row.has_fetched) return now.reuse;
    const Tokens all = base.tokens + base.fetched;
    const Seconds longest = std::min(found.lower_time, base.patience);
    return choose(forecast, all, view.limits.block_tokens, longest, found.only_layerwise).cost < now.cost ? base
                                                                                                          : now.reuse;
  }

 private:
  struct Choice {
    JoinCost cost{std::numeric_limits<double>::infinity(), Seconds{0}};
    Reuse reuse;
  };

  /// The best way to load some of `most` tokens, `before` from now on.
  static Choice choose(JoinForecast& forecast, Tokens most, Tokens block, Seconds before, bool only_layerwise) {
    Choice best;
    const std::int64_t blocks = most.count() / block.count();
    for (const bool beside : {false, true}) {
      if (beside && only_layerwise) break;
      search(blocks, [&](std::int64_t cut) {
        Reuse reuse{Tokens{cut * block.count()}, LoadMode::layerwise};
        if (beside) reuse = {most - reuse.tokens, LoadMode::beside, reuse.tokens};
        const JoinCost cost = forecast.of(reuse, before);
        if (cost < best.cost) best = {cost, reuse};
        return cost;
      });
    }
    return best;
  }
  /// Asks `cost_of` for cuts from 0 to `last`: 16 parts of that, then 16 parts around the best one, and so on.
  template <class CostOf>
  static void search(std::int64_t last, CostOf&& cost_of) {
    std::int64_t low = 0, high = last;
    for (std::int64_t part = 0; part != 1;) {
      part = std::max<std::int64_t>(1, (high - low + 15) / 16);
      JoinCost least{std::numeric_limits<double>::infinity(), Seconds{0}};
      std::int64_t best = low;
      for (std::int64_t cut = low;; cut = std::min(cut + part, high)) {
        if (const JoinCost cost = cost_of(cut); cost < least) {
          least = cost;
          best = cut;
        }
        if (cut == high) break;
      }
      low = std::max(low, best - part);
      high = std::min(high, best + part);
    }
  }
};

} // namespace sluice
