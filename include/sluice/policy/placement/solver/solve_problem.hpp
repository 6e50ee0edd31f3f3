// SPDX-License-Identifier: Apache-2.0
// tables_of: maps the names in a planning problem to the tables that solve it.
#pragma once

#include "sluice/policy/placement/solver/planner.hpp"
#include "sluice/state/plan/instance.hpp"

namespace sluice {

/// What a Planner is made of: `Planner planner{tables.space, tables.rule};`
struct PlannerTables {
  const CandidateSpace& space;
  const SearchRule& rule;
};

/// The tables for the space, rule and buffer count that the problem names.
[[nodiscard]] PlannerTables tables_of(const PlanningProblem& problem);

/// Calls `visit.template operator()<Rule>()` with the type of the rule: for `PlacementEvaluator::explain`.
template <class Visit>
decltype(auto) with_rule(TransferKind transfer, Visit&& visit) {
  switch (transfer) {
  case TransferKind::next_layer:
    return visit.template operator()<NextLayer>();
  case TransferKind::fair_share:
    return visit.template operator()<FairShare>();
  case TransferKind::earliest_deadline_first:
    return visit.template operator()<EarliestDeadlineFirst>();
  case TransferKind::deadline_pool:
    break;
  }
  return visit.template operator()<DeadlinePool>();
}

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/policy/placement/solver/solve_problem.inl.hpp"
#endif
