// SPDX-License-Identifier: Apache-2.0
// The evaluator for a library: one source file that includes this with SLUICE_COMPILED defines all of it once.
#pragma once

#include "sluice/policy/transfer/deadline_pool.inl.hpp"
#include "sluice/policy/transfer/earliest_deadline_first.inl.hpp"
#include "sluice/policy/transfer/evaluate_link.hpp"
#include "sluice/policy/transfer/fair_share.inl.hpp"
#include "sluice/policy/transfer/next_layer.inl.hpp"

#include <span>

namespace sluice {

template StepCost DeadlinePool::walk(const Pipeline&, std::span<const double>, DeadlinePool::State&, NoTimeline&);
template StepCost DeadlinePool::walk(const Pipeline&, std::span<const double>, DeadlinePool::State&, AnyTimeline&);
template StepCost EarliestDeadlineFirst::walk(const Pipeline&, EarliestDeadlineFirst::State&, NoTimeline&);
template StepCost EarliestDeadlineFirst::walk(const Pipeline&, EarliestDeadlineFirst::State&, AnyTimeline&);
template StepCost FairShare::walk(const Pipeline&, FairShare::State&, NoTimeline&);
template StepCost FairShare::walk(const Pipeline&, FairShare::State&, AnyTimeline&);
template StepCost NextLayer::walk(const Pipeline&, std::span<const double>, NextLayer::State&, NoTimeline&);
template StepCost NextLayer::walk(const Pipeline&, std::span<const double>, NextLayer::State&, AnyTimeline&);

template StepCost evaluate_link<DeadlinePool>(const Pipeline&, DeadlinePool::State&);
template StepCost evaluate_link<EarliestDeadlineFirst>(const Pipeline&, EarliestDeadlineFirst::State&);
template StepCost evaluate_link<FairShare>(const Pipeline&, FairShare::State&);
template StepCost evaluate_link<NextLayer>(const Pipeline&, NextLayer::State&);

namespace detail {
template StepCost evaluate_told<DeadlinePool>(const Pipeline&, DeadlinePool::State&, AnyTimeline&);
template StepCost evaluate_told<EarliestDeadlineFirst>(const Pipeline&, EarliestDeadlineFirst::State&, AnyTimeline&);
template StepCost evaluate_told<FairShare>(const Pipeline&, FairShare::State&, AnyTimeline&);
template StepCost evaluate_told<NextLayer>(const Pipeline&, NextLayer::State&, AnyTimeline&);
} // namespace detail

} // namespace sluice
