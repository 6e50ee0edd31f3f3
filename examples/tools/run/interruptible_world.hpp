// SPDX-License-Identifier: Apache-2.0
// InterruptibleWorld: a machine that waits for no request once the program is interrupted.
#pragma once

#include "sluice/backend/machine/world.hpp"

#include "shared/interrupt.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

namespace running {

/// Does what `base` does. Traces have minutes in which nobody asks for anything: those it looks at in short stretches.
class InterruptibleWorld final : public sluice::BackendWorld {
 public:
  explicit InterruptibleWorld(std::shared_ptr<sluice::BackendWorld> base) : base_(std::move(base)) {}

  [[nodiscard]] sluice::Seconds now() const override { return base_->now(); }
  void idle_until(sluice::Seconds when) override {
    constexpr sluice::Seconds stretch{0.05};
    while (sluice::interrupted() == 0 && base_->now() < when) base_->idle_until(std::min(when, base_->now() + stretch));
  }
  void idle_until(sluice::Seconds when, sluice::Doorbell& bell) override { base_->idle_until(when, bell); }
  [[nodiscard]] sluice::Status load() override { return base_->load(); }
  [[nodiscard]] bool ready() const override { return base_->ready(); }
  void launch(const sluice::Iteration& iteration, sluice::TransferOrder order) override {
    base_->launch(iteration, order);
  }
  sluice::IterationCost wait(const sluice::Iteration& iteration) override { return base_->wait(iteration); }
  [[nodiscard]] double leaving_blocks() override { return base_->leaving_blocks(); }
  [[nodiscard]] std::span<const sluice::RequestOutcome> outcomes() const override { return base_->outcomes(); }
  [[nodiscard]] std::span<const sluice::LayerTimes> layer_times() const override { return base_->layer_times(); }
  [[nodiscard]] std::span<const sluice::LinkTimes> link_times() const override { return base_->link_times(); }
  [[nodiscard]] std::span<const double> computed_layers() const override { return base_->computed_layers(); }
  void cancelled(sluice::Slot slot, std::int64_t submitted) override { base_->cancelled(slot, submitted); }
  void released(sluice::Seconds until) override { base_->released(until); }
  void async(void (*work)(void*), void* what) override { base_->async(work, what); }
  [[nodiscard]] bool async_done() override { return base_->async_done(); }
  void join_async() override { base_->join_async(); }

 private:
  std::shared_ptr<sluice::BackendWorld> base_;
};

} // namespace running
