// SPDX-License-Identifier: Apache-2.0
// TransferRule: a transfer rule and a buffer count as a table, for code that is compiled once for all rules.
#pragma once

#include "sluice/policy/transfer/buffer_count.hpp"
#include "sluice/policy/transfer/pipeline.hpp"
#include "sluice/policy/transfer/scratch.hpp"
#include "sluice/policy/transfer/transfer_scheduler.hpp"

#include <span>
#include <string_view>

namespace sluice {

/// The functions of a rule that planners and evaluators call. Evaluating an iteration takes microseconds, a call
/// through a pointer nanoseconds; as templates, planners were compiled once per rule and count, and were no faster.
struct TransferRule {
  std::string_view name;
  bool needs_room; ///< as TransferScheduler says

  const detail::ScratchType* state; ///< the rule's `State`, which the functions below take
  void (*clear)(void* state);
  StepCost (*evaluate)(const Pipeline& pipeline, void* state);
  /// Blocks in flight on top of the resident ones, by the buffer count.
  double (*blocks)(std::span<const double> loads, std::span<const LayerStream> streams);
};

/// The table of any transfer rule type, published or a user's own.
template <TransferScheduler Rule, BufferCount<Rule> Count = HeldBuffer>
inline constexpr TransferRule transfer_rule_of{
    Rule::name,
    Rule::needs_room,
    &detail::scratch_of<typename Rule::State>,
    [](void* state) { static_cast<typename Rule::State*>(state)->clear(); },
    [](const Pipeline& pipeline, void* state) -> StepCost {
      return Rule::evaluate(pipeline, *static_cast<typename Rule::State*>(state));
    },
    [](std::span<const double> loads, std::span<const LayerStream> streams) -> double {
      return Count::template blocks<Rule>(loads, streams);
    },
};

} // namespace sluice
