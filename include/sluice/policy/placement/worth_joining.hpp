// SPDX-License-Identifier: Apache-2.0
// WorthJoining: a newcomer joins if the longer step that it causes is worth one more request.
#pragma once

#include "sluice/core/numbers.hpp"
#include "sluice/core/random.hpp"
#include "sluice/policy/placement/grouped_distance.hpp"
#include "sluice/policy/placement/swapped_layers.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace sluice {

/// Which claims join, decided before where their KV lives, which `Few` or `Many` then decide.
///
/// A newcomer joins if the longer step is worth it: within the tightest SLO, and longer than the computation by no more
/// than `worth` / n of it for n requests, since one more of them gains 1 / n. The part of the batch's KV beyond the
/// device is fetched in every step. A newcomer whose first token can still be in time is judged `soon` tokens ahead.
/// For one that is late anyway the step must stay worth it whenever one of the batch is expected to end, each request
/// with the tokens that it has then: lengths are those of past requests (`View::lengths`), of which each request draws
/// a quantile once, so that a batch ends as requests do and not all at its mean. If a running batch's own step is no
/// longer worth it, there is no plan, and a request is preempted.
///
/// `Few` places up to `few_at_most` requests and `Many` more: distances of their own pay where few requests share the
/// device, and cost planning time everywhere.
template <class Few = GroupedDistance, class Many = BasicSwappedLayers<SwappedOut::fresh>>
struct BasicWorthJoining {
  using role = roles::Placement;
  static constexpr bool places_layers = true;
  /// A request's KV now, how many tokens are expected to come, and the place of its claim.
  struct Future {
    double context = 0, remaining = 0;
    std::size_t claim = 0;
  };
  template <class Transfer>
  struct State {
    typename Few::template State<Transfer> few;
    typename Many::template State<Transfer> many;
    std::vector<Future> future; ///< scratch: of all claims, the longest remaining first
  };

  Few few = exact();
  Many many{};
  std::int64_t few_at_most = 8;
  double worth = 2;
  Tokens soon{16};
  double quantile = 0.5; ///< of the longer lengths, on average over the requests
  static constexpr auto parts = NumberedParts{&BasicWorthJoining::few, &BasicWorthJoining::many};
  static constexpr auto numbers = Numbers{
      "WorthJoining",
      Number{"few_at_most", &BasicWorthJoining::few_at_most, 0, 1e6, "requests that the exact search places"},
      Number{"worth", &BasicWorthJoining::worth, 0, 1e6, "longer step for one more request, in parts of 1 / requests"},
      Number{"soon", &BasicWorthJoining::soon, 0, 1e6, "tokens ahead at which newcomers in time are judged"},
      Number{"quantile", &BasicWorthJoining::quantile, 0, 1, "of past lengths, expected where newcomers are late"}};

  [[nodiscard]] constexpr Holding least(int layers) const { return {all_tokens, LayerSet::all(layers), {}}; }

  template <class Task, class S>
  Verdict solve(const Task& task, S& state, Plan& plan) const {
    plan.effort = 0; // counted by `few` and `many`
    const std::size_t count = worth_joining(task, state);
    if (count < task.required) return Verdict::infeasible(Binding::device_memory); // the claim presses
    Task within = task;
    within.claims = task.claims.first(count);
    const Verdict verdict = count > static_cast<std::size_t>(few_at_most) && task.required > 1
                                ? many.solve(within, state.many, plan)
                                : few.solve(within, state.few, plan);
    if (!verdict.feasible || verdict.joined > 0 || task.required <= 1 || !task.enforce_slo) return verdict;
    const double computed = task.cost.step(task.steady_decode(task.required)).total(task.layers()).count();
    return plan.predicted_step.count() > bound(computed, task.required, slo(task, task.required))
               ? Verdict::infeasible(Binding::slo)
               : verdict;
  }

 private:
  /// The exact search accepts no plan that misses a deadline: whether a request waits instead is decided here.
  static constexpr Few exact() {
    Few few{};
    if constexpr (requires { few.options.alpha; }) few.options.alpha = 0;
    return few;
  }
  static double context_of(const RequestRow& row) { return static_cast<double>(row.context().count()) + 8; }

  /// How many of the claims, in their order, are worth it. Newcomers that are late anyway follow one another in the
  /// order of SlackFirst; of such a stretch the longest worthy prefix is found by bisection, since one more request
  /// adds more to the link's time than to what its computation allows. Judged one by one, 256 running requests and as
  /// many newcomers took a millisecond.
  template <class Task, class S>
  [[nodiscard]] std::size_t worth_joining(const Task& task, S& state) const {
    foresee(task, state.future);
    const auto row = [&](std::size_t claim) -> const RequestRow& { return task.view.row(task.claims[claim].slot); };
    const auto joins = [&](std::size_t claim) {
      return claim == 0 || row(claim).phase == Phase::running || !task.enforce_slo;
    };
    const auto late = [&](std::size_t claim) {
      return row(claim).phase == Phase::waiting && task.view.now > row(claim).spec.arrival + row(claim).spec.slo.ttft;
    };
    double held = 0, limit = std::numeric_limits<double>::infinity();
    const auto take = [&](std::size_t claim) {
      held += context_of(row(claim));
      limit = std::min(limit, row(claim).spec.slo.tbt.count());
    };
    std::size_t count = 0;
    while (count < task.claims.size()) {
      if (!joins(count) && late(count)) {
        std::size_t behind = count + 1;
        while (behind < task.claims.size() && !joins(behind) && late(behind)) ++behind;
        const std::size_t worthy = longest_prefix(count, behind, [&](std::size_t first) {
          return stays_worth_it(task, state.future, first, slo(task, first));
        });
        for (std::size_t i = 0; i < worthy; ++i) take(count + i);
        count += worthy;
        if (count < behind) break;
        continue;
      }
      take(count);
      const double n = static_cast<double>(count + 1);
      if (!joins(count) && !is_worth_it(task, count + 1, held + n * static_cast<double>(soon.count()), limit)) break;
      ++count;
    }
    return count;
  }
  /// Fills in the futures of all claims. A request's share of `quantile` is drawn by its id: on average 1, at most 2.
  template <class Task>
  void foresee(const Task& task, std::vector<Future>& all) const {
    all.clear();
    for (std::size_t claim = 0; claim < task.claims.size(); ++claim) {
      const RequestRow& row = task.view.row(task.claims[claim].slot);
      const double share = 2 * Random(1 + 0x9e3779b97f4a7c15u * (index(row.id) + 1)).uniform();
      const double unknown = std::max(16.0, 1024 - static_cast<double>(row.generated.count()));
      const double remaining =
          task.view.lengths->remaining(row.generated, std::clamp(share * quantile, 0.01, 1.0), 5, unknown);
      all.push_back({context_of(row), remaining, claim});
    }
    std::sort(all.begin(), all.end(), [](const Future& a, const Future& b) {
      return a.remaining != b.remaining ? a.remaining > b.remaining : a.claim < b.claim;
    });
  }
  template <class Task>
  static double slo(const Task& task, std::size_t count) {
    double least = std::numeric_limits<double>::infinity();
    for (const Claim& claim : task.claims.first(count))
      least = std::min(least, task.view.row(claim.slot).spec.slo.tbt.count());
    return least;
  }
  [[nodiscard]] double bound(double computed, std::size_t count, double limit) const {
    return std::max(computed, std::min(limit, computed * (1 + worth / static_cast<double>(count))));
  }
  /// Whether the step of `count` requests with `tokens` of KV in all is worth it.
  template <class Task>
  bool is_worth_it(const Task& task, std::size_t count, double tokens, double limit) const {
    Work work;
    work.decodes = work.samples = static_cast<std::int64_t>(count);
    work.decode_context = Tokens{static_cast<std::int64_t>(tokens)};
    const double computed = task.cost.step(work).total(task.layers()).count();
    if (computed > limit) return false;
    const double blocks = tokens / static_cast<double>(task.view.limits.block_tokens.count());
    const double over = blocks * task.layers() - static_cast<double>(task.device_budget.count());
    if (over <= 0) return true;
    const BlockLink link = task.block_link();
    const double moved = over + 2 * blocks; // about two layers are in flight
    return over <= static_cast<double>(task.host_budget.count()) &&
           moved / link.blocks_per_s + link.per_layer_s * task.layers() <= bound(computed, count, limit);
  }
  /// Whether that of the first `count` claims stays so whenever one of them ends: those left then have that one's
  /// remaining tokens more.
  template <class Task>
  bool stays_worth_it(const Task& task, std::span<const Future> future, std::size_t count, double limit) const {
    double held = 0;
    std::size_t left = 0;
    for (const Future& one : future) {
      if (one.claim >= count) continue;
      held += one.context;
      ++left;
      if (!is_worth_it(task, left, held + static_cast<double>(left) * one.remaining, limit)) return false;
    }
    return true;
  }
};

using WorthJoining = BasicWorthJoining<>;

static_assert(Placement<WorthJoining>);

} // namespace sluice
