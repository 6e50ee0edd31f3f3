// SPDX-License-Identifier: Apache-2.0
// DeviceWeights: the weights that a machine keeps in a device's memory for the next machine on that device.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/units.hpp"
#include "sluice/model/decoder/weights.hpp"

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace sluice {

/// A program that runs many systems on one device loads a model once: each machine notes where its weights lie when it
/// ends, and the next machine with the same weights loads only what was not kept. A layer is kept from its first byte
/// to the last one that had arrived; KV may have taken the rest since.
struct DeviceWeights {
  struct Part {
    std::int64_t before_end = 0; ///< bytes from the layer's first byte to the arena's end
    std::int64_t bytes = 0;      ///< of the layer's image, from its start
  };

  WeightsIdentity host;
  std::vector<Part> layers; ///< empty: not kept
  Bytes outer{0}; ///< of the weights outside the layers, at the end of the memory beside the blocks; 0: not kept
};

/// A memory device whose memory stays reserved when its machine ends.
///
/// - `weights()`: what the last machine kept. Only a machine writes it, but `reserve` clears it if it replaces the
///   memory.
/// - `in_use()`: whether a machine lives on the memory. Only a machine writes it.
/// - `check()`: an error if work has failed; then nothing in the memory can be trusted.
template <class M>
concept KeepsWeights = requires(M& memory) {
  { memory.weights() } -> std::same_as<DeviceWeights&>;
  { memory.in_use() } -> std::same_as<bool&>;
  { memory.check() } -> std::same_as<const Status&>;
};

/// Where a reservation of `bytes` begins in memory of `held` bytes: at the end, because weights lie there, however much
/// KV lies before them. Empty if the memory is too small, or if that is not a multiple of 256.
[[nodiscard]] inline std::optional<std::size_t> begin_in(std::size_t held, std::size_t bytes) {
  if (bytes > held || (held - bytes) % 256 != 0) return std::nullopt;
  return held - bytes;
}

} // namespace sluice
