// SPDX-License-Identifier: Apache-2.0
// BackendWorld: the virtual interface behind which iterations run.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/state/memory/shared_blocks.hpp"
#include "sluice/state/memory/tier.hpp"
#include "sluice/world/backend.hpp"

#include <concepts>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>

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
  /// Whether a disk gets what the host keeps of ended requests.
  [[nodiscard]] virtual bool has_disk() const { return false; }
  /// What stays of these requests' KV on the host.
  virtual void keep(std::span<const KeptKv> /*kept*/) {}
  /// Whether all KV of a running request that loads before it computes (`LoadMode::ahead`) is on the device.
  [[nodiscard]] virtual bool has_loaded(Slot /*slot*/) const { return true; }
  /// The keys of the blocks that its device keeps when their requests have left; of nothing if it keeps none.
  [[nodiscard]] virtual BlockNames block_names() { return {}; }
  /// Tokens that were due by `until` were released.
  virtual void released(Seconds until) = 0;
  virtual void async(void (*work)(void*), void* what) = 0;
  [[nodiscard]] virtual bool async_done() = 0;
  virtual void join_async() = 0;
};

// RealBackend: the common base of the handles of all real backends.

/// Runs iterations for real: a model computes; KV and weights cross a link between a device's memory and the host's in
/// the order of the engine's transfer rule. The bytes move as the plan says, and time is the wall clock's. This is a
/// handle: copies run in the same world. A derived class names the device, and engines name that class.
class RealBackend {
 public:
  using role = roles::Backend;
  static constexpr bool keeps_requests = true;
  static constexpr bool real_time = true;
  static constexpr bool ends_requests = true;
  static constexpr bool plans_async = true;
  static constexpr bool predicts = false;
  static constexpr bool keeps_released = true;

  RealBackend() = default;
  explicit RealBackend(std::shared_ptr<BackendWorld> world) : world_(std::move(world)) {}

  [[nodiscard]] Seconds now() const { return world_->now(); }
  void idle_until(Seconds when) { world_->idle_until(when); }
  void idle_until(Seconds when, Doorbell& bell) { world_->idle_until(when, bell); }

  [[nodiscard]] Status load() { return world_->load(); }
  [[nodiscard]] bool attends_on_host() const { return world_->attends_on_host(); }

  /// Starts every transfer; `wait` computes the layers, and returns when they have been computed.
  template <class Transfer>
  void launch(const Iteration& iteration) {
    static_assert(
        requires {
          { Transfer::order } -> std::convertible_to<TransferOrder>;
        },
        "sluice: to move real bytes, this Transfer policy needs `static constexpr TransferOrder order{…}`: when its "
        "transfers may start, and which is first");
    world_->launch(iteration, Transfer::order);
  }
  template <class Transfer>
  IterationCost wait(const Iteration& iteration, typename Transfer::State& state) {
    const IterationCost cost = world_->wait(iteration);
    state.clear();
    state.background_blocks = world_->leaving_blocks();
    return cost;
  }

  /// Reports measured times, not a model's; `state` does not change. A request's stream is its slot.
  template <class Transfer, class Sink>
  void replay(const Iteration& /*iteration*/, typename Transfer::State& /*state*/, Sink&& sink) {
    int layer = 0;
    for (const LinkTimes& times : world_->link_times())
      sink.transfer(times.weights ? of_weights : static_cast<int>(times.slot), times.layer, times.start_s, times.end_s);
    for (const LayerTimes& times : world_->layer_times()) {
      sink.layer(layer, times.start_s, times.end_s, times.stall_s, times.cause);
      ++layer;
    }
  }

  [[nodiscard]] std::span<const LayerTimes> layer_times() const { return world_->layer_times(); }
  [[nodiscard]] std::span<const LinkTimes> link_times() const { return world_->link_times(); }
  [[nodiscard]] std::span<const double> computed_layers() const { return world_->computed_layers(); }
  [[nodiscard]] std::span<const RequestOutcome> outcomes() const { return world_->outcomes(); }
  void cancelled(Slot slot, std::int64_t submitted) { world_->cancelled(slot, submitted); }
  [[nodiscard]] std::optional<Replacement> host_tier_evicts() const {
    return world_ == nullptr ? std::nullopt : world_->host_tier_evicts();
  }
  [[nodiscard]] bool has_disk() const { return world_ != nullptr && world_->has_disk(); }
  void keep(std::span<const KeptKv> kept) { world_->keep(kept); }
  [[nodiscard]] bool has_loaded(Slot slot) const { return world_->has_loaded(slot); }
  [[nodiscard]] BlockNames block_names() const { return world_ == nullptr ? BlockNames{} : world_->block_names(); }
  void released(Seconds until) { world_->released(until); }
  void async(void (*work)(void*), void* what) { world_->async(work, what); }
  [[nodiscard]] bool async_done() { return world_->async_done(); }
  void join_async() { world_->join_async(); }

 private:
  static constexpr int of_weights = std::numeric_limits<int>::max(); // above all slots
  std::shared_ptr<BackendWorld> world_;
};

} // namespace sluice
