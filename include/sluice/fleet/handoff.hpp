// SPDX-License-Identifier: Apache-2.0
// Handoff: how KV goes over a network from the engine that computed a prompt to the one that generates.
#pragma once

#include "sluice/core/units.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace sluice {

/// When KV leaves.
enum class Sends : std::uint8_t {
  whole,    ///< all layers when the prompt has been computed (vLLM's NIXL connector)
  by_layer, ///< each layer when it has been computed, beside the layers after it
};

/// The network between a pool that computes prompts and one that generates. Each sending engine has a link of its own,
/// which carries one request after another.
struct Handoff {
  BytesPerSecond rate{std::numeric_limits<double>::infinity()};
  Seconds latency{0}; ///< of a transfer, in addition to its bytes
  Sends sends = Sends::whole;

  /// When the KV of a prompt has arrived. `joined`: when the prompt's computation began; `computed`: when it ended;
  /// `link_free`: when the sender's link has carried what it got before, which this function moves on.
  [[nodiscard]] Seconds arrival(Bytes kv, int layers, Seconds joined, Seconds computed, Seconds& link_free) const {
    const Seconds carried = kv / rate;
    const Seconds begin = std::max(link_free, sends == Sends::whole ? computed : joined);
    // The last layer leaves when all have been computed.
    link_free = std::max(begin + carried, sends == Sends::whole ? begin : computed + carried / layers);
    return link_free + latency;
  }
};

} // namespace sluice
