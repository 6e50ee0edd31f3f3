// SPDX-License-Identifier: Apache-2.0
// The planner, for a library: one source file that includes this with SLUICE_COMPILED defines all of it, once. It needs
// what compiled/transfer.inl.hpp defines.
#pragma once

#include "sluice/placement/solver/placement_evaluator.inl.hpp"
#include "sluice/placement/solver/planner.inl.hpp"
#include "sluice/placement/solver/search_rule.inl.hpp"
#include "sluice/placement/solver/solve_problem.inl.hpp"
#include "sluice/plan/instance.inl.hpp"
#include "sluice/plan/space.inl.hpp"

namespace sluice {

template class BasicPlacementEvaluator<TransferRule>;
template class BasicPlanner<SearchRule>;
template struct detail::PoolSearchEntry<SearchRule>;

} // namespace sluice
