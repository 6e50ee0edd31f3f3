// SPDX-License-Identifier: Apache-2.0
// AsAnother, LookedAt: a machine's world behind another that sees what engines see of it.
#pragma once

#include "sluice/backend/machine/world.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <numeric>
#include <span>
#include <utility>

namespace sluice::testing {

/// Does what another world does.
class AsAnother : public BackendWorld {
 public:
  explicit AsAnother(std::shared_ptr<BackendWorld> other) : other_(std::move(other)) {}

  [[nodiscard]] Seconds now() const override { return other_->now(); }
  void idle_until(Seconds when) override { other_->idle_until(when); }
  void idle_until(Seconds when, Doorbell& bell) override { other_->idle_until(when, bell); }
  [[nodiscard]] Status load() override { return other_->load(); }
  [[nodiscard]] bool ready() const override { return other_->ready(); }
  void launch(const Iteration& iteration, TransferOrder order) override { other_->launch(iteration, order); }
  IterationCost wait(const Iteration& iteration) override { return other_->wait(iteration); }
  [[nodiscard]] double leaving_blocks() override { return other_->leaving_blocks(); }
  [[nodiscard]] std::span<const RequestOutcome> outcomes() const override { return other_->outcomes(); }
  [[nodiscard]] std::span<const LayerTimes> layer_times() const override { return other_->layer_times(); }
  [[nodiscard]] std::span<const LinkTimes> link_times() const override { return other_->link_times(); }
  [[nodiscard]] std::span<const double> computed_layers() const override { return other_->computed_layers(); }
  void cancelled(Slot slot, std::int64_t submitted) override { other_->cancelled(slot, submitted); }
  void released(Seconds until) override { other_->released(until); }
  void async(void (*work)(void*), void* what) override { other_->async(work, what); }
  [[nodiscard]] bool async_done() override { return other_->async_done(); }
  void join_async() override { other_->join_async(); }

 private:
  std::shared_ptr<BackendWorld> other_;
};

/// Looks at what a machine measures of each iteration. (It is run by whoever steps the engine.)
class LookedAt final : public AsAnother {
 public:
  /// `clock`: how far apart the clocks of the host and of the device may be.
  LookedAt(std::shared_ptr<BackendWorld> machine, Seconds clock) : AsAnother(std::move(machine)), clock_(clock) {}

  IterationCost wait(const Iteration& iteration) override {
    const IterationCost cost = AsAnother::wait(iteration);
    const std::span<const double> layers = computed_layers();
    const double all = std::accumulate(layers.begin(), layers.end(), 0.0);
    const bool right = layers.size() == static_cast<std::size_t>(iteration.view.geometry.layers) &&
                       std::all_of(layers.begin(), layers.end(), [](double one) { return one >= 0; }) && all > 0 &&
                       all + cost.stall.count() <= cost.duration.count() * (1 + 1e-9) + clock_.count();
    wrong += right ? 0 : 1;
    ++iterations;
    return cost;
  }
  int iterations = 0;
  int wrong = 0; ///< whose layers are not measured each, or that took less than their layers and stalls

 private:
  Seconds clock_;
};

} // namespace sluice::testing
