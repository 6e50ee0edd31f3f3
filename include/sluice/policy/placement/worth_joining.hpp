// SPDX-License-Identifier: Apache-2.0
// WorthJoining: a newcomer joins if the longer step that it causes is worth one more request.
#pragma once

#include "sluice/core/numbers.hpp"
#include "sluice/policy/placement/by_batch_size.hpp"
#include "sluice/policy/placement/step_worth.hpp"
#include "sluice/state/view/future_claims.hpp"
#include "sluice/state/view/request_row.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

namespace sluice {

/// Which claims join, by StepWorth. `Places` then decides where their KV lives.
///
/// A newcomer whose first token can still be in time is judged `soon` tokens ahead. For one that is late anyway the
/// step must stay worth it whenever one of the batch is expected to end, each request with the tokens that it has then:
/// lengths are those of past requests (`View::lengths`), of which each request draws a quantile once, so that a batch
/// ends as requests do and not all at its mean. If a running batch's own step is no longer worth it, there is no plan,
/// and a request is preempted.
template <class Places = ByBatchSize>
struct BasicWorthJoining {
  using role = roles::Placement;
  static constexpr bool places_layers = Places::places_layers;
  static constexpr bool unequal_layers = PlacesUnequalLayers<Places>;
  static constexpr bool knows_lengths = KnowsLengths<Places>;
  template <class Transfer>
  struct State {
    typename Places::template State<Transfer> places;
    std::vector<FutureClaim> future; ///< scratch: of all claims, the longest remaining first
  };

  Places places{};
  StepWorth step{};
  Tokens soon{16};
  double quantile = 0.5; ///< of the longer lengths, on average over the requests
  static constexpr auto parts = NumberedParts{&BasicWorthJoining::places};
  static constexpr auto numbers = Numbers{
      "WorthJoining",
      Number{"worth", member_of(&BasicWorthJoining::step, &StepWorth::worth), 0, 1e6,
             "longer step for one more request, in parts of 1 / requests"},
      Number{"soon", &BasicWorthJoining::soon, 0, 1e6, "tokens ahead at which newcomers in time are judged"},
      Number{"quantile", &BasicWorthJoining::quantile, 0, 1, "of past lengths, expected where newcomers are late"}};

  [[nodiscard]] constexpr Holding least(int layers) const { return places.least(layers); }
  [[nodiscard]] constexpr Holding least(int layers, int on_host) const requires StatesLeastWithinHost<Places> {
    return places.least(layers, on_host);
  }

  template <class Task, class S>
  Verdict solve(const Task& task, S& state, Plan& plan) const {
    plan.effort = 0; // counted by `places`
    const std::size_t count = worth_joining(task, state);
    if (count < task.required) return Verdict::infeasible(Binding::device_memory); // the claim presses
    Task within = task;
    within.claims = task.claims.first(count);
    const Verdict verdict = places.solve(within, state.places, plan);
    if (!verdict.feasible || verdict.joined > 0 || task.required <= 1 || !task.enforce_slo) return verdict;
    return plan.predicted_step > step.longest(task, task.required) ? Verdict::infeasible(Binding::slo) : verdict;
  }

 private:
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
      return row(claim).phase == Phase::waiting && task.view.now > first_due(row(claim));
    };
    double held = 0, limit = std::numeric_limits<double>::infinity();
    const auto take = [&](std::size_t claim) {
      held += FutureClaim::of(task.view, row(claim), 0).context;
      limit = std::min(limit, row(claim).spec.slo.tbt.count());
    };
    std::size_t count = 0;
    while (count < task.claims.size()) {
      if (!joins(count) && late(count)) {
        std::size_t behind = count + 1;
        while (behind < task.claims.size() && !joins(behind) && late(behind)) ++behind;
        const std::size_t worthy =
            longest_prefix(count, behind, [&](std::size_t first) { return step.stays(task, state.future, first); });
        for (std::size_t i = 0; i < worthy; ++i) take(count + i);
        count += worthy;
        if (count < behind) break;
        continue;
      }
      take(count);
      const double ahead = static_cast<double>(count + 1) * static_cast<double>(soon.count());
      if (!joins(count) && !step.holds(task, count + 1, held + ahead, limit)) break;
      ++count;
    }
    return count;
  }
  /// Fills in the futures of all claims. A request's share of `quantile` is on average 1, at most 2.
  template <class Task>
  void foresee(const Task& task, std::vector<FutureClaim>& all) const {
    constexpr ExpectedOutput expected{.enough = 5, .least = Tokens{16}};
    all.clear();
    for (std::size_t claim = 0; claim < task.claims.size(); ++claim) {
      const RequestRow& row = task.view.row(task.claims[claim].slot);
      const double drawn = std::clamp(2 * expected.draw(row) * quantile, 0.01, 1.0);
      const double remaining = expected.remaining(*task.view.lengths, row, drawn);
      all.push_back(FutureClaim::of(task.view, row, remaining, claim));
    }
    std::sort(all.begin(), all.end(), FutureClaim::longest_first);
  }
};

using WorthJoining = BasicWorthJoining<>;

static_assert(Placement<WorthJoining>);

} // namespace sluice
