// SPDX-License-Identifier: Apache-2.0
// with_planner: from the names in a planning problem to the types that solve it.
#pragma once

#include "sluice/placement/solver/branch_and_bound.hpp"
#include "sluice/plan/problem.hpp"

#include <type_traits>
#include <utility>

namespace sluice {

/// A planner's parts, to be passed as a value.
template <class S, class R, class C>
struct PlannerTypes {
  using Space = S;
  using Rule = R;
  using Count = C;
};

namespace detail {
template <class S, class R, class Visit>
decltype(auto) with_buffer(const PlanningProblem& problem, Visit&& visit) {
  // The pool's own count is the paper's: its worst layer.
  if constexpr (!std::is_same_v<R, DeadlinePool>)
    if (problem.buffer == BufferKind::paper) return visit(PlannerTypes<S, R, PaperBuffer>{});
  return visit(PlannerTypes<S, R, HeldBuffer>{});
}
template <class R, class Visit>
decltype(auto) with_space(const PlanningProblem& problem, Visit&& visit) {
  switch (problem.space) {
  case SpaceKind::even:
    return with_buffer<EvenSpace, R>(problem, visit);
  case SpaceKind::free:
    return with_buffer<FreeSpace, R>(problem, visit);
  case SpaceKind::distance:
    break;
  }
  return with_buffer<DistanceSpace, R>(problem, visit);
}
} // namespace detail

/// Calls `visit(PlannerTypes<Space, Rule, Count>{})` with the types that the problem names.
template <class Visit>
decltype(auto) with_planner(const PlanningProblem& problem, Visit&& visit) {
  switch (problem.transfer) {
  case TransferKind::next_layer:
    return detail::with_space<NextLayer>(problem, visit);
  case TransferKind::fair_share:
    return detail::with_space<FairShare>(problem, visit);
  case TransferKind::earliest_deadline_first:
    return detail::with_space<EarliestDeadlineFirst>(problem, visit);
  case TransferKind::deadline_pool:
    break;
  }
  return detail::with_space<DeadlinePool>(problem, visit);
}

} // namespace sluice
