// SPDX-License-Identifier: Apache-2.0
// RealBackend: the common base of the handles of all real backends.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/world/backend.hpp"
#include "sluice/world/kept_kv.hpp"
#include "sluice/world/real/world.hpp"

#include <concepts>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>

namespace sluice {

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
  void keep(std::span<const KeptKv> kept) { world_->keep(kept); }
  void released(Seconds until) { world_->released(until); }
  void async(void (*work)(void*), void* what) { world_->async(work, what); }
  [[nodiscard]] bool async_done() { return world_->async_done(); }
  void join_async() { world_->join_async(); }

 private:
  static constexpr int of_weights = std::numeric_limits<int>::max(); // above all slots
  std::shared_ptr<BackendWorld> world_;
};

} // namespace sluice
