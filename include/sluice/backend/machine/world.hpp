// SPDX-License-Identifier: Apache-2.0
// BackendWorld: what runs iterations for real, as engines see it.
#pragma once

#include "sluice/backend/backend.hpp"

#include <cstdint>
#include <span>

namespace sluice {

/// When a layer was computed: seconds from the start of the iteration.
struct LayerTimes {
  double start_s = 0;
  double end_s = 0;
  double stall_s = 0; ///< waited for transfers before it started
  StallCause cause = StallCause::none;
};

/// When KV of one layer of one request, or a layer's weights, crossed the link to the device: one span for all that was
/// fetched without anything else in between. Seconds from the start of the iteration; below 0 where the transfer began
/// before it.
struct LinkTimes {
  std::uint32_t slot = 0;
  bool weights = false;
  int layer = 0; ///< from L on the next token's
  double start_s = 0;
  double end_s = 0;
};

/// What a real backend hands its calls to. An abstract class, so that engines compile without a decoder, a thread or a
/// byte of it: see Machine (backend/machine/machine.hpp).
class BackendWorld {
 public:
  BackendWorld() = default;
  BackendWorld(const BackendWorld&) = delete;
  BackendWorld& operator=(const BackendWorld&) = delete;
  virtual ~BackendWorld() = default;

  [[nodiscard]] virtual Seconds now() const = 0;
  virtual void idle_until(Seconds when) = 0;
  virtual void idle_until(Seconds when, Doorbell& bell) = 0;
  /// Puts weights on the device, once; the first iteration does it where this was not called. The clock stands still.
  /// Error: the weights that always stay there do not fit.
  virtual Status load() = 0;
  /// They are there: the first iteration does not wait for them.
  [[nodiscard]] virtual bool ready() const = 0;
  virtual void launch(const Iteration& iteration, TransferOrder order) = 0;
  virtual IterationCost wait(const Iteration& iteration) = 0;
  /// Layer blocks that are to leave the device and have not left yet.
  [[nodiscard]] virtual double leaving_blocks() = 0;
  [[nodiscard]] virtual std::span<const RequestOutcome> outcomes() const = 0;
  /// Of the last iteration, by layer.
  [[nodiscard]] virtual std::span<const LayerTimes> layer_times() const = 0;
  /// Of the last iteration, in order.
  [[nodiscard]] virtual std::span<const LinkTimes> link_times() const = 0;
  /// Seconds for which each layer of the last iteration was computed, for cost models that learn; none where they were
  /// not measured, or where what they teach could not be told again (a record of the clock has no layers).
  [[nodiscard]] virtual std::span<const double> computed_layers() const { return {}; }
  /// The request in `slot` is cancelled: its KV is free, at once or when its transfers have ended.
  virtual void cancelled(Slot slot, std::int64_t submitted) = 0;
  /// Tokens that were due by then were handed out.
  virtual void released(Seconds until) = 0;
  virtual void async(void (*work)(void*), void* what) = 0;
  [[nodiscard]] virtual bool async_done() = 0;
  virtual void join_async() = 0;
};

} // namespace sluice
