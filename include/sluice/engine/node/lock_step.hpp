// SPDX-License-Identifier: Apache-2.0
// LockStep: engines whose iterations begin and end together.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/engine/engine.hpp"
#include "sluice/policy/cost/expert_parallel.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace sluice {

/// `G` says how long the iterations of a group's engines take together.
template <class G>
concept JoinsSteps = requires(const G& group, std::span<const RankWork> ranks) {
  { group.joint(ranks) } -> std::same_as<Seconds>;
};

/// Engines of one type that decide for themselves and compute in lock step: an iteration of the group is one of every
/// engine that has work, and all end together (vLLM's `data_parallel_size`). `Node` lets each engine run at its own
/// pace; here the group's model, not an engine's, says when an iteration ends.
///
/// The engines' own world must not move data: how a transfer shares a group's iteration is not modelled. An engine's
/// iteration that takes no time alone must take none in the group, because the group's time is a factor on its own.
template <class E, JoinsSteps Group>
class LockStep {
 public:
  LockStep(std::vector<E> ranks, Group group) : ranks_(std::move(ranks)), group_(std::move(group)) {
    SLUICE_ASSERT(!ranks_.empty(), "at least one engine");
  }

  [[nodiscard]] std::size_t size() const { return ranks_.size(); }
  [[nodiscard]] const E& rank(std::size_t i) const { return ranks_[i]; }
  [[nodiscard]] Seconds now() const { return now_; }
  [[nodiscard]] const Status& status() const { return status_; }
  [[nodiscard]] std::int64_t alive() const {
    std::int64_t sum = 0;
    for (const E& rank : ranks_) sum += rank.alive();
    return sum;
  }

  /// A request for one engine arrives now.
  Expected<RequestId> submit(std::size_t rank, const RequestSpec& spec, std::span<const BlockKey> keys = {}) {
    SLUICE_ASSERT(rank < ranks_.size(), "an engine of this group");
    return ranks_[rank].submit(spec, keys);
  }
  void idle_until(Seconds when) {
    now_ = std::max(now_, when);
    for (E& rank : ranks_) rank.idle_until(now_);
  }

  /// One iteration of every engine that has work.
  Stepped step() {
    works_.assign(ranks_.size(), {});
    bool any = false;
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      Begun begun = Begun::again;
      while (begun == Begun::again) begun = ranks_[i].begin();
      if (begun == Begun::failed) return fail(ranks_[i]);
      if (begun != Begun::under_way) continue;
      any = true;
      NoTimeline none;
      works_[i] = {&ranks_[i].work_under_way(), ranks_[i].predict({}, none)};
    }
    if (!any) return Stepped::idle;
    const Seconds start = now_;
    const Seconds together = group_.joint(works_);
    const bool stretches = std::none_of(works_.begin(), works_.end(), [&](const RankWork& rank) {
      return rank.work != nullptr && rank.alone <= Seconds{0} && together > Seconds{0};
    });
    if (!stretches) {
      status_ = Error{ErrorCode::bad_input, "LockStep", "an iteration takes 0 s alone and more in its group",
                      "a cost model with times above 0"};
      return Stepped::failed;
    }
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      if (works_[i].work == nullptr) continue;
      Surroundings around;
      if (together > Seconds{0}) around.slowdown = together / works_[i].alone;
      ranks_[i].finish(around);
      if (!ranks_[i].status().ok()) return fail(ranks_[i]);
    }
    idle_until(start + together); // also takes rounding out of the engines' clocks
    return Stepped::ran;
  }

 private:
  Stepped fail(const E& rank) {
    status_ = rank.status();
    return Stepped::failed;
  }

  std::vector<E> ranks_;
  Group group_;
  std::vector<RankWork> works_;
  Seconds now_{0};
  Status status_;
};

} // namespace sluice
