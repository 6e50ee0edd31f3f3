// SPDX-License-Identifier: Apache-2.0
// Cpu: the backend that computes real tokens and moves real bytes between two memories of this machine.
#pragma once

#include "sluice/backend/backend.hpp"
#include "sluice/core/assert.hpp"

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

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

/// What `Cpu` hands its calls to. An abstract class, so that engines compile without a decoder, a thread or a byte of
/// it: see CpuMachine (backend/cpu/machine.hpp), the one there is.
class CpuWorld {
 public:
  CpuWorld() = default;
  CpuWorld(const CpuWorld&) = delete;
  CpuWorld& operator=(const CpuWorld&) = delete;
  virtual ~CpuWorld() = default;

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
  /// The request in `slot` is cancelled: its KV is free, at once or when its transfers have ended.
  virtual void cancelled(Slot slot, std::int64_t submitted) = 0;
  /// Tokens that were due by then were handed out.
  virtual void released(Seconds until) = 0;
  virtual void async(void (*work)(void*), void* what) = 0;
  [[nodiscard]] virtual bool async_done() = 0;
  virtual void join_async() = 0;
};

/// Runs iterations for real: the decoder computes, KV and weights cross a link between a device's memory and a host's,
/// both parts of this machine's memory of a stated size, in the order of the engine's transfer rule. The bytes move as
/// the plan says; time is the clock's. A handle: copies run on the same machine.
class Cpu {
 public:
  using role = roles::Backend;
  static constexpr bool keeps_requests = true;
  static constexpr bool real_time = true;
  static constexpr bool ends_requests = true;
  static constexpr bool plans_async = true;
  static constexpr bool predicts = false;

  Cpu() = default;
  explicit Cpu(std::shared_ptr<CpuWorld> world) : world_(std::move(world)) {}

  [[nodiscard]] Seconds now() const { return world_->now(); }
  void idle_until(Seconds when) { world_->idle_until(when); }
  void idle_until(Seconds when, Doorbell& bell) { world_->idle_until(when, bell); }

  [[nodiscard]] Status load() { return world_->load(); }
  [[nodiscard]] bool ready() const { return world_->ready(); }

  /// Sends everything on its way to its place; `wait` computes the layers, on its caller's thread.
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

  /// Tells what was measured, not what a model says; `state` does not change. A request's stream is its slot.
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

  [[nodiscard]] std::span<const RequestOutcome> outcomes() const { return world_->outcomes(); }
  void cancelled(Slot slot, std::int64_t submitted) { world_->cancelled(slot, submitted); }
  void released(Seconds until) { world_->released(until); }
  void async(void (*work)(void*), void* what) { world_->async(work, what); }
  [[nodiscard]] bool async_done() { return world_->async_done(); }
  void join_async() { world_->join_async(); }

 private:
  static constexpr int of_weights = std::numeric_limits<int>::max(); // above all slots
  std::shared_ptr<CpuWorld> world_;
};

static_assert(explain<Cpu>());

} // namespace sluice
