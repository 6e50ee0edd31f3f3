// SPDX-License-Identifier: Apache-2.0
// RecordedWorld, ReplayedWorld: a machine's clock written down, and replayed, for the real backend that engines know.
//
// The same as Recorded<Cpu> and Replayed<Cpu, …> (backend/recorded.hpp, backend/replayed.hpp), for a program that
// chooses at run time and compiles each engine once.
#pragma once

#include "sluice/backend/machine/world.hpp"
#include "sluice/backend/recorded.hpp"
#include "sluice/backend/replayed.hpp"

#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace sluice {

/// Does what `base` does and writes its clock down.
class RecordedWorld final : public BackendWorld {
 public:
  /// `record` is empty, and outlives this.
  RecordedWorld(std::shared_ptr<BackendWorld> base, ClockRecord& record)
      : base_(std::move(base)), writer_(record, base_->now()) {}

  [[nodiscard]] Seconds now() const override { return writer_.now(); }
  void idle_until(Seconds when) override { writer_.idle_until(*base_, when); }
  void idle_until(Seconds when, Doorbell& bell) override { writer_.idle_until(*base_, when, bell); }
  [[nodiscard]] Status load() override { return base_->load(); }
  [[nodiscard]] bool ready() const override { return base_->ready(); }
  void launch(const Iteration& iteration, TransferOrder order) override { base_->launch(iteration, order); }
  IterationCost wait(const Iteration& iteration) override {
    ClockEvent event = detail::run_event(iteration);
    event.cost = base_->wait(iteration);
    const Seconds end = base_->now();
    leaving_ = base_->leaving_blocks();
    return writer_.ran(std::move(event), leaving_, base_->outcomes(), end);
  }
  [[nodiscard]] double leaving_blocks() override { return leaving_; }
  [[nodiscard]] std::span<const RequestOutcome> outcomes() const override { return base_->outcomes(); }
  [[nodiscard]] std::span<const LayerTimes> layer_times() const override { return base_->layer_times(); }
  [[nodiscard]] std::span<const LinkTimes> link_times() const override { return base_->link_times(); }
  void cancelled(Slot slot, std::int64_t submitted) override {
    base_->cancelled(slot, submitted);
    writer_.cancelled(slot, submitted);
  }
  void released(Seconds until) override {
    base_->released(until);
    writer_.released(until);
  }
  void async(void (*work)(void*), void* what) override { base_->async(work, what); }
  [[nodiscard]] bool async_done() override { return writer_.async_done(*base_); }
  void join_async() override { writer_.join_async(*base_); }

 private:
  std::shared_ptr<BackendWorld> base_;
  detail::ClockWriter writer_;
  double leaving_ = 0; ///< as recorded: a moment later it would be another
};

/// Computes nothing and moves nothing: takes the time that the record says, for an engine that asks what the recorded
/// one asked. From the first question that differs an iteration takes a millisecond; `replay.status()` says which.
class ReplayedWorld final : public BackendWorld {
 public:
  /// `replay` outlives this.
  explicit ReplayedWorld(Replay& replay) : replay_(&replay) {}

  [[nodiscard]] Seconds now() const override { return replay_->now(); }
  void idle_until(Seconds when) override { replay_->idle_until(when); }
  void idle_until(Seconds when, Doorbell& /*bell*/) override { idle_until(when); }
  [[nodiscard]] Status load() override { return {}; }
  [[nodiscard]] bool ready() const override { return true; }
  void launch(const Iteration& /*iteration*/, TransferOrder /*order*/) override {}
  IterationCost wait(const Iteration& iteration) override {
    const ClockEvent* const event = replay_->run(iteration, outcomes_);
    if (event == nullptr) {
      const IterationCost cost{Seconds{1e-3}, Seconds{0}};
      replay_->pass(now() + cost.duration);
      leaving_ = 0;
      return cost;
    }
    leaving_ = event->background_blocks;
    return event->cost;
  }
  [[nodiscard]] double leaving_blocks() override { return leaving_; }
  [[nodiscard]] std::span<const RequestOutcome> outcomes() const override { return outcomes_; }
  [[nodiscard]] std::span<const LayerTimes> layer_times() const override { return {}; }
  [[nodiscard]] std::span<const LinkTimes> link_times() const override { return {}; }
  void cancelled(Slot slot, std::int64_t submitted) override {
    (void)replay_->next(detail::cancel_event(slot, submitted));
  }
  void released(Seconds until) override { (void)replay_->next(detail::release_event(until)); }
  void async(void (*work)(void*), void* what) override { work(what); }
  [[nodiscard]] bool async_done() override { return replay_->async_done(); }
  void join_async() override { replay_->join_async(); }

 private:
  Replay* replay_;
  std::vector<RequestOutcome> outcomes_;
  double leaving_ = 0;
};

} // namespace sluice
