// SPDX-License-Identifier: Apache-2.0
// Decider: makes a decision from a view. The only place where deciding policies run.
#pragma once

#include "sluice/core/stopwatch.hpp"
#include "sluice/engine/core/checks.hpp"
#include "sluice/engine/core/decision.hpp"
#include "sluice/engine/core/plan_fit.hpp"
#include "sluice/engine/core/writers.hpp"
#include "sluice/engine/policies.hpp"
#include "sluice/engine/token_accounts.hpp"
#include "sluice/policy/placement/placement.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace sluice {

/// The only writes to a core while policies decide: facts that they must see before they answer. These are which
/// preempted requests may return, which released blocks can be found and loaded, and which deposited tokens are
/// delivered.
template <class C>
class FactsWriter {
 public:
  explicit FactsWriter(Core& core) : core_(core) {}
  void gate(Slot slot, bool may_return) const { let_return(core_, slot, may_return); }
  [[nodiscard]] bool look_up(std::span<const Slot> asked, const View& view, const PolicyCalls& policies) const {
    return find_prefixes(core_, asked, view, policies);
  }
  void take_load(Slot slot, const RequestRow& decided) const { sluice::take_load(core_, slot, decided); }
  void give_up_pin() const { sluice::give_up_pin(core_); }
  void advance(Policies<C>& policies, Seconds now) const { TokenAccounts<C>::advance(core_, policies, now); }

 private:
  Core& core_;
};

/// Decides which requests run in the next iteration, and under which plan. It writes only the draft, the decision and
/// the policies' states.
template <class C>
class Decider {
 public:
  /// `facts`: of `core`.
  Decider(const Core& core, FactsWriter<C> facts, Draft& draft, Policies<C>& policies)
      : core_(core), facts_(facts), draft_(draft), policies_(policies) {}

  /// Makes the decision for a snapshot at `now`; it has no claims and is not valid if no request can run. `ahead`: it
  /// will be committed after an iteration that has not ended yet.
  void decide(Seconds now, bool ahead, Decision& decision) {
    if constexpr (pins_on_device<C>)
      while (!decide_beside_pins(now, ahead, decision)) facts_.give_up_pin();
    else
      decide_beside_pins(now, ahead, decision);
  }

 private:
  /// False if a pin must be given up before there can be a decision.
  bool decide_beside_pins(Seconds now, bool ahead, Decision& decision) {
    decision.clear();
    draft_.made_ahead = ahead;
    const View view = core_.view(now);
    propose(view);
    decision.proposal = proposal_mistake(core_, draft_);
    if (decision.proposal.kind != ProposalMistake::Kind::none) {
      decision.mistake = Decision::Mistake::proposal;
      decision.valid = true; // the commit says what is wrong
      return true;
    }
    decision.claims.swap(draft_.proposal.claims);
    decision.refused.swap(draft_.proposal.refused);
    decision.next.swap(draft_.proposal.next);
    if (!draft_.proposal.leaving.empty()) let_leave(core_, draft_, decision, view, calls());
    decision.valid = !decision.claims.empty() || !decision.refused.empty();
    if (decision.claims.empty()) return true;
    for (const Claim& claim : decision.claims) decision.candidates += candidate_key(core_.row(claim.slot).id);
    take_place(decision); // the limits allow no plan, and no weights' offer, with both requests
    offer_weights(view, decision);
    [[maybe_unused]] const LayerBlocks wanted = draft_.offer.needs.demand;
    if (!place(view, decision)) return false;
    if constexpr (streams_weights)
      if (draft_.offer.coordination.node != nullptr) { // other engines must know what runs and what was wanted
        BatchNeeds& needs = draft_.offer.needs;
        needs = needs_of(core_, decision.claims);
        needs.running = std::max(needs.running, needs.demand);
        needs.demand = wanted;
      }
    return true;
  }

  using All = Policies<C>;
  using functions = detail::PolicyFunctions<C>;
  using Predictor = typename All::predictor_type;
  using Task = PlacementTask<Predictor, typename C::transfer_type, typename C::layout_type>;
  static constexpr bool streams_weights = All::streams_weights;
  static constexpr bool real_time = is_real_time<typename C::backend_type>;

  [[nodiscard]] PolicyCalls calls() { return {policy_table<C>, &policies_}; }

  void propose(const View& view) {
    for (const Slot slot : core_.requests.preempted)
      facts_.gate(slot,
                  asked(functions::relief_name, [&] { return policies_.relief.may_return(view, core_.row(slot)); }));
    Proposal& proposal = draft_.proposal;
    const auto ask = [&] {
      proposal.clear();
      asked(functions::admission_name, [&] { policies_.propose(view, proposal); });
    };
    ask();
    if (proposal.claims.empty() && core_.requests.running.empty() && !core_.requests.preempted.empty()) {
      // No request runs, and none would: only preempted requests exist. They return even if Relief says no, because
      // they would wait forever for another request to end.
      for (const Slot slot : core_.requests.preempted) facts_.gate(slot, true);
      ask();
    }
    if constexpr (C::retention_type::finds_released || Caches<typename C::caching_type>)
      // Found blocks shorten what is pending, which may leave budget for a request further back in the queue, or let a
      // request keep the SLO for which it would be refused.
      for (list_asked(); facts_.look_up(draft_.asked, view, calls()); list_asked()) ask();
    if constexpr (has_tiers<C> || keeps_on_host<C>) let_wait_for_loads();
  }

  /// Only these are looked up, so that many waiting requests cost a step no more. With the blocks that they find, those
  /// that Admission would refuse may keep their SLO.
  void list_asked() {
    draft_.asked.clear();
    const auto add = [this](Slot slot) {
      if (core_.row(slot).phase != Phase::running) draft_.asked.push_back(slot);
    };
    for (const Claim& claim : draft_.proposal.claims) add(claim.slot);
    for (const Refusal& refused : draft_.proposal.refused) add(refused.slot);
  }

  /// Requests in the batch claim only tokens that need no KV that is still to arrive, and others that wait make no
  /// claim. Of the requests that would load the same blocks only the first joins. The others wait, and find the blocks
  /// on the device: one load serves all. Where a Retention lets no request find another's blocks, each loads its own.
  void let_wait_for_loads() {
    auto& claims = draft_.proposal.claims;
    std::erase_if(claims, [this](const Claim& claim) {
      const RequestRow& request = core_.row(claim.slot);
      return request.waits && request.phase != Phase::running;
    });
    for (Claim& claim : claims) {
      const RequestRow& request = core_.row(claim.slot);
      const bool will_wait =
          request.phase != Phase::running && request.loading.count() > 0 && request.load_mode == LoadMode::ahead;
      claim.tokens = will_wait ? Tokens{0} : std::min(claim.tokens, request.ready());
      claim.reserve = std::min(claim.reserve, request.pending() - request.awaited());
    }
    if constexpr (C::retention_type::finds_released) let_one_load_serve(claims);
  }
  void let_one_load_serve(std::vector<Claim>& claims) const {
    const auto first_of = [this](const Claim& claim) {
      const RequestRow& request = core_.row(claim.slot);
      const bool loads = request.phase != Phase::running && request.loading.count() > 0;
      return loads ? core_.prefix.loaded_keys(claim.slot, request, core_.limits.block_tokens).first(1)
                   : std::span<const BlockKey>{};
    };
    for (std::size_t i = 1; i < claims.size();) {
      const std::span<const BlockKey> own = first_of(claims[i]);
      const auto loads_it = [&](const Claim& other) {
        const std::span<const BlockKey> its = first_of(other);
        return !its.empty() && its.front() == own.front();
      };
      const auto at = claims.begin() + static_cast<std::ptrdiff_t>(i);
      if (!own.empty() && std::any_of(claims.begin(), at, loads_it))
        claims.erase(at);
      else
        ++i;
    }
  }

  /// Asks the weights what they would give up for these claims; in a node the coordinator lends and grants.
  void offer_weights(const View& view, const Decision& decision) {
    if constexpr (streams_weights) {
      WeightsOffer& offer = draft_.offer;
      const Coordination& node = offer.coordination;
      const Predictor& predictor = policies_.predictor();
      WeightsTask<Predictor> task{view, predictor, decision.claims, LayerBlocks{0}, core_.device_blocks, {}};
      offer.needs = needs_of(core_, decision.claims);
      task.demand = offer.needs.demand;
      task.steady = steady_within(core_, decision.claims, task.demand);
      if (node.lend != nullptr) {
        offer.borrowed = node.lend(node.node, node.engine, task.demand, task.own);
        task.own += offer.borrowed;
      }
      task.lent = core_.lending.lent_layers;
      task.taken = core_.lending.own_level;
      offer.levels.clear();
      asked(functions::weights_name, [&] { policies_.weights.offer(task, policies_.weights_state, offer.levels); });
      for (WeightsLevel& level : offer.levels) level.plan.freed -= core_.geometry.blocks_in(core_.lending.lent_layers);
      if (node.grant != nullptr) {
        for (WeightsLevel& level : offer.levels)
          level.step =
              policies_.level_times.of(predictor, core_.geometry,
                                       steady_within(core_, decision.claims, task.own + level.plan.freed), level.plan);
        offer.granted_level = node.grant(node.node, node.engine);
      }
    }
  }
  [[nodiscard]] WeightsPlan granted() const {
    if constexpr (streams_weights)
      return draft_.offer.granted(core_.lending);
    else
      return {};
  }
  /// Whether the weights choose another level for the remaining claims: no running request is preempted for one that
  /// would only join.
  [[nodiscard]] bool offers_otherwise(const View& view, const Decision& decision) {
    if constexpr (streams_weights) {
      const WeightsPlan before = granted();
      offer_weights(view, decision);
      return !(granted() == before);
    } else {
      return false;
    }
  }

  /// Applies the plan in force if it still fits and no new one is due, otherwise asks for the next one. Preempts
  /// requests until there is a plan. False if a pin is in the way.
  bool place(const View& view, Decision& decision) {
    auto& claims = decision.claims;
    std::size_t required = required_of(claims);
    bool stale = asked(functions::replan_name,
                       [&] { return policies_.replan.due(view, policies_.replan_state, decision.candidates); });
    stale = stale || !decision.victims.empty(); // one has lost its place
    if constexpr (streams_weights) stale = stale || !(granted() == core_.plan.weights);
    bool enforce_slo = true;
    for (;;) {
      const Budget budget = budget_of(core_, calls(), decision, required, granted(), view.now);
      Verdict verdict = stale ? Verdict{} : apply_plan(core_, draft_, decision, required, budget);
      if (!verdict.feasible) {
        verdict = solve(view, decision, required, enforce_slo, budget);
        decision.new_plan = verdict.feasible;
        decision.in_flight = draft_.plan.in_flight;
      }
      if (!keep_joined(claims, required, verdict)) {
        decision.mistake = Decision::Mistake::joined;
        return true;
      }
      if (verdict.feasible && required + verdict.joined > 0) break;
      if (core_.prefix.pinned().count() > 0) return false;
      stale = true;
      if (!verdict.feasible && required > 0 && claims[required - 1].presses()) {
        settle_pressing(draft_, decision, required);
        offer_weights(view, decision); // for the claims that are left
      } else if (verdict.feasible || required == 0) {
        // Only optional claims were proposed and none found a place: the first one runs alone, without regard to its
        // SLO.
        claims.resize(1);
        claims.front().required = true;
        required = 1;
        enforce_slo = false;
        offer_weights(view, decision);
      } else if (required == 1 && enforce_slo) {
        // One request is left. Its SLO cannot be met by preempting another.
        claims.resize(1);
        enforce_slo = false;
        offer_weights(view, decision); // the weights' last offer was for claims that are gone
      } else if (required == 1 && others_keep_memory(core_, decision) && !decision.empties_preempted) {
        decision.empties_preempted =
            true; // the request runs, and KV that others keep on the host is recomputed: no request is lost
      } else if (required == 1) {
        decision.refused.push_back({claims.front().slot, "it cannot be placed even alone", true});
        claims.clear();
        decision.leaving.clear(); // no request is preempted for it: the next decision is made without it
        decision.victims.clear();
        decision.empties_preempted = false;
        decision.in_flight = LayerBlocks{0};
        break;
      } else {
        const bool with_optional = claims.size() > required;
        claims.resize(required); // otherwise a request would join in a step in which another one is preempted
        if (with_optional && offers_otherwise(view, decision)) continue;
        drop_victim(view, decision, required);
        if (decision.mistake != Decision::Mistake::none) return true;
      }
    }
    asked(functions::admission_name, [&] { policies_.admission.settle(view, claims); });
    return true;
  }

  [[nodiscard]] static std::size_t required_of(std::span<const Claim> claims) {
    return static_cast<std::size_t>(
        std::find_if(claims.begin(), claims.end(), [](const Claim& claim) { return !claim.required; }) -
        claims.begin());
  }

  /// Preempts the request whose place a pressing claim takes in a full batch.
  void take_place(Decision& decision) {
    std::size_t required = required_of(decision.claims);
    if (required > 0 && decision.claims[required - 1].instead) settle_pressing(draft_, decision, required);
  }

  void drop_victim(const View& view, Decision& decision, std::size_t& required) {
    auto& claims = decision.claims;
    const std::size_t chosen =
        asked(functions::relief_name, [&] { return policies_.relief.choose(view, policies_.relief_state, claims); });
    if (chosen >= claims.size()) {
      decision.mistake = Decision::Mistake::victim;
      return;
    }
    decision.victims.push_back(claims[chosen].slot);
    claims.erase(claims.begin() + static_cast<std::ptrdiff_t>(chosen));
    --required;
  }

  /// Asks the placement for a plan.
  Verdict solve(const View& view, Decision& decision, std::size_t required, bool enforce_slo, const Budget& budget) {
    if constexpr (C::delivery_type::deposits) facts_.advance(policies_, view.now);
    Plan& plan = draft_.plan;
    [[maybe_unused]] const Stopwatch stopwatch;
    plan.expires_at_step = std::numeric_limits<std::int64_t>::max();
    plan.effort = {};
    [[maybe_unused]] const std::int64_t judged_before = judged_ns();
    const Predictor& predictor = policies_.predictor();
    const Window window = asked(functions::replan_name, [&] { return policies_.replan.window(); });
    check_window(functions::replan_name, window);
    const Task task{view,      decision.claims, required,    budget.device,   budget.host,
                    predictor, window,          enforce_slo, budget.depleted, core_.geometry.stream_of(granted())};
    const Verdict verdict = asked(functions::placement_name,
                                  [&] { return policies_.placement.solve(task, policies_.placement_state, plan); });
    plan.candidates = decision.candidates;
    plan.made_at_step = core_.step;
    plan.weights = granted();
    Seconds virtual_time{0}; // in real time, planning has already taken its time
    if constexpr (!real_time) virtual_time = planning_time(plan.effort, judged_ns() - judged_before);
    decision.planning += virtual_time;
    if constexpr (All::template hears<events::Planned>) {
      const Seconds wall = stopwatch.elapsed();
      if (policies_.silent) {
        draft_.unseen_plans.push_back({plan, wall});
      } else {
        policies_.tell(events::Planned{view, plan, real_time ? wall : virtual_time, wall});
      }
    }
    return verdict;
  }

  /// What a plan takes on the simulated clock: the search nodes that its policy says, or else the time of the
  /// judgements that it asked for, `judged` nanoseconds on the reference core.
  Seconds planning_time(Effort& effort, std::int64_t judged) const {
    const bool said = effort.said();
    if (effort < 0) reject_answer(functions::placement_name, "Plan::effort is " + std::to_string(effort), "at least 0");
    if (!said) effort = Effort::counted((judged + ns_per_node - 1) / ns_per_node);
    const Seconds time = said ? policies_.lookahead.planning_time(effort)
                              : policies_.lookahead.planning_time(judged) / static_cast<double>(ns_per_node);
    check_planning_time(functions::lookahead_name, time);
    return time;
  }

  const Core& core_;
  FactsWriter<C> facts_;
  Draft& draft_;
  Policies<C>& policies_;
};

} // namespace sluice
