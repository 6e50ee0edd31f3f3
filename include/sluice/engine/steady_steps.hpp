// SPDX-License-Identifier: Apache-2.0
// SteadySteps: runs the last iteration once more, one token on, without asking the policies for a decision.
#pragma once

#include "sluice/engine/core/committer.hpp"
#include "sluice/engine/core/decision.hpp"
#include "sluice/engine/core/prepared.hpp"
#include "sluice/engine/policies.hpp"

#include <cstddef>
#include <cstdint>

namespace sluice {

/// A shortcut, which changes no result: `Core::steady` holds from an iteration in which every request of the batch
/// decoded, all of it resident, and nothing moved, until something happens.
template <class C>
class SteadySteps {
 public:
  /// False for engines that never take the shortcut: they decide ahead, or something may change without an event.
  static constexpr bool possible = !C::lookahead_type::ahead && !is_real_time<typename C::backend_type> &&
                                   C::admission_type::steady && !CopiesAhead<typename C::retention_type>;

  /// Begins the step: one pass for the blocks (and at its end one for the tokens). False, with nothing done, where a
  /// plan is due or a block is missing.
  [[nodiscard]] bool begin(Core& core, Committer& committer, const Decision& decision, const View& view,
                           const Policies<C>& policies, Prepared& prepared) {
    if (policies.replan.due(view, policies.replan_state, decision.candidates)) return false;
    if (!committer.grow_steadily(core, decision.claims, opening_)) return false;
    prepared.work.decode_context += Tokens{prepared.work.decodes};
    prepared.weights = {}; // nothing moves: no need to `prepare`
    prepared.urgent_out = prepared.background = 0;
    prepared.planning = Seconds{0};
    prepared.repeated = false;
    prepared.room = static_cast<double>(core.ledger.device().free().count());
    return true;
  }

  /// Notes whether the next step is this one once more. If every request of the batch decoded, all of it resident, and
  /// no request has ended, is preempted or was left out for want of tokens, then the admission would make the same
  /// claims, and the plan in force would accept the same ones: room only shrinks until something happens.
  void remember(Core& core, const Committer& committer, const Decision& decision, const Draft& draft,
                const Prepared& prepared, double background_blocks) {
    const auto& running = core.requests.running;
    const Moves& moves = committer.moves();
    // What other engines of a node need may change at any time, so weights that can give way are asked in every step.
    core.steady = !(Policies<C>::streams_weights && draft.offer.asks()) && prepared.chunks.empty() &&
                  moves.streams.empty() && moves.rebuilds.empty() && core.plan.weights.streamed.empty() &&
                  core.requests.preempted.empty() && background_blocks <= 0 && !decision.new_plan &&
                  decision.victims.empty() && decision.leaving.empty() && decision.claims.size() == running.size() &&
                  prepared.work.decodes == static_cast<std::int64_t>(running.size());
    opening_ = 0;
    for (std::size_t i = 0; core.steady && i < running.size(); ++i) {
      const RequestRow& request = core.row(running[i]);
      core.steady = request.holding.all_resident();
      opening_ += request.slack.count() == 0 ? 1 : 0;
    }
  }
  /// After a steady step: `requests` of the batch open a block with their next token.
  void count_opening(std::int64_t requests) { opening_ = requests; }

 private:
  std::int64_t opening_ = 0;
};

} // namespace sluice
