// SPDX-License-Identifier: Apache-2.0
// TokenWise: keeps no KV of the oldest share of every request's tokens. It chooses that share, and how many requests
// run, to generate the most tokens per second (eLLM).
#pragma once

#include "sluice/core/math.hpp"
#include "sluice/policy/placement/ellm_equations.hpp"
#include "sluice/policy/placement/plan_trial.hpp"
#include "sluice/policy/placement/uncached_problem.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace sluice {

/// Whether tokens may have no KV.
enum class Uncached : std::uint8_t {
  adaptive, ///< as large a share as pays off
  none,     ///< all resident, only the batch is sized: eLLM gives its baselines the same optimiser (section 6.1)
};

/// eLLM's request and layer level (sections 4.2, 4.3.1) as one placement. b is how many optional claims join; r is the
/// share of every request's oldest blocks that are rebuilt or on the host, alternating by layers.
///
/// `Optimizer` finds (b, r): ExactBatchShare, or eLLM's own SlsqpBatchShare (policy/placement/nlopt). At first, room is
/// reserved for the most that any pair of layers takes. The pair with the least mismatch at that answer is chosen, and
/// (b, r) solved again with the room that this pair needs, until the pair is stable. The pair in force is kept until
/// nothing is uncached: another pair would move every layer of every request.
///
/// The plan is infeasible if the running requests cannot all meet the SLO, or would generate more without some of
/// them; Relief then chooses the victim. r is found as a real number but holds in whole blocks, so the share is raised
/// until the plan fits by the engine's count.
///
/// Meant for EveryStep, as eLLM plans: a plan reserves its workspace when it is made, while a plan that is only applied
/// reserves what its streams need in flight.
template <class Optimizer = ExactBatchShare, Uncached Share = Uncached::adaptive>
struct BasicTokenWise {
  using role = roles::Placement;
  using optimizer_type = Optimizer;
  static constexpr bool places_layers = Share == Uncached::adaptive;
  static constexpr bool rebuilds = Share == Uncached::adaptive;
  static constexpr bool unequal_layers = Share == Uncached::none;

  template <class Transfer>
  struct State {
    PlanTrial<Transfer> trial;
    UncachedSums sums;
    UncachedLayers layers;
    double uncached = 0; ///< r of the last plan
  };

  Optimizer optimizer{};
  PrefixStates states = PrefixStates::cheaper;

  /// All resident, which r = 0 needs.
  [[nodiscard]] constexpr Holding least(int /*layers*/) const { return {}; }

  template <class Task, class S>
  Verdict solve(const Task& task, S& state, Plan& plan) const {
    plan.covers_unseen = false;
    plan.requests.clear();
    plan.effort = 0; // eLLM's optimizer is closed equations over the batch's sums
    state.sums.gather(task);
    const BatchShare chosen = choose(task, state);
    // b is free: if fewer requests would generate more tokens with the others' memory, one is preempted.
    if (task.enforce_slo && task.required > 1 && chosen.uncached > 0) {
      UncachedProblem<Task> fewer = problem_of(task, state, state.layers.pair);
      fewer.least = 1;
      fewer.most = static_cast<std::int64_t>(task.required) - 1;
      const BatchShare best = optimizer(fewer);
      if (best.rate() > chosen.rate()) return deny(plan, Binding::device_memory);
    }
    if (!chosen.feasible) {
      const bool fits = task.required > 0 && least_share(problem_of(task, state, state.layers.pair),
                                                         static_cast<double>(task.required)) <= most_share;
      return deny(plan, fits ? Binding::slo : Binding::device_memory);
    }
    return fit(task, state, chosen, plan);
  }

 private:
  static constexpr double most_share = Share == Uncached::adaptive ? 1.0 : 0.0;
  /// The share is kept if the iteration gets hardly shorter by lowering it: the blocks that became resident would soon
  /// be evicted again.
  static constexpr double steady = 1.01;

  static Verdict deny(Plan& plan, Binding why) {
    plan.in_flight = LayerBlocks{0};
    plan.binding = why;
    return Verdict::infeasible(why);
  }

  template <class Task, class S>
  static UncachedProblem<Task> problem_of(const Task& task, const S& state, LayerPair workspace) {
    return {task, state.sums, state.layers, workspace, most_share};
  }

  template <class Task, class S>
  BatchShare choose(const Task& task, S& state) const {
    if constexpr (Share == Uncached::none) return optimizer(problem_of(task, state, state.layers.pair));
    if (state.uncached > 0) return optimizer(problem_of(task, state, state.layers.pair));
    BatchShare best;
    LayerPair workspace{2, 3};
    double b = static_cast<double>(task.claims.size());
    double r = 0.5;
    for (std::size_t round = 0; round <= ellm_pairs.size(); ++round) {
      const UncachedLayers layers = match(task, state, b, r);
      if (round > 0 && layers == state.layers && workspace == layers.pair) break;
      state.layers = layers;
      best = optimizer(problem_of(task, state, workspace));
      if (!best.feasible || best.uncached <= 0) break;
      workspace = layers.pair;
      b = static_cast<double>(best.requests);
      r = best.uncached;
    }
    return best;
  }

  /// The pair with the least mismatch at (b, r), with its hidden states from the cheaper source.
  template <class Task, class S>
  UncachedLayers match(const Task& task, const S& state, double b, double r) const {
    const auto with = [&](LayerPair pair) {
      UncachedLayers layers{pair, states == PrefixStates::on_host};
      if (states != PrefixStates::cheaper) return layers;
      const UncachedProblem<Task> passed(task, state.sums, layers, pair, most_share);
      layers.states_on_host = true;
      const UncachedProblem<Task> kept(task, state.sums, layers, pair, most_share);
      layers.states_on_host = kept.seconds(b, r) < passed.seconds(b, r);
      return layers;
    };
    const auto period = [&](LayerPair pair) {
      return UncachedProblem<Task>(task, state.sums, with(pair), pair, most_share).mismatch(b, r);
    };
    return with(least_mismatch([&](LayerPair pair) { return period(pair).swap_s; },
                               [&](LayerPair pair) { return period(pair).recompute_s; }));
  }

  /// Makes the plan of `chosen` in whole blocks: as many requests as fit, with a share raised as block rounding
  /// requires.
  template <class Task, class S>
  Verdict fit(const Task& task, S& state, BatchShare chosen, Plan& plan) const {
    const UncachedProblem<Task> problem = problem_of(task, state, state.layers.pair);
    const auto required = static_cast<std::int64_t>(task.required);
    const double last = std::min(state.uncached, most_share);
    for (std::int64_t requests = chosen.requests; requests >= std::max<std::int64_t>(1, required); --requests) {
      const auto b = static_cast<double>(requests);
      const double least = requests == chosen.requests ? chosen.uncached : least_share(problem, b);
      if (least > most_share) continue;
      if (last > least &&
          problem.seconds(b, last) <= std::min(problem.limit_s(b), steady * problem.seconds(b, least)) &&
          set(task, state, requests, last, plan))
        return accept(task, state, requests, last, problem.seconds(b, last), plan);
      for (double share = least;; share = std::min(most_share, share + 1.0 / 64)) {
        if (set(task, state, requests, share, plan))
          return accept(task, state, requests, share, problem.seconds(b, share), plan);
        if (plan.binding == Binding::host_memory || share >= most_share) break; // a larger share takes more host memory
      }
    }
    return deny(plan, plan.binding == Binding::none ? Binding::device_memory : plan.binding);
  }

  template <class Task, class S>
  static Verdict accept(const Task& task, S& state, std::int64_t requests, double share, double seconds, Plan& plan) {
    const auto joined = static_cast<std::size_t>(requests) - task.required;
    state.uncached = share;
    plan.predicted_step = Seconds{seconds};
    plan.binding = joined + task.required < task.claims.size() ? Binding::device_memory : Binding::none;
    return {true, joined, plan.binding};
  }

  /// Whether the first `requests` claims fit with `share` of their blocks uncached; `plan` then holds that residency.
  template <class Task, class S>
  static bool set(const Task& task, S& state, std::int64_t requests, double share, Plan& plan) {
    using L = typename Task::layout_type;
    const std::int64_t block_tokens = task.view.limits.block_tokens.count();
    const Holding pattern = state.layers.holding(all_tokens, task.layers());
    std::int64_t blocks = 0; // blocks of the requests so far that may be uncached
    std::int64_t uncached =
        0; // the uncached blocks so far: rounded up over all requests, because rounding each one up would add up
    plan.requests.clear();
    for (const Claim& claim : task.claims.first(static_cast<std::size_t>(requests))) {
      blocks += std::max<std::int64_t>(0, task.blocks(claim).count() - 1);
      const auto up_to = static_cast<std::int64_t>(math::ceil(share * static_cast<double>(blocks) - 1e-9));
      Holding holding{};
      if (up_to > uncached) {
        holding = pattern;
        holding.head = Tokens{(up_to - uncached) * block_tokens};
        uncached = up_to;
      }
      plan.requests.push_back({claim.slot, holding});
    }
    return state.trial.fits(task, plan, L::room(TokenBlocks{uncached}, 2 * state.layers.pair.period(), task.layers()));
  }
};

using TokenWise = BasicTokenWise<>;
/// All resident, the batch sized by the same optimiser.
using SizedBatch = BasicTokenWise<ExactBatchShare, Uncached::none>;

static_assert(Placement<TokenWise>);
static_assert(Placement<SizedBatch>);

} // namespace sluice
