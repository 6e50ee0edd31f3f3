// SPDX-License-Identifier: Apache-2.0
// PausesWhenSlow: offloads only while first tokens come about as fast as they did at first.
#pragma once

#include "sluice/policy/caching/caching.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace sluice {

/// `Base`, which writes nothing while the median TTFT is more than 5 % above its baseline, as proposed for vLLM's
/// offloading (vllm#35343). The proposal takes the baseline from 50 steps; here both medians are of 50 requests, the
/// first ones and the latest ones, since most steps have no first token.
template <Caches Base>
struct PausesWhenSlow : Base {
  static constexpr std::size_t window = 50;

  double tolerance = 0.05;

  struct State {
    std::array<Seconds, window> ttft{}; ///< of the latest requests, in a ring
    std::size_t count = 0;              ///< requests so far
    Seconds baseline{0};                ///< of the first ones
    bool paused = false;
  };

  Tokens write(State& state, const View& view, const RequestRow& row) const {
    // A request that is preempted after its first token has one token after later iterations, too.
    if (row.phase != Phase::ended && row.generated == Tokens{1} && row.first_token == view.now)
      learn(state, row.first_token - row.spec.arrival);
    return state.paused ? Tokens{0} : Base::write(view, row);
  }

 private:
  void learn(State& state, Seconds ttft) const {
    state.ttft[state.count++ % window] = ttft;
    if (state.count < window) return;
    std::array<Seconds, window> sorted = state.ttft;
    std::nth_element(sorted.begin(), sorted.begin() + window / 2, sorted.end());
    const Seconds median = sorted[window / 2];
    if (state.count == window) state.baseline = median;
    state.paused = median > state.baseline * (1 + tolerance);
  }
};

} // namespace sluice
