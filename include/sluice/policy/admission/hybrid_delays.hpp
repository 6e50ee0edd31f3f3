// SPDX-License-Identifier: Apache-2.0
// HybridDelays: what rebuilding K and V from hidden states, or computing a request again, delays an iteration.
#pragma once

#include "sluice/policy/transfer/estimate.hpp"
#include "sluice/state/view/view.hpp"

#include <algorithm>
#include <cstdint>

namespace sluice {

/// Seconds by the engine's estimate, of all requests that wait for the iteration together. (Apt-Serve's server measures
/// the time of rebuilding when it starts.)
struct HybridDelays {
  double decode_s = 0;  ///< one iteration of the decode
  double rebuilt_s = 0; ///< delay of all for each token that is rebuilt
  double again_s = 0;   ///< the same for each token that is computed again

  /// Of `requests` that wait for `decode`: means over as many tokens as the device holds, or an iteration computes.
  [[nodiscard]] static HybridDelays of(const View& view, const Work& decode, double requests,
                                       const Estimate& estimate) {
    const Seconds plain = estimate.step(decode);
    const std::int64_t capacity = std::max<std::int64_t>(1, view.ledger->device().capacity().count());
    const Tokens many = view.limits.block_tokens * (capacity / view.geometry.layers + 1); // as many as the device holds
    const auto delay_s = [&](const Work& more, Tokens tokens) {
      return requests * std::max(0.0, (estimate.step(more) - plain).count()) / static_cast<double>(tokens.count());
    };
    Work rebuilds = decode;
    rebuilds.rebuilt.projected = rebuilds.rebuilt.read = many;
    const ChunkWork again{std::min(many, view.limits.batch_tokens), Tokens{0}};
    Work computes = decode;
    computes.chunks = {&again, 1};
    return {plain.count(), delay_s(rebuilds, many), delay_s(computes, again.fresh)};
  }
};

} // namespace sluice
