// SPDX-License-Identifier: Apache-2.0
// WorldOf: any backend as a BackendWorld, so that programs choose a recorded, replayed or simulated one at run time.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/policy/transfer/deadline_pool.hpp"
#include "sluice/policy/transfer/earliest_deadline_first.hpp"
#include "sluice/policy/transfer/fair_share.hpp"
#include "sluice/policy/transfer/next_layer.hpp"
#include "sluice/state/memory/tier.hpp"
#include "sluice/world/backend.hpp"
#include "sluice/world/real/world.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace sluice {

/// The reverse of RealBackend. Backends and their decorators (Recorded, Replayed, Paced) are templates on the transfer
/// rule; engines compiled for `Cpu` call a BackendWorld with a `TransferOrder`. WorldOf finds the published rule that
/// has this order and keeps that rule's state between iterations.
template <class Base>
class WorldOf : public BackendWorld {
 public:
  explicit WorldOf(Base base) : base_(std::move(base)) {}

  [[nodiscard]] Seconds now() const override { return base_.now(); }
  void idle_until(Seconds when) override { base_.idle_until(when); }
  void idle_until(Seconds when, Doorbell& bell) override {
    if constexpr (is_real_time<Base>)
      base_.idle_until(when, bell);
    else
      base_.idle_until(when);
  }
  [[nodiscard]] Status load() override {
    if constexpr (is_real_time<Base>) return base_.load();
    return {};
  }

  [[nodiscard]] bool attends_on_host() const override { return host_attends(base_); }
  void launch(const Iteration& iteration, TransferOrder order) override {
    // Blocks prefetched for a batch's next token are useless to any other batch.
    if (!same_batch(iteration) || order_ != order) clear();
    order_ = order;
    with_rule([&](auto rule, auto& /*state*/) { base_.template launch<decltype(rule)>(iteration); });
  }
  IterationCost wait(const Iteration& iteration) override {
    SLUICE_ASSERT(order_.has_value(), "an iteration that was launched");
    IterationCost cost;
    with_rule([&](auto rule, auto& state) {
      state.background_blocks = 0; // the engine has added them to the iteration
      cost = base_.template wait<decltype(rule)>(iteration, state);
      leaving_ = state.background_blocks;
    });
    return cost;
  }
  [[nodiscard]] double leaving_blocks() override { return leaving_; }

  [[nodiscard]] std::span<const RequestOutcome> outcomes() const override {
    if constexpr (EndsRequests<Base>) return base_.outcomes();
    return {};
  }
  [[nodiscard]] std::span<const LayerTimes> layer_times() const override {
    if constexpr (MeasuresTimes<Base>) return base_.layer_times();
    return {};
  }
  [[nodiscard]] std::span<const LinkTimes> link_times() const override {
    if constexpr (MeasuresTimes<Base>) return base_.link_times();
    return {};
  }
  [[nodiscard]] std::span<const double> computed_layers() const override {
    if constexpr (MeasuresLayers<Base>) return base_.computed_layers();
    return {};
  }
  void cancelled(Slot slot, std::int64_t submitted) override {
    if constexpr (KeepsRequests<Base>) base_.cancelled(slot, submitted);
  }
  [[nodiscard]] std::optional<Replacement> host_tier_evicts() const override {
    if constexpr (KeepsKv<Base>) return base_.host_tier_evicts();
    return std::nullopt;
  }
  [[nodiscard]] bool has_disk() const override {
    if constexpr (requires { base_.has_disk(); }) return base_.has_disk();
    return false;
  }
  void keep(std::span<const KeptKv> kept) override {
    if constexpr (KeepsKv<Base>) base_.keep(kept);
  }
  [[nodiscard]] bool has_loaded(Slot slot) const override { return detail::has_loaded(base_, slot); }
  [[nodiscard]] BlockNames block_names() override {
    if constexpr (KeepsReleased<Base>) return base_.block_names();
    return {};
  }
  void released(Seconds until) override {
    if constexpr (KeepsRequests<Base>) base_.released(until);
  }

  /// Without a thread, planning takes no time on the backend's clock.
  void async(void (*work)(void*), void* what) override {
    if constexpr (PlansAsync<Base>)
      base_.async(work, what);
    else
      work(what);
  }
  [[nodiscard]] bool async_done() override {
    if constexpr (PlansAsync<Base>) return base_.async_done();
    return true;
  }
  void join_async() override {
    if constexpr (PlansAsync<Base>) base_.join_async();
  }

 private:
  template <class Do>
  void with_rule(Do&& act) {
    if (order_ == NextLayer::order) return act(NextLayer{}, next_layer_);
    if (order_ == FairShare::order) return act(FairShare{}, fair_share_);
    if (order_ == EarliestDeadlineFirst::order) return act(EarliestDeadlineFirst{}, earliest_);
    SLUICE_ASSERT(order_ == DeadlinePool::order, "one of the four published transfer rules");
    act(DeadlinePool{}, pool_);
  }
  bool same_batch(const Iteration& iteration) {
    bool same = batch_.size() == iteration.batch.size();
    for (std::size_t i = 0; same && i < batch_.size(); ++i) same = batch_[i] == iteration.batch[i].slot;
    batch_.clear();
    for (const Claim& claim : iteration.batch) batch_.push_back(claim.slot);
    return same;
  }
  void clear() {
    next_layer_.clear();
    fair_share_.clear();
    earliest_.clear();
    pool_.clear();
  }

  Base base_;
  std::optional<TransferOrder> order_;
  double leaving_ = 0; ///< after the last iteration
  std::vector<Slot> batch_;
  typename NextLayer::State next_layer_;
  typename FairShare::State fair_share_;
  typename EarliestDeadlineFirst::State earliest_;
  typename DeadlinePool::State pool_;
};

template <class Base>
[[nodiscard]] std::shared_ptr<BackendWorld> world_of(Base base) {
  return std::make_shared<WorldOf<Base>>(std::move(base));
}

} // namespace sluice
