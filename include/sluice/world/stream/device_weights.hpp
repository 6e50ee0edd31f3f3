// SPDX-License-Identifier: Apache-2.0
// DeviceWeights: the weights that a machine has left in a device's memory, for the next machine on that device.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/model/decoder/weights.hpp"

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace sluice {

/// A program that runs many systems on one device loads a model once: each machine notes where weights lie when it
/// ends, and the next machine with the same weights loads only what is not there. The weights of a layer are there from
/// its first byte up to the last one that had arrived; KV may have taken the rest since.
struct DeviceWeights {
  struct Part {
    std::int64_t before_end = 0; ///< bytes from the layer's first byte to the arena's end
    std::int64_t bytes = 0;      ///< of the layer's image, from its start
  };

  /// Whether these are weights that the host has in the same memory.
  [[nodiscard]] bool are_of(const ModelWeights& weights) const {
    return weights.owner != nullptr && owner.lock() == weights.owner && image == weights.layout.bytes;
  }

  std::weak_ptr<const void> owner; ///< of the host's weights
  Bytes image{0};                  ///< a layer's
  std::vector<Part> layers;        ///< empty: not there
  Bytes outer{0}; ///< of the weights outside the layers, at the end of the memory beside the blocks; 0: not there
};

/// A memory device whose memory stays reserved when its machine ends.
///
/// - `weights()`: what the last machine has left. Only a machine writes it, but `reserve` clears it if it replaces the
///   memory.
template <class M>
concept KeepsWeights = requires(M& memory) {
  { memory.weights() } -> std::same_as<DeviceWeights&>;
};

/// Where a reservation of `bytes` begins in memory of `held` bytes: at the end, because weights lie there, however much
/// KV lies before them. Empty if the memory is too small, or if that is not a multiple of 256.
[[nodiscard]] inline std::optional<std::size_t> begin_in(std::size_t held, std::size_t bytes) {
  if (bytes > held || (held - bytes) % 256 != 0) return std::nullopt;
  return held - bytes;
}

} // namespace sluice
