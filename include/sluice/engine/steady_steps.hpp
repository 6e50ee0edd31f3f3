// SPDX-License-Identifier: Apache-2.0
// SteadySteps: repeats the last iteration, one token on, without asking the policies for a decision.
#pragma once

#include "sluice/engine/core/decision.hpp"
#include "sluice/engine/core/prepared.hpp"
#include "sluice/engine/core/writers.hpp"
#include "sluice/engine/policies.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace sluice {

/// A shortcut that changes no result. `CarryOver::steady` holds after an iteration in which every request of the batch
/// decoded with all KV resident and nothing moved, until something happens.
template <class C>
class SteadySteps {
 public:
  /// False for engines that never take the shortcut: they decide ahead, or something may change without an event.
  static constexpr bool possible = !C::lookahead_type::ahead && !is_real_time<typename C::backend_type> &&
                                   C::admission_type::steady && !CopiesAhead<typename C::retention_type>;

  /// Whether the decision stands once more: no plan is due. `grow_steadily` then gives each claim room for a token;
  /// `opening` of them open a block.
  ///
  /// With tiers, their transfers go on in steady steps as in others, and do not change who runs: what a request waits
  /// for ends the steady steps when it comes (`CarryOver::more_may_join`). But those that were considered in vain may
  /// find more, and Caching's answer may change with time, so they are looked up in each step.
  template <class Facts>
  [[nodiscard]] static bool stands(const Policies<C>& policies, const Decision& decision, const View& view,
                                   [[maybe_unused]] const Facts& facts, [[maybe_unused]] const Draft& draft,
                                   [[maybe_unused]] const PolicyCalls& calls) {
    if (policies.replan.due(view, policies.replan_state, decision.candidates)) return false;
    if constexpr (has_tiers<C>) return draft.asked.empty() || !facts.look_up(draft.asked, view, calls);
    return true;
  }
  [[nodiscard]] std::int64_t opening() const { return opening_; }
  /// The shortest TBT SLO of the batch.
  [[nodiscard]] Seconds tightest() const { return tightest_; }
  /// Turns the last iteration into the next.
  static void prepare(const Core& core, Prepared& prepared) {
    prepared.work.decode_context += Tokens{prepared.work.decodes};
    if (!core.geometry.reads().limits().empty()) {
      prepared.work.within = {};
      for (const Slot slot : core.requests.running)
        prepared.work.add_within(core.row(slot).computed + Tokens{1}, core.geometry.reads());
    }
    prepared.weights = {}; // nothing moves: no need to `prepare`
    prepared.urgent_out = prepared.background = 0;
    prepared.planning = Seconds{0};
    prepared.repeated = false;
    prepared.room = static_cast<double>(core.ledger.device().free().count());
  }

  /// Records whether the next step repeats this one. If every request of the batch decoded with all KV resident, and no
  /// request has ended, is preempted or was left out for lack of tokens, then the admission would make the same claims,
  /// and the plan in force would accept the same ones: room only shrinks until something happens.
  [[nodiscard]] bool remember(const Core& core, const Moves& moves, const Decision& decision, const Draft& draft,
                              const Prepared& prepared, double background_blocks) {
    const auto& running = core.requests.running;
    // The needs of a node's other engines may change at any time, so weights that can give up memory are asked in every
    // step. No decision depends on what is on its way to a tier.
    bool steady = !(Policies<C>::streams_weights && draft.offer.asks()) && prepared.chunks.empty() &&
                  moves.streams.empty() && moves.rebuilds.empty() && core.plan.weights.streamed.empty() &&
                  core.requests.preempted.empty() && (has_tiers<C> || background_blocks <= 0) && !decision.new_plan &&
                  decision.victims.empty() && decision.leaving.empty() &&
                  !(has_tiers<C> && !decision.refused.empty()) && decision.claims.size() == running.size() &&
                  prepared.work.decodes == static_cast<std::int64_t>(running.size());
    opening_ = 0;
    tightest_ = Seconds{std::numeric_limits<double>::infinity()};
    for (std::size_t i = 0; steady && i < running.size(); ++i) {
      const RequestRow& request = core.row(running[i]);
      steady = request.holding.all_resident();
      opening_ += request.slack.count() == 0 ? 1 : 0;
      tightest_ = std::min(tightest_, request.spec.slo.tbt);
    }
    return steady;
  }
  /// After a steady step: `requests` of the batch open a block with their next token.
  void count_opening(std::int64_t requests) { opening_ = requests; }

 private:
  std::int64_t opening_ = 0;
  Seconds tightest_{0};
};

} // namespace sluice
