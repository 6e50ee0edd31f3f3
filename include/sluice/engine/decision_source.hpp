// SPDX-License-Identifier: Apache-2.0
// DecisionSource: the source of an engine's decisions: between two iterations, or ahead of the next one.
#pragma once

#include "sluice/engine/core/plan_fit.hpp"
#include "sluice/engine/decider.hpp"

#include <exception>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice {

/// An engine's parts, as its decision source sees them.
template <class C>
struct EngineParts {
  const Core& core;
  FactsWriter<C> facts; ///< of `core`
  Draft& draft;
  Policies<C>& policies;
  typename C::backend_type& backend;
  Decision& decision; ///< to run next
  const TokenAccounts<C>& accounts;
};

namespace detail {

/// Makes a decision now, for which the iteration waits. Returns how long.
template <class C>
Seconds decide_now(const EngineParts<C>& engine) {
  Decider<C>(engine.core, engine.facts, engine.draft, engine.policies)
      .decide(engine.backend.now(), false, engine.decision);
  const Seconds planning = engine.decision.planning;
  if (planning.count() > 0) engine.backend.idle_until(engine.backend.now() + planning);
  return planning;
}

/// Whether the decision that was made ahead can be committed now.
template <class C>
bool still_fits(const EngineParts<C>& engine) {
  return sluice::still_fits(engine.core, engine.draft, engine.decision, {policy_table<C>, &engine.policies},
                            engine.backend.now());
}

} // namespace detail

/// `InStep`: the engine decides between two iterations.
template <class C>
class DecidesInStep {
 public:
  /// Puts the decision to run now into `engine.decision`. Returns how long the iteration waited for it; `repeated`
  /// becomes true if the last decision runs once more.
  Seconds take(const EngineParts<C>& engine, bool& /*repeated*/) { return detail::decide_now(engine); }
  /// The backend has got an iteration.
  template <class Transfer>
  void launching(const EngineParts<C>& /*engine*/, const Iteration& /*iteration*/, const Transfer& /*state*/) {}
  /// The iteration has run and its tokens are counted, but the requests that end with it have not ended yet.
  void accounted(const EngineParts<C>& /*engine*/, Seconds /*start*/, Seconds /*duration*/) {}
  /// A request ends or is cancelled.
  void forget(Slot /*slot*/) {}
};

/// `OneStepAhead` on a virtual clock: the engine decides the next iteration from the predicted end of the running one,
/// and takes the decision once the time of its search has passed.
template <class C>
class DecidesAhead {
 public:
  Seconds take(const EngineParts<C>& engine, bool& repeated) {
    if (pending_.valid) {
      Seconds waited{0};
      if (pending_.ready > engine.backend.now()) {
        if (repeat_last(engine.core, engine.decision)) {
          repeated = true;
          return waited;
        }
        // No iteration can run without the decision, so the engine waits.
        waited = pending_.ready - engine.backend.now();
        engine.backend.idle_until(pending_.ready);
      }
      std::swap(engine.decision, pending_);
      pending_.valid = false;
      if (detail::still_fits(engine)) return waited;
    }
    return detail::decide_now(engine);
  }
  template <class Transfer>
  void launching(const EngineParts<C>& /*engine*/, const Iteration& /*iteration*/, const Transfer& /*state*/) {}
  /// Decides the next iteration. It does not know the arrivals during the running one (the caller submits them
  /// afterwards), nor which requests end with it (they are still in the lists).
  void accounted(const EngineParts<C>& engine, Seconds start, Seconds duration) {
    Decider<C>(engine.core, engine.facts, engine.draft, engine.policies).decide(start + duration, true, pending_);
    pending_.ready = start + pending_.planning;
    pending_.planning = Seconds{0};
  }
  void forget(Slot slot) {
    std::erase_if(pending_.claims, [slot](const Claim& claim) { return claim.slot == slot; });
    std::erase(pending_.leaving, slot);
    std::erase(pending_.victims, slot);
    std::erase(pending_.next, slot);
    std::erase_if(pending_.refused, [slot](const Refusal& refused) { return refused.slot == slot; });
  }

 private:
  Decision pending_;
};

/// `OneStepAhead` in real time: a thread of the backend decides the next iteration while this one runs.
///
/// The thread decides on a copy of the core, as if the iteration had ended at the end that the planner's model
/// predicts, with a token for every request. It writes only the copy, so neither the iteration nor its accounts wait.
/// The copy's placement has its own state, so no search is shared. Rejected: planning on the core itself under a lock,
/// for which every step would wait.
template <class C>
class DecidesAsync {
 public:
  using Backend = typename C::backend_type;
  using Transfer = typename C::transfer_type;

  DecidesAsync() = default;
  DecidesAsync(DecidesAsync&& other) noexcept
      : copy_(std::exchange(other.copy_, nullptr)),
        planning_(std::exchange(other.planning_, false)),
        since_(other.since_) {}
  DecidesAsync& operator=(DecidesAsync&& other) noexcept {
    std::swap(copy_, other.copy_);
    std::swap(planning_, other.planning_);
    std::swap(since_, other.since_);
    return *this;
  }
  ~DecidesAsync() {
    if (copy_ == nullptr) return;
    copy_->backend.join_async(); // the thread may still be planning, and nothing else waits for it
    delete copy_;
  }

  Seconds take(const EngineParts<C>& engine, bool& repeated) {
    if (planning_) {
      if (!engine.backend.async_done() && repeat_last(engine.core, engine.decision)) {
        repeated = true;
        return Seconds{0};
      }
      const Seconds asked = engine.backend.now();
      collect(engine); // if no iteration can run without the decision, the engine waits
      // A refusal is final, and users may have left since this decision: decide again on the present state.
      if (engine.decision.valid && engine.decision.refused.empty() && detail::still_fits(engine))
        return engine.backend.now() - asked;
    }
    return detail::decide_now(engine);
  }

  /// Starts to decide the iteration after `iteration`, unless a decision is still being made.
  void launching(const EngineParts<C>& engine, const Iteration& iteration, const typename Transfer::State& state) {
    if (planning_) return;
    typename Transfer::State left = state;
    LayerArray compute;
    const Seconds expected =
        engine.backend.now() + evaluate<Transfer>(iteration, engine.policies.predictor(), compute, left).duration;
    if (copy_ == nullptr) {
      copy_ = new Copy{engine.core, engine.draft, engine.policies, engine.backend, {}, {}, engine.accounts, {}, {}};
      copy_->policies.silent = true;
    }
    Copy& copy = *copy_;
    copy.core = engine.core;
    copy.draft.plan = engine.draft.plan;
    copy.draft.offer = engine.draft.offer;
    copy.draft.unseen_plans.clear();
    static_cast<PolicyStates<C>&>(copy.policies) = engine.policies;
    copy.running = engine.decision;
    copy.accounts = engine.accounts;
    copy.ends = expected;
    since_ = engine.backend.now();
    engine.backend.async([](void* what) { static_cast<Copy*>(what)->decide(); }, copy_);
    planning_ = true; // it has started
  }
  void accounted(const EngineParts<C>& /*engine*/, Seconds /*start*/, Seconds /*duration*/) {}
  void forget(Slot /*slot*/) {}

 private:
  struct Copy {
    Core core;
    Draft draft;
    Policies<C> policies;
    Backend backend; ///< a handle
    Decision running, decision;
    TokenAccounts<C> accounts;
    Seconds ends{0};           ///< the running iteration's predicted end
    std::exception_ptr thrown; ///< by a policy on the thread

    void decide() noexcept {
      try {
        accounts.account(core, running.claims, ends, policies);
        accounts.forget_finished();
        Decider<C>(core, FactsWriter<C>(core), draft, policies).decide(ends, true, decision);
      } catch (...) {
        thrown = std::current_exception();
      }
    }
  };

  /// Takes over the copy's decision; waits until it is ready. Removes requests that have ended, were refused or have
  /// lost their KV since, and takes over what policies learned while they decided.
  void collect(const EngineParts<C>& engine) {
    engine.backend.join_async();
    planning_ = false;
    Copy& copy = *copy_;
    if (copy.thrown) std::rethrow_exception(std::exchange(copy.thrown, nullptr));
    const Core& core = engine.core;
    if constexpr (Caches<typename C::caching_type>)
      for (const Claim& claim : copy.decision.claims)
        if (core.row(claim.slot).id == copy.core.row(claim.slot).id)
          engine.facts.take_load(claim.slot, copy.core.row(claim.slot));
    std::swap(engine.decision, copy.decision);
    std::swap(engine.draft.plan, copy.draft.plan);
    engine.draft.made_ahead = true;
    engine.draft.offer = copy.draft.offer;
    static_cast<DecisionStates<C>&>(engine.policies) = copy.policies;
    const auto gone = [&core, &copy](Slot slot) {
      const RequestRow& request = core.row(slot);
      const RequestRow& then = copy.core.row(slot);
      return request.phase == Phase::ended || request.id != then.id || request.times_preempted != then.times_preempted;
    };
    Decision& decision = engine.decision;
    std::erase_if(decision.claims, [&gone](const Claim& claim) { return gone(claim.slot); });
    for (std::vector<Slot>* list : {&decision.leaving, &decision.victims, &decision.next}) std::erase_if(*list, gone);
    std::erase_if(decision.refused, [&gone](const Refusal& refused) { return gone(refused.slot); });
    std::erase_if(engine.draft.plan.requests, [&gone](const RequestPlan& planned) { return gone(planned.slot); });
    // An admission that learns from its proposals (FutureMemory) learns here, on the core: its queue has changed since,
    // so the copy's state cannot be taken over.
    View view = core.view(engine.backend.now());
    Proposal& proposal = engine.draft.proposal;
    proposal.clear();
    asked(detail::PolicyFunctions<C>::admission_name, [&] { engine.policies.propose(view, proposal); });
    view.now = since_; // when these plans were started
    for (const UnseenPlan& made : copy.draft.unseen_plans)
      engine.policies.tell(events::Planned{view, made.plan, made.wall, made.wall});
  }

  Copy* copy_ =
      nullptr; ///< created by the first decision, and owned; its address stays the same while the engine moves
  bool planning_ = false; ///< the thread decides, or has decided and the result is not collected yet
  Seconds since_{0};      ///< when the thread started
};

namespace detail {
template <class C>
constexpr auto* source_of() {
  if constexpr (!C::lookahead_type::ahead)
    return static_cast<DecidesInStep<C>*>(nullptr);
  else if constexpr (is_real_time<typename C::backend_type>)
    return static_cast<DecidesAsync<C>*>(nullptr);
  else
    return static_cast<DecidesAhead<C>*>(nullptr);
}
} // namespace detail

/// The decision source of composition `C`, by its lookahead and backend.
template <class C>
using DecisionSource = std::remove_pointer_t<decltype(detail::source_of<C>())>;

} // namespace sluice
