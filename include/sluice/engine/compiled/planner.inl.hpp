// SPDX-License-Identifier: Apache-2.0
// The planner for a library: one source file that includes this with SLUICE_COMPILED defines all of it once. It needs
// the definitions of compiled/transfer.inl.hpp.
#pragma once

#include "sluice/policy/placement/solver/placement_evaluator.inl.hpp"
#include "sluice/policy/placement/solver/planner.inl.hpp"
#include "sluice/policy/placement/solver/solve_problem.inl.hpp"
#include "sluice/state/plan/instance.inl.hpp"
#include "sluice/state/plan/space.inl.hpp"

namespace sluice {

template class BasicPlacementEvaluator<TransferRule>;
template class BasicPlanner<SearchRule>;
template struct detail::PoolSearchEntry<SearchRule>;

} // namespace sluice
