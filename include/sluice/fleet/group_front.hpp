// SPDX-License-Identifier: Apache-2.0
// GroupFront: a router before engines that share a clock, such as a group in lock step.
#pragma once

#include "sluice/engine/engine.hpp"
#include "sluice/fleet/router.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace sluice {

/// Chooses an engine of a group (engine/node/lock_step.hpp) by router `R`: engines report their counts at the first
/// request that comes `R::every` after the last report.
template <Router R>
class GroupFront {
 public:
  static_assert(!R::reads.prefill && !R::reads.pace && !R::reads.prefixes,
                "sluice: a group's engines report their counts only: this Router may read `load` alone");

  explicit GroupFront(R router = {}) : router_(std::move(router)) {}

  template <class Group>
  [[nodiscard]] std::size_t choose(const Group& group, const RequestSpec& spec, std::span<const BlockKey> keys = {}) {
    if (reports_.empty() || group.now() >= reported_ + Seconds{router_.every}) report(group);
    const FleetView view{group.now(), edition_, reports_, sent_, open_, {}};
    const std::size_t to = router_.choose(view, {spec, keys, routed_++}, state_);
    ++sent_[to].requests;
    sent_[to].prompts += spec.prompt;
    return to;
  }

 private:
  template <class Group>
  void report(const Group& group) {
    reports_.assign(group.size(), {});
    sent_.assign(group.size(), {});
    open_.resize(group.size());
    for (std::size_t i = 0; i < group.size(); ++i) {
      const EngineCounts counts = group.rank(i).counts();
      open_[i] = static_cast<std::uint32_t>(i);
      reports_[i].when = group.now();
      reports_[i].waiting = static_cast<std::int32_t>(counts.waiting);
      reports_[i].preempted = static_cast<std::int32_t>(counts.preempted);
      reports_[i].running = static_cast<std::int32_t>(counts.running);
      reports_[i].kv_used = counts.used_share();
      const View view = group.rank(i).view();
      reports_[i].batch = view.limits.batch;
      reports_[i].chunk = view.limits.batch_tokens;
    }
    reported_ = group.now();
    ++edition_;
  }

  R router_;
  typename R::State state_{};
  std::vector<EngineReport> reports_;
  std::vector<SentSince> sent_;
  std::vector<std::uint32_t> open_;
  Seconds reported_{0};
  std::int64_t edition_ = 0;
  std::uint64_t routed_ = 0;
};

} // namespace sluice
