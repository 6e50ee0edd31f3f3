// SPDX-License-Identifier: Apache-2.0
// TokenWorld: a machine as programs see it that give it tokens and want them back, whatever device it computes on.
#pragma once

#include "sluice/backend/machine/device_memory.hpp"
#include "sluice/backend/machine/link_rates.hpp"
#include "sluice/backend/machine/token_requests.hpp"
#include "sluice/backend/machine/world.hpp"
#include "sluice/core/ids.hpp"
#include "sluice/core/units.hpp"
#include "sluice/decoder/graph_counts.hpp"
#include "sluice/decoder/weights.hpp"

#include <cstdint>
#include <optional>
#include <span>

namespace sluice {

/// An abstract class, so that a program that chooses its device at run time is compiled without that device's library:
/// see Machine (backend/machine/machine.hpp).
class TokenWorld : public BackendWorld {
 public:
  /// Tells the machine a request's tokens: before the first iteration in which the engine may run it.
  virtual void enter(RequestId id, TokenRequest request) = 0;
  /// The prompt, and the tokens generated so far.
  [[nodiscard]] virtual std::span<const std::int32_t> tokens(RequestId id) const = 0;
  /// Of the tokens that a request has generated, `count` from `first` on: those that Delivery has released, say. They
  /// stay at least until the next iteration.
  [[nodiscard]] virtual std::span<const std::int32_t> generated(RequestId id, Tokens first, Tokens count) const = 0;
  virtual void forget(RequestId id) = 0;

  [[nodiscard]] virtual const ModelWeights& weights() const = 0;
  [[nodiscard]] virtual const DeviceMemory& device_memory() const = 0;
  [[nodiscard]] virtual CopyTotals moved() const = 0;
  /// Of a GPU: whether its layers were replayed as graphs.
  [[nodiscard]] virtual std::optional<GraphCounts> graphs() const = 0;
  [[nodiscard]] virtual LayerBlocks host_peak() const = 0;
};

} // namespace sluice
