// SPDX-License-Identifier: Apache-2.0
// SimulatedWorld: the world of `Cpu` without a machine: iterations take what a cost model says, on the wall's clock or
// on a virtual one.
#pragma once

#include "sluice/backend/backend.hpp"
#include "sluice/backend/doorbell.hpp"
#include "sluice/backend/machine/world.hpp"
#include "sluice/core/assert.hpp"
#include "sluice/transfer/deadline_pool.hpp"
#include "sluice/transfer/earliest_deadline_first.hpp"
#include "sluice/transfer/fair_share.hpp"
#include "sluice/transfer/next_layer.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

namespace sluice {

/// Whose clock a simulated world has.
enum class SimulatedPace : std::uint8_t {
  wall,    ///< an iteration really takes as long as the model says
  virtual_ ///< time passes at once
};

/// Lets any engine type that was compiled for `Cpu` run simulated, so that a program compiles each system once: at the
/// wall's pace, a server of a device that is not there; at a virtual one, a forecast. One of the four published
/// transfer rules (by its `TransferOrder`) evaluates an iteration, as in `BasicSimulated`.
template <class Cost>
class SimulatedWorld final : public BackendWorld {
 public:
  /// How many tokens a request generates, where that is not its length or bound; an end that has passed ends nothing.
  using Length = std::function<Tokens(const RequestRow&)>;

  SimulatedWorld(Cost cost, SimulatedPace pace, Seconds start = Seconds{0}, Length length = nullptr)
      : cost_(std::move(cost)), pace_(pace), length_(std::move(length)), now_(start), began_(Clock::now()) {}

  [[nodiscard]] Seconds now() const override {
    if (pace_ == SimulatedPace::virtual_) return now_;
    return now_ + Seconds{std::chrono::duration<double>(Clock::now() - began_).count()};
  }
  void idle_until(Seconds when) override { pass(when); }
  void idle_until(Seconds when, Doorbell& bell) override {
    if (pace_ == SimulatedPace::virtual_)
      pass(when);
    else
      (void)bell.wait_for(std::chrono::duration<double>((when - now()).count()));
  }
  /// There are no weights.
  [[nodiscard]] Status load() override { return {}; }
  [[nodiscard]] bool ready() const override { return true; }

  void launch(const Iteration& iteration, TransferOrder order) override {
    launched_ = now();
    if (!order_ || *order_ != order || !same_batch(iteration)) clear();
    order_ = order;
    with_state([](auto& state) { state.background_blocks = 0; }); // the engine has taken them into the iteration
  }
  /// What slows the iteration down is known now, and not when it was launched.
  IterationCost wait(const Iteration& iteration) override {
    SLUICE_ASSERT(order_.has_value(), "an iteration that was launched");
    const IterationCost cost = evaluate_by(iteration, *order_);
    pass(launched_ + cost.duration);
    if (length_ != nullptr) find_ends(iteration);
    return cost;
  }

  [[nodiscard]] double leaving_blocks() override {
    double blocks = 0;
    with_state([&](auto& state) { blocks = state.background_blocks; });
    return blocks;
  }
  [[nodiscard]] std::span<const RequestOutcome> outcomes() const override { return outcomes_; }
  [[nodiscard]] std::span<const LayerTimes> layer_times() const override { return {}; }
  [[nodiscard]] std::span<const LinkTimes> link_times() const override { return {}; }
  void cancelled(Slot /*slot*/, std::int64_t /*submitted*/) override {}
  void released(Seconds /*until*/) override {}

  /// Planning has no thread here: it takes no time of the world's.
  void async(void (*work)(void*), void* what) override { work(what); }
  [[nodiscard]] bool async_done() override { return true; }
  void join_async() override {}

 private:
  using Clock = std::chrono::steady_clock;

  void find_ends(const Iteration& iteration) {
    outcomes_.clear();
    for (const Claim& claim : iteration.batch) {
      const RequestRow& row = iteration.view.row(claim.slot);
      if (claim.tokens == row.pending() && row.generated + Tokens{1} == length_(row))
        outcomes_.push_back({claim.slot, false, {}});
    }
  }

  void pass(Seconds until) {
    if (pace_ == SimulatedPace::virtual_) {
      if (until > now_) now_ = until;
      return;
    }
    const Seconds left = until - now();
    if (left > Seconds{0}) std::this_thread::sleep_for(std::chrono::duration<double>(left.count()));
  }

  IterationCost evaluate_by(const Iteration& iteration, TransferOrder order) {
    if (order == NextLayer::order) return evaluate<NextLayer>(iteration, cost_, compute_, next_layer_);
    if (order == FairShare::order) return evaluate<FairShare>(iteration, cost_, compute_, fair_share_);
    if (order == EarliestDeadlineFirst::order)
      return evaluate<EarliestDeadlineFirst>(iteration, cost_, compute_, earliest_);
    SLUICE_ASSERT(order == DeadlinePool::order, "one of the four transfer rules");
    return evaluate<DeadlinePool>(iteration, cost_, compute_, pool_);
  }
  template <class Do>
  void with_state(Do&& act) {
    if (!order_) return;
    if (*order_ == NextLayer::order)
      act(next_layer_);
    else if (*order_ == FairShare::order)
      act(fair_share_);
    else if (*order_ == EarliestDeadlineFirst::order)
      act(earliest_);
    else
      act(pool_);
  }
  /// Whether the batch is the last one's: what was prefetched for its next token is of use to no other.
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

  Cost cost_;
  SimulatedPace pace_;
  Length length_;
  std::vector<RequestOutcome> outcomes_; ///< of the last iteration
  Seconds now_;                          ///< on the wall's pace: of the beginning
  Clock::time_point began_;
  Seconds launched_{0};
  std::optional<TransferOrder> order_;
  LayerArray compute_{};
  std::vector<Slot> batch_;
  typename NextLayer::State next_layer_;
  typename FairShare::State fair_share_;
  typename EarliestDeadlineFirst::State earliest_;
  typename DeadlinePool::State pool_;
};

} // namespace sluice
