// SPDX-License-Identifier: Apache-2.0
// Beside: the next decision is made on a thread of the backend's, while a real iteration runs.
#pragma once

#include "sluice/engine/engine.hpp"

#include <algorithm>
#include <memory>

namespace sluice {

/// Starts to decide what follows `iteration`, unless a decision is still being made: in a copy of this engine, as if
/// the iteration had ended when the planner's model expects it to, everybody with their tokens. Only the copy is
/// written on the other thread, so that neither the iteration nor its accounts wait; and the copy's placement keeps its
/// own state, so that nobody shares a search. (Rejected: planning on the engine itself under a lock, which every step
/// would wait for.)
template <class C>
void BasicEngine<C>::decide_async(const Iteration& iteration) {
  if constexpr (plans_async) {
    if (async_ || imagined_) return;
    predicted_ahead_ = transfer_state_;
    const Seconds expected =
        now() +
        evaluate<transfer_type>(iteration, config_.cost.predictor(cost_state_), compute_, predicted_ahead_).duration;
    if (copy_ == nullptr) {
      // It may be planning when the engine ends: nobody else knows.
      copy_ = {new BasicEngine(*this), [backend = backend_](BasicEngine* copy) mutable {
                 backend.join_async();
                 delete copy;
               }};
      copy_->imagined_ = true;
    }
    BasicEngine& copy = *copy_;
    static_cast<EngineState&>(copy) = *this;
    copy.admission_state_ = admission_state_;
    copy.weights_state_ = weights_state_;
    copy.cost_state_ = cost_state_;
    copy.replan_state_ = replan_state_;
    copy.relief_state_ = relief_state_;
    copy.finder_ = finder_;
    copy.imagined_plans_.clear();
    copy.imagined_at_ = expected;
    async_since_ = now();
    async_ = true;
    backend_.async(
        [](void* what) {
          BasicEngine& self = *static_cast<BasicEngine*>(what);
          ++self.step_;
          self.account(self.imagined_at_);
          self.finished_rows_.clear(); // nobody knows yet who ends
          self.decide(self.imagined_at_, self.pending_);
        },
        copy_.get());
  }
}

/// The decision that was made beside, as this engine's own: waits for it where it must. Who has ended since, or was
/// refused, is taken out; what policies learned while they decided is theirs.
template <class C>
void BasicEngine<C>::collect_async() {
  if constexpr (plans_async) {
    backend_.join_async();
    async_ = false;
    BasicEngine& copy = *copy_;
    std::swap(decision_, copy.pending_);
    std::swap(next_plan_, copy.next_plan_);
    levels_ = copy.levels_;
    needs_ = copy.needs_;
    granted_level_ = copy.granted_level_;
    borrowed_ = copy.borrowed_;
    weights_state_ = copy.weights_state_;
    relief_state_ = copy.relief_state_;
    const auto gone = [this, &copy](Slot slot) {
      const RequestRow& who = row(slot);
      return who.phase == Phase::ended || who.id != copy.row(slot).id;
    };
    std::erase_if(decision_.claims, [&gone](const Claim& claim) { return gone(claim.slot); });
    for (std::vector<Slot>* list : {&decision_.leaving, &decision_.victims, &decision_.unplaceable})
      std::erase_if(*list, gone);
    std::erase_if(next_plan_.requests, [&gone](const RequestPlan& planned) { return gone(planned.slot); });
    // What an admission learns from its proposals (FutureMemory) it learns here: its queue has changed meanwhile, so
    // that the copy's state cannot be taken over.
    View view = view_at(now());
    proposal_.clear();
    config_.admission.propose(view, admission_state_, proposal_);
    view.now = async_since_; // when these plans were begun
    for (const detail::ImaginedPlan& made : copy.imagined_plans_)
      observe(
          [&](const auto& observer, auto& state) { observer.planned(state, view, made.plan, made.wall, made.wall); });
  }
}

} // namespace sluice
