// SPDX-License-Identifier: Apache-2.0
// HostedChoice: which decodes the host attends in an iteration beside the device's own work.
#pragma once

#include "sluice/policy/cost/sub_batches.hpp"
#include "sluice/policy/transfer/estimate.hpp"
#include "sluice/state/view/view.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace sluice {

/// An iteration of the device's own `device` work, to which decodes are added that the host attends, in order, each in
/// the sub-batch in which `SubBatchTimes::divide` has it. Adding one asks the cost model a fixed number of times.
class HostedChoice {
 public:
  HostedChoice(const View& view, const Estimate& estimate, const Work& device)
      : layers_(view.geometry.layers),
        samples_(device.samples),
        cost_{estimate},
        times_(cost_, hosting(view, device)) {}
  HostedChoice(const HostedChoice&) = delete;
  HostedChoice& operator=(const HostedChoice&) = delete;

  /// Adds a decode with this context, whatever it takes.
  void add(Tokens context) { take(with(context)); }
  /// NEO's rule: adds the decode if the device then waits for neither sub-batch. One that does not fit is skipped, and
  /// so is each later one that is at least as long; shorter ones are still tried.
  bool add_if_it_fits(Tokens context) {
    if (context >= least_skipped_) return false;
    const HostedShare more = with(context);
    const auto left_s = times_.of(more).left_s();
    if (std::min(left_s[0], left_s[1]) < 0) {
      least_skipped_ = context;
      return false;
    }
    take(more);
    return true;
  }
  /// Tokens generated per second by the device and the host together.
  [[nodiscard]] double rate() const {
    const std::int64_t hosted = share_.decodes[0] + share_.decodes[1];
    const StepTime time = times_.step(share_);
    const double seconds = (time.total(layers_) + time.waits * layers_).count();
    return seconds > 0 ? static_cast<double>(samples_ + hosted) / seconds : 0.0;
  }
  /// The device has one batch (`Device::host_attention_batches`), and its layers wait for the host's whole attention.
  [[nodiscard]] bool one_batch() const { return times_.batches() == 1; }
  /// How many of these, the first ones, give the most tokens per second if the host attends them too; of equal numbers
  /// the largest. All are added and tried: the first costs a second reading of the weights, or with one batch the
  /// host's launch, which several may repay.
  [[nodiscard]] std::size_t best_count(std::span<const Tokens> contexts) {
    std::size_t best = 0;
    double best_rate = rate();
    for (std::size_t count = 1; count <= contexts.size(); ++count) {
      add(contexts[count - 1]);
      if (const double one = rate(); one >= best_rate) {
        best = count;
        best_rate = one;
      }
    }
    return best;
  }

 private:
  /// The planner's cost model, as an estimate knows it.
  struct EstimatedCost {
    const Estimate& estimate;
    [[nodiscard]] StepTime step(const Work& work) const { return estimate.time(work); }
    [[nodiscard]] LinkCost link() const { return estimate.link_cost(); }
  };

  static Work hosting(const View& view, const Work& device) {
    Work work = device;
    work.hosted = hosted_work(view.geometry, {}, view.limits.block_tokens);
    return work;
  }
  [[nodiscard]] HostedShare with(Tokens context) const {
    HostedShare more = share_;
    more.add(next_, context);
    return more;
  }
  void take(const HostedShare& more) {
    share_ = more;
    next_ = times_.next(more);
  }

  int layers_;
  std::int64_t samples_;
  EstimatedCost cost_;
  SubBatchTimes<EstimatedCost> times_;
  HostedShare share_;
  std::size_t next_ = times_.first();
  Tokens least_skipped_{std::numeric_limits<std::int64_t>::max()};
};

} // namespace sluice
