// SPDX-License-Identifier: Apache-2.0
// Placement: the concept of the role that says where each layer's KV of each request lives.
#pragma once

#include "sluice/core/role.hpp"
#include "sluice/policy/cost/cost_model.hpp"
#include "sluice/policy/layout/layout.hpp"
#include "sluice/policy/layout/per_layer.hpp"
#include "sluice/policy/transfer/deadline_pool.hpp"
#include "sluice/policy/transfer/estimate.hpp"
#include "sluice/state/memory/holding.hpp"
#include "sluice/state/plan/plan.hpp"
#include "sluice/state/view/proposal.hpp"
#include "sluice/state/view/view.hpp"

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace sluice {

/// One planning problem: the claims, the memory for them, and the models that judge a plan.
///
/// `Cost` is the planner's cost model, `Transfer` the rule by which the engine moves blocks, `L` its layout: a
/// placement is judged by what the engine will do.
template <class Cost, class Transfer, class L>
struct PlacementTask {
  using cost_type = Cost;
  using transfer_type = Transfer;
  using layout_type = L;

  const View& view;                    ///< everything else that a policy may know
  std::span<const Claim> claims;       ///< required claims first
  std::size_t required = 0;            ///< how many of the claims are required
  LayerBlocks device_budget{0};        ///< for the KV of these requests, blocks in flight included
  LayerBlocks host_budget{0};          ///< the same on the host
  const Cost& cost;                    ///< predicts a step and the link, corrected by what was learned
  Window window;                       ///< for how many iterations the plan must hold
  bool enforce_slo = true;             ///< false: one request is left, and runs without regard to its SLO
  std::int64_t depleted_preempted = 0; ///< preempted requests with an empty deposit, which miss their SLO now
  WeightStream weights{};              ///< streamed with any KV plan
  Tokens ahead{0};                     ///< judge the claims at this many tokens beyond their present contexts

  /// The same problem `more` tokens later: each of the claims has generated so many, and what judges a plan (`blocks`,
  /// `steady_decode`, the trials) judges that batch.
  [[nodiscard]] PlacementTask after(Tokens more) const {
    PlacementTask later = *this;
    later.ahead += more;
    return later;
  }
  /// The model's layers.
  [[nodiscard]] int layers() const { return view.geometry.layers; }
  /// The layers that a plan may move to the host (`Geometry::movable`): all of them, unless layers keep different
  /// amounts.
  [[nodiscard]] LayerSet among() const { return view.geometry.movable(); }

  /// Blocks per layer of a claim after it has joined and generated `steps` more tokens.
  [[nodiscard]] TokenBlocks blocks(const Claim& claim, std::int64_t steps = 0) const {
    const Tokens tokens = std::max(claim.tokens, claim.reserve) + ahead + Tokens{steps};
    return view.row(claim.slot).blocks_after(tokens, view.limits.block_tokens);
  }
  /// The room that `blocks` of a request take in both memories with this residency, in the engine's layout.
  [[nodiscard]] Footprint footprint_of(const Holding& holding, TokenBlocks blocks) const {
    if (!view.geometry.alike())
      return sluice::footprint_of(view.geometry.kv(), holding, blocks, view.limits.block_tokens, layers());
    return footprint<L>(holding, blocks, view.limits.block_tokens, layers(), view.geometry.hidden_size());
  }

  /// The steady decode of the first `count` claims, each with one token per step: plans are judged by it. (Its prompts
  /// pass soon; judging by them would change the plan twice per request.)
  [[nodiscard]] Work steady_decode(std::size_t count) const {
    Work work;
    for (const Claim& claim : claims.first(count))
      work.add_decode(view.row(claim.slot).context() + ahead + Tokens{1}, view.geometry.reads());
    work.samples = work.decodes;
    return work;
  }
  /// The tightest SLO of the first `count` claims, per token. Infinite if no SLO is enforced.
  [[nodiscard]] Seconds tightest_slo(std::size_t count) const {
    Seconds slo{std::numeric_limits<double>::infinity()};
    if (enforce_slo)
      for (const Claim& claim : claims.first(count)) slo = std::min(slo, view.row(claim.slot).spec.slo.tbt);
    return slo;
  }
  /// The fewest layers that must leave the device if all requests give up the same ones, each of which takes `each` of
  /// them: the resident rest fits, without what is in flight and what layers keep that cannot leave.
  [[nodiscard]] int fewest_away(LayerBlocks each) const {
    const int most = among().count();
    const std::int64_t resident = each.count() > 0 ? device_budget.count() / each.count() : most;
    return static_cast<int>(std::max<std::int64_t>(0, most - resident));
  }
  /// The link in the evaluator's unit.
  [[nodiscard]] BlockLink block_link() const { return sluice::block_link(cost.link(), view.geometry); }
};

/// A placement's answer besides the plan.
struct Verdict {
  bool feasible = false;  ///< the required claims have a plan; otherwise Relief makes room and the task comes back
  std::size_t joined = 0; ///< how many optional claims have a place: the first ones that are not skipped
  Binding binding = Binding::none; ///< what prevented feasibility or a better plan
  /// Optional claims that have no place although later ones do (backfilling): indices into `task.claims`, ascending,
  /// all before the last claim that joins. The memory is the policy's, and must last until its next answer.
  std::span<const std::size_t> skipped{};

  static constexpr Verdict infeasible(Binding why) { return {false, 0, why, {}}; }
};

using PlacementTaskArchetype = PlacementTask<CostArchetype, DeadlinePool, PerLayer>;

/// `P` names its state for a given transfer rule (a solver keeps its workspace there).
template <class P>
concept HasPlacementState = requires {
  typename P::template State<DeadlinePool>;
}
&&std::default_initializable<typename P::template State<DeadlinePool>>;

/// `P` solves a task.
template <class P>
concept SolvesPlacement = requires(const P& policy, typename P::template State<DeadlinePool>& state,
                                   const PlacementTaskArchetype& task, Plan& plan) {
  { policy.solve(task, state, plan) } -> std::same_as<Verdict>;
};

/// `P` names the residency with the least device memory for a request alone.
template <class P>
concept StatesLeastHolding = requires(const P& policy, int layers) {
  { policy.least(layers) } -> std::same_as<Holding>;
};

/// `P` names the same of the holdings that have at most `on_host` layers on the host; none if it may choose to have all
/// KV on the device.
template <class P>
concept StatesLeastWithinHost = requires(const P& policy, int layers) {
  { policy.least(layers, /*on_host=*/layers) } -> std::same_as<Holding>;
};

/// `P` says whether it places layers one by one.
template <class P>
concept StatesPlacesLayers = requires {
  { P::places_layers } -> std::convertible_to<bool>;
};

/// `P` says that its plans may have layers nowhere.
template <class P>
concept Rebuilds = requires {
  requires bool(P::rebuilds);
};

/// `P` says that it places models whose layers keep different amounts.
template <class P>
concept PlacesUnequalLayers = requires {
  requires bool(P::unequal_layers);
};

/// `P` says that its plans may keep hidden states on the device.
template <class P>
concept KeepsStates = requires {
  requires bool(P::keeps_states);
};

/// Where each layer's KV of each accepted request lives, and how many *optional* claims join; or *infeasible*, with
/// what binds.
///
///  1. `P::role` is `roles::Placement`; `P::template State<Transfer>` is default-constructible.
///  2. `solve(task, state, plan)` fills `plan.requests` (one per accepted claim, in the order of the claims) or
///     `plan.unseen` with `plan.covers_unseen`, and `plan.in_flight`. On entry the plan may hold an older plan's
///     content. The engine fills in candidates, step and expiry.
///  3. `least(layers)`: the residency with the least device memory that the policy could ever choose. It decides at
///     submission whether a request can be placed at all. Optional: `least(layers, on_host)`, the same if the host
///     has room for `on_host` layers of the request. Without it, the host must have room for `least(layers)`.
///  4. `P::places_layers`: true if a plan may treat some layers of a request unlike others, which needs a layerwise
///     layout.
///  5. Optional: `P::rebuilds`. True if a plan may have layers nowhere (`Holding::nowhere`), of which a tier would have
///     no copy: such a policy composes with no Caching policy.
///  6. Optional: `P::keeps_states`. True if a plan may keep hidden states on the device (`Holding::states_on_device`).
///     Such a policy composes with EveryStep alone, and not with a Retention that finds released blocks.
///  7. Optional: `P::unequal_layers`. True if it also places models whose layers keep different amounts of KV
///     (`Geometry::groups`): it moves only layers of `task.among()`, takes room from `task.footprint_of` and what a
///     layer moves from `Geometry::moved`. Engines refuse such a model for every other policy. `least` then counts the
///     layers of `task.among()`, from 0.
///  8. Optional: `P::knows_lengths`. True if it reads the lengths of answers to come (KnowsLengths): reports then mark
///     the system as an oracle.
///
/// Checked when a plan is adopted, in every build; a violation ends the run (`BasicEngine::status`): resident blocks
/// and blocks in flight stay within `task.device_budget`, host blocks within `task.host_budget`, each claim is
/// named once, and with tiers no layer is nowhere. Requirements that are not checked: the plan stays within the budgets
/// for `task.window.min` iterations; removing a claim never makes a feasible task infeasible.
template <class P>
concept Placement = PlaysRole<P, roles::Placement> && HasPlacementState<P> && SolvesPlacement<P> &&
    StatesLeastHolding<P> && StatesPlacesLayers<P> && !(PlacesUnequalLayers<P> && (Rebuilds<P> || KeepsStates<P>));

template <>
struct Contract<roles::Placement> {
  template <class P>
  static constexpr bool met = Placement<P>;

  template <class P>
  static constexpr const char* equal_layers =
      Rebuilds<P> || KeepsStates<P> ? "its Placement policy rebuilds layers"
      : PlacesUnequalLayers<P>      ? nullptr
                                    : "its Placement policy counts layers of one size";

  template <class P>
  static consteval auto explain() {
    static_assert(HasPlacementState<P>, "sluice: this Placement policy needs `template <class Transfer> struct State`: "
                                        "write `template <class> struct State {};` if it remembers nothing");
    if constexpr (HasPlacementState<P>) {
      static_assert(SolvesPlacement<P>,
                    "sluice: this Placement policy needs `template <class Task, class S> Verdict solve(const Task&, "
                    "S& state, Plan&) const`");
    }
    static_assert(StatesLeastHolding<P>, "sluice: this Placement policy needs `Holding least(int layers) const`, the "
                                         "holding with the least device memory that it could choose");
    static_assert(StatesPlacesLayers<P>, "sluice: this Placement policy needs `static constexpr bool places_layers = "
                                         "true;` (false if a request is on the device whole or not at all)");
    static_assert(!(PlacesUnequalLayers<P> && (Rebuilds<P> || KeepsStates<P>)),
                  "sluice: this Placement policy rebuilds layers (`rebuilds` or `keeps_states`) and says "
                  "unequal_layers = true: K and V are rebuilt only where all layers keep the same, so leave that out");
    return true;
  }

  template <bool Once>
  static consteval auto explain_twice() {
    static_assert(Once, "sluice: two Placement policies in one engine: keep one of them");
    return true;
  }
};

/// The most optional claims that can join: the longest prefix for which `feasible(claims)` is true, given that it is
/// true for the required claims alone and, once false, stays false for more claims.
template <class Feasible>
[[nodiscard]] std::size_t longest_prefix(std::size_t required, std::size_t claims, Feasible&& feasible) {
  if (claims == required || feasible(claims)) return claims - required;
  std::size_t fits = required, fails = claims;
  while (fails - fits > 1) {
    const std::size_t middle = fits + (fails - fits) / 2;
    (feasible(middle) ? fits : fails) = middle;
  }
  return fits - required;
}

} // namespace sluice
