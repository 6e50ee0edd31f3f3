// SPDX-License-Identifier: Apache-2.0
// StepWorth: whether the longer step of a larger batch is worth one more request.
#pragma once

#include "sluice/policy/placement/placement.hpp"
#include "sluice/state/view/future_claims.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice {

/// A part of placement policies. A step of n requests is worth it within `slo_s`, the tightest SLO, if transfers make
/// it longer than its computation by no more than `worth` / n of it, since one more request gains 1 / n. The part of
/// the batch's KV beyond the device is fetched in every step. Asking costs the cost model one step; where the fetched
/// layers are is not decided yet.
struct StepWorth {
  double worth = 2; ///< longer step for one more request, in parts of 1 / requests

  /// The longest step, in seconds, that is worth it if it computes for `computed_s`.
  [[nodiscard]] double longest_s(double computed_s, std::size_t requests, double slo_s) const {
    return std::max(computed_s, std::min(slo_s, computed_s * (1 + worth / static_cast<double>(requests))));
  }

  /// The same for a decode of the first `count` claims.
  template <class Task>
  [[nodiscard]] Seconds longest(const Task& task, std::size_t count) const {
    const double computed_s = task.cost.step(task.steady_decode(count)).total(task.layers()).count();
    return Seconds{longest_s(computed_s, count, task.tightest_slo(count).count())};
  }

  /// Whether a decode of `requests` with `tokens` of KV in all is worth it.
  template <class Task>
  [[nodiscard]] bool holds(const Task& task, std::size_t requests, double tokens, double slo_s) const {
    Work work;
    work.decodes = work.samples = static_cast<std::int64_t>(requests);
    work.decode_context = Tokens{static_cast<std::int64_t>(tokens)};
    const double computed_s = task.cost.step(work).total(task.layers()).count();
    if (computed_s > slo_s) return false;
    const double blocks = tokens / static_cast<double>(task.view.limits.block_tokens.count());
    const Geometry& geometry = task.view.geometry;
    const double over = geometry.kv_of_all(blocks, requests) - static_cast<double>(task.device_budget.count());
    if (over <= 0) return true;
    const double each = blocks * static_cast<double>(geometry.moved_units); // of a layer
    const double moved = over + 2 * each;                                   // about two layers are in flight
    return over <= static_cast<double>(task.host_budget.count()) && over <= each * task.among().count() &&
           task.block_link().seconds(moved, task.layers()) <= longest_s(computed_s, requests, slo_s);
  }

  /// Whether the steps of the first `count` claims stay worth it whenever one of them ends. `future`: of all claims,
  /// the longest remaining first, each at its claim's place.
  template <class Task>
  [[nodiscard]] bool stays(const Task& task, std::span<const FutureClaim> future, std::size_t count) const {
    const double slo_s = task.tightest_slo(count).count();
    const auto worthy = [&](std::size_t requests, double tokens) { return holds(task, requests, tokens, slo_s); };
    return at_each_end(future, worthy, count);
  }
};

} // namespace sluice
