// SPDX-License-Identifier: Apache-2.0
// The tables by their names.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/policy/placement/solver/solve_problem.hpp"

namespace sluice {

namespace detail {

SLUICE_INLINE const CandidateSpace& space_named(SpaceKind space) {
  switch (space) {
  case SpaceKind::even:
    return candidate_space_of<EvenSpace>;
  case SpaceKind::free:
    return candidate_space_of<FreeSpace>;
  case SpaceKind::distance:
    break;
  }
  return candidate_space_of<DistanceSpace>;
}

SLUICE_INLINE const SearchRule& rule_named(TransferKind transfer, BufferKind buffer) {
  const bool paper = buffer == BufferKind::paper;
  switch (transfer) {
  case TransferKind::next_layer:
    return paper ? search_rule_of<NextLayer, PaperBuffer> : search_rule_of<NextLayer>;
  case TransferKind::fair_share:
    return paper ? search_rule_of<FairShare, PaperBuffer> : search_rule_of<FairShare>;
  case TransferKind::earliest_deadline_first:
    return paper ? search_rule_of<EarliestDeadlineFirst, PaperBuffer> : search_rule_of<EarliestDeadlineFirst>;
  case TransferKind::deadline_pool:
    break;
  }
  return search_rule_of<DeadlinePool>; // its own count is the paper's: the worst layer
}

} // namespace detail

SLUICE_INLINE PlannerTables tables_of(const PlanningProblem& problem) {
  return {detail::space_named(problem.space), detail::rule_named(problem.transfer, problem.buffer)};
}

} // namespace sluice
