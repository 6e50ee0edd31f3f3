// SPDX-License-Identifier: Apache-2.0
// DeviceWeights: the weights that a machine has left in a device's memory, for the next machine on that device.
#pragma once

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
    const std::byte* at = nullptr;
    std::int64_t bytes = 0; ///< of the layer's image, from its start
  };

  /// Whether the host has the same weights in the same memory. The owner alone may have several models.
  [[nodiscard]] bool are_of(const ModelWeights& weights) const {
    return weights.owner != nullptr && owner.lock() == weights.owner && host == weights.layers;
  }

  std::weak_ptr<const void> owner; ///< of the host's weights
  std::vector<std::vector<const std::byte*>> host;
  std::vector<Part> layers;
  const std::byte* outer = nullptr; ///< the weights outside the layers; null: not there
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
/// KV lies before them. A multiple of 256; empty if the memory is too small.
[[nodiscard]] inline std::optional<std::size_t> begin_in(std::size_t held, std::size_t bytes) {
  if (bytes > held) return std::nullopt;
  return (held - bytes) / 256 * 256;
}

} // namespace sluice
