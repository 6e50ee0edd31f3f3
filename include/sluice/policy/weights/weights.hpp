// SPDX-License-Identifier: Apache-2.0
// Weights: the concept of the role that says how much device memory the weights give up for KV.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/role.hpp"
#include "sluice/core/units.hpp"
#include "sluice/policy/cost/cost_model.hpp"
#include "sluice/policy/transfer/estimate.hpp"
#include "sluice/policy/transfer/fair_share.hpp"
#include "sluice/policy/transfer/pipeline.hpp"
#include "sluice/state/plan/plan.hpp"
#include "sluice/state/view/proposal.hpp"
#include "sluice/state/view/view.hpp"

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

namespace sluice {

/// One level that the weights could take: what it would free, and what would then move in every iteration. A node's
/// coordinator grants each engine one level.
struct WeightsLevel {
  WeightsPlan plan;
  Bytes moved_per_iteration{0};
  Seconds step{0}; ///< of a steady decode at this level; set only if a coordinator asks

  /// Streams `streamed` through `slots` slots, `share` of each layer's weights.
  static WeightsLevel of(const Geometry& geometry, LayerSet streamed, int slots, double share = 1) {
    WeightsLevel level;
    level.plan.streamed = streamed;
    level.plan.share = share;
    level.plan.slots = slots;
    level.plan.level = streamed.count() - slots;
    level.plan.freed = geometry.blocks_in(share * (streamed.count() - slots));
    level.moved_per_iteration = Bytes{
        static_cast<std::int64_t>(share * static_cast<double>(geometry.layer_weight_bytes.count()) * streamed.count())};
    return level;
  }
};

/// What a policy bases its levels on.
template <class Cost>
struct WeightsTask {
  using cost_type = Cost;

  const View& view;
  const Cost& cost;              ///< the planner's, corrected by what it has learned
  std::span<const Claim> claims; ///< the requests that want to run
  LayerBlocks demand{0};         ///< blocks of all their KV if it were all resident
  LayerBlocks own{0};            ///< KV memory while all weights are resident; below 0: they do not fit
  Work steady;                   ///< one token of each claim: levels follow this, not the batch's prompts
  int lent = 0;                  ///< layers whose memory other engines of the node have: no level may be lower
  int taken = 0;                 ///< layers whose memory its own KV has in addition, by the plan in force

  [[nodiscard]] int layers() const { return view.geometry.layers; }
  /// Seconds that one layer computes in the steady decode, to hide a transfer (T_c; without embedding and head).
  [[nodiscard]] double layer_compute_s() const { return cost.step(steady).layer.count(); }
  /// Seconds that one layer's weights take over an idle link (T_T).
  [[nodiscard]] double layer_transfer_s() const {
    const LinkCost link = cost.link();
    return static_cast<double>(view.geometry.layer_weight_bytes.count()) / link.rate.count() + link.per_layer.count();
  }
};
using WeightsTaskArchetype = WeightsTask<CostArchetype>;

/// A request at submission, alone on the machine.
template <class Cost>
struct Submission {
  const KnownSpec& spec;
  Seconds now{0}; ///< the request may have waited since its arrival
  const Limits& limits;
  const Geometry& geometry;
  const Cost& cost;   ///< the planner's, corrected by what it has learned
  LayerBlocks own{0}; ///< KV memory while all weights are resident; below 0: they do not fit
  /// Device memory that the KV of `context` needs beyond `own`, with the residency that needs least; 0: none.
  LayerBlocks lacking{0};
  Tokens context{0}; ///< the longest that a server knows of: the prompt and the client's bound, or else the first token
};
using SubmissionArchetype = Submission<CostArchetype>;

/// `P` offers levels.
template <class P>
concept OffersLevels = requires(const P& policy, typename P::State& state, const WeightsTaskArchetype& task,
                                std::vector<WeightsLevel>& levels) {
  { policy.offer(task, state, levels) } -> std::same_as<void>;
};

/// `P` says what it frees for a request that is alone.
template <class P>
concept StatesMostFreed = requires(const P& policy, const Geometry& geometry) {
  { policy.most_freed(geometry) } -> std::same_as<LayerBlocks>;
};

/// `P` says whether it judges a request's SLO at submission; if not, requests are refused only for lack of memory.
template <class P>
concept StatesPromising = requires {
  typename std::bool_constant<P::promises>;
};
template <class P>
concept PromisesSlo = StatesPromising<P> && bool(P::promises);

/// `P` says that a request's SLO can be met, or why not.
template <class P>
concept HasPromise = requires(const P& policy, const SubmissionArchetype& request) {
  // Not `-> std::same_as`: g++ reports a mismatch of that as a second error besides the sentence.
  requires std::same_as<decltype(policy.promise(request)), Status>;
};

template <class P>
concept NamesPromise = requires(P& policy, const SubmissionArchetype& request) {
  policy.promise(request);
};

/// `P` says whether layers' memory can be lent to other engines of its node while its own engine is inactive.
template <class P>
concept StatesLending = requires {
  typename std::bool_constant<P::lends>;
};
template <class P>
concept LendsWeights = StatesLending<P> && bool(P::lends);

/// `P` says how many layers' memory can be lent: of `layers`, each of which takes `transfer_s` over the link, as many
/// as can return while the engine's first prompt computes for `prefill_s`.
template <class P>
concept HasMostLent = requires(const P& policy) {
  requires std::same_as<decltype(policy.most_lent(0, 0.0, 0.0)), int>;
};
template <class P>
concept NamesMostLent = requires(P& policy) {
  policy.most_lent(0, 0.0, 0.0);
};

/// `P` has a hook exactly if its constant says so.
template <class P>
concept WeightsAsSaid = StatesPromising<P> &&
    hook_as_said(PromisesSlo<P>, HasPromise<P>, NamesPromise<P>) && StatesLending<P> &&
    hook_as_said(LendsWeights<P>, HasMostLent<P>, NamesMostLent<P>);

/// How much device memory the weights give up for KV, which layers stream, and through how many slots. Of a model whose
/// layers differ only those of one size stream (`Geometry::streamable`), since a slot has one.
///
///  1. `P::role` is `roles::Weights`; `P::State` is default-constructible.
///  2. `offer(task, state, levels)` appends the levels that it would take for the task's demand, the preferred one
///     first. None: the weights stay resident.
///  3. `most_freed(geometry)`: what it frees for a request that is the only claim and needs it, whatever its SLO. The
///     engine relies on it: at submission it accepts requests that it would otherwise refuse, and without such a level
///     they would never end.
///  4. `P::promises`: whether it judges SLOs. `promise(request)` then says ok, or an error with `what` (the SLO asked
///     for, the best possible one) and `expected`, with which the engine refuses the request at submission.
///  5. `P::lends`: whether its memory can be lent in a node. `most_lent(layers, transfer_s, prefill_s)` then says how
///     many layers' memory it lends while its engine is inactive.
///
/// Requirements that are not checked: levels depend on the steady decode, not on the present batch, otherwise they
/// would alternate between prompts and decodes; a level is never above what the transfer rule can hide within the SLO.
template <class P>
concept Weights =
    PlaysRole<P, roles::Weights> && HasState<P> && OffersLevels<P> && StatesMostFreed<P> && WeightsAsSaid<P>;

template <>
struct Contract<roles::Weights> {
  template <class P>
  static constexpr bool met = Weights<P>;

  template <class P>
  static consteval auto explain() {
    static_assert(HasState<P>, "sluice: this Weights policy needs a nested `State`: write `struct State {};` if it "
                               "remembers nothing");
    if constexpr (HasState<P>) {
      static_assert(OffersLevels<P>, "sluice: this Weights policy needs `template <class Task> void offer(const Task&, "
                                     "State&, std::vector<WeightsLevel>&) const`");
    }
    static_assert(StatesMostFreed<P>, "sluice: this Weights policy needs `LayerBlocks most_freed(const Geometry&) "
                                      "const`, 0 if it never frees any");
    static_assert(StatesPromising<P>, "sluice: this Weights policy needs `static constexpr bool promises = false;` "
                                      "(true if it answers for SLOs at submission: `promise`)");
    if constexpr (StatesPromising<P>) {
      static_assert(!PromisesSlo<P> || HasPromise<P>,
                    "sluice: this Weights policy says promises = true and needs `template <class Request> Status "
                    "promise(const Request&) const`");
      static_assert(PromisesSlo<P> || !NamesPromise<P>,
                    "sluice: this Weights policy has `promise`, but says promises = false: no request would be refused "
                    "for its SLO. Say true, or leave the hook out");
    }
    static_assert(StatesLending<P>, "sluice: this Weights policy needs `static constexpr bool lends = false;` (true if "
                                    "it lends layers' memory in a node: `most_lent`)");
    if constexpr (StatesLending<P>) {
      static_assert(!LendsWeights<P> || HasMostLent<P>,
                    "sluice: this Weights policy says lends = true and needs `int most_lent(int layers, double "
                    "transfer_s, double prefill_s) const`");
      static_assert(LendsWeights<P> || !NamesMostLent<P>,
                    "sluice: this Weights policy has `most_lent`, but says lends = false: nothing would be lent. Say "
                    "true, or leave the hook out");
    }
    return true;
  }

  template <bool Once>
  static consteval auto explain_twice() {
    static_assert(Once, "sluice: two Weights policies in one engine: keep one of them");
    return true;
  }
};

// Coordination: how an engine in a node asks for memory while it decides.

/// What a batch needs of the memory and time that a node's engines share.
struct BatchNeeds {
  LayerBlocks demand{0};  ///< KV of the whole batch if it were all resident, including requests that would join
  LayerBlocks running{0}; ///< the part of it that running requests need: with less, one of them is preempted
  LayerBlocks first{0};   ///< the part of it that the first request needs: with less, no request can run
  Seconds slo{0};         ///< the tightest time between two tokens; 0: no SLO
};

/// One protocol for everything that several engines share (docs/node.md): an engine says what it needs and what its
/// weights offer; the node lends it other engines' memory and grants one of the levels. An engine outside a node has
/// none of this and takes the first level that it offers.
///
/// Two function pointers instead of a role: an engine's type does not depend on where it runs, and there is one call
/// per iteration.
struct Coordination {
  void* node = nullptr;
  std::size_t engine = 0; ///< the engine that asks
  /// KV blocks of other engines' memory that the engine may use from this decision on; null: no engine lends any.
  /// `demand`: the blocks of the engine's batch if it were all resident; `own`: the engine's blocks while all weights
  /// are resident.
  LayerBlocks (*lend)(void* node, std::size_t engine, LayerBlocks demand, LayerBlocks own) = nullptr;
  /// The highest level (`WeightsPlan::level`) that the engine may take; -1: none. The engine has offered its levels
  /// before. Null: any level.
  int (*grant)(void* node, std::size_t engine) = nullptr;
};

// streamed_step: how long an iteration takes while weights stream, by the evaluator.

/// The time of an iteration that repeats, token after token, while only these weights cross the link. All rules but
/// `NextLayer` give the same time, so one of them is used. The first iterations, from a cold start, are left out.
class StreamedStep {
 public:
  /// The steady decode of the task's claims.
  template <class Task>
  [[nodiscard]] Seconds operator()(const Task& task, const WeightsPlan& weights) {
    return of(task.cost, task.view.geometry, task.steady, weights);
  }
  /// Any work.
  template <Predictor Cost>
  [[nodiscard]] Seconds of(const Cost& cost, const Geometry& geometry, const Work& work, const WeightsPlan& weights) {
    const StepTime time = cost.step(work);
    if (weights.streamed.empty()) return time.total(geometry.layers);
    const auto layers = static_cast<std::size_t>(geometry.layers);
    own_layer_times(cost, work, time.layer, {compute_.data(), layers});
    Pipeline pipeline;
    pipeline.compute_s = {compute_.data(), layers};
    pipeline.before_s = time.before.count();
    pipeline.after_s = time.after.count();
    pipeline.link = block_link(cost.link(), geometry, 0);
    pipeline.weights = geometry.stream_of(weights);
    state_.clear();
    StepCost step;
    for (int token = 0; token < repeats_after; ++token) step = FairShare::evaluate(pipeline, state_);
    return Seconds{contended(step, time.on_link).step_s};
  }

 private:
  static constexpr int repeats_after = 3; ///< tokens after which steps repeat: the one before fills a token's slots

  LayerArray compute_{};
  FairShare::State state_;
};

} // namespace sluice
