// SPDX-License-Identifier: Apache-2.0
// BackendWorld: the virtual interface behind which iterations run.
#pragma once

#include "sluice/world/backend.hpp"
#include "sluice/world/kept_kv.hpp"

#include <cstdint>
#include <optional>
#include <span>

namespace sluice {

/// When a layer was computed, in seconds from the start of the iteration.
struct LayerTimes {
  double start_s = 0;
  double end_s = 0;
  double stall_s = 0; ///< waited for transfers before it started
  StallCause cause = StallCause::none;
};

/// When KV of one layer of one request, or a layer's weights, crossed the link to the device: one span for consecutive
/// copies. In seconds from the start of the iteration; negative if the transfer began before it.
struct LinkTimes {
  std::uint32_t slot = 0;
  bool weights = false;
  int layer = 0; ///< from L on: the next token's
  double start_s = 0;
  double end_s = 0;
};

/// RealBackend forwards its calls to one of these. An abstract class, so that engines compile without a decoder or a
/// thread: Machine (world/machine/machine.hpp) runs them for real, WorldOf (world/real/world_of.hpp) wraps any other
/// backend.
class BackendWorld {
 public:
  BackendWorld() = default;
  BackendWorld(const BackendWorld&) = delete;
  BackendWorld& operator=(const BackendWorld&) = delete;
  virtual ~BackendWorld() = default;

  [[nodiscard]] virtual Seconds now() const = 0;
  virtual void idle_until(Seconds when) = 0;
  virtual void idle_until(Seconds when, Doorbell& bell) = 0;
  /// Puts weights on the device, once; otherwise the first iteration does it. The clock stands still meanwhile. Error:
  /// the weights that always stay there do not fit.
  virtual Status load() = 0;
  virtual void launch(const Iteration& iteration, TransferOrder order) = 0;
  virtual IterationCost wait(const Iteration& iteration) = 0;
  /// Whether the host can attend decodes over KV in its memory (`Holding::attended_on_host`). The world starts what
  /// that takes with the first plan that needs it.
  [[nodiscard]] virtual bool attends_on_host() const { return false; }
  /// Layer blocks that have to leave the device and have not left yet.
  [[nodiscard]] virtual double leaving_blocks() = 0;
  [[nodiscard]] virtual std::span<const RequestOutcome> outcomes() const = 0;
  /// Of the last iteration, by layer.
  [[nodiscard]] virtual std::span<const LayerTimes> layer_times() const = 0;
  /// Of the last iteration, in order.
  [[nodiscard]] virtual std::span<const LinkTimes> link_times() const = 0;
  /// Seconds that each layer of the last iteration computed, for cost models that learn; empty if they were not
  /// measured, or if a replay could not repeat them (a record of the clock has no layers).
  [[nodiscard]] virtual std::span<const double> computed_layers() const { return {}; }
  /// The request in `slot` is cancelled: its KV becomes free, at once or when its transfers have ended.
  virtual void cancelled(Slot slot, std::int64_t submitted) = 0;
  /// Which KV of ended requests leaves the host first; nothing if the host keeps none.
  [[nodiscard]] virtual std::optional<Replacement> host_tier_evicts() const { return std::nullopt; }
  /// What stays of these requests' KV on the host.
  virtual void keep(std::span<const KeptKv> /*kept*/) {}
  /// Tokens that were due by `until` were released.
  virtual void released(Seconds until) = 0;
  virtual void async(void (*work)(void*), void* what) = 0;
  [[nodiscard]] virtual bool async_done() = 0;
  virtual void join_async() = 0;
};

} // namespace sluice
