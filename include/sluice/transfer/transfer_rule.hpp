// SPDX-License-Identifier: Apache-2.0
// TransferRule: a transfer rule and a buffer count as a table, for code that is compiled once for all of them.
#pragma once

#include "sluice/transfer/buffer_count.hpp"
#include "sluice/transfer/pipeline.hpp"
#include "sluice/transfer/scratch.hpp"
#include "sluice/transfer/transfer_scheduler.hpp"

#include <span>
#include <string_view>

namespace sluice {

/// What planners and evaluators ask of a rule. An iteration takes microseconds to evaluate, a call through a pointer
/// nanoseconds; as templates, planners were compiled once more for each rule and count, and were no faster.
struct TransferRule {
  std::string_view name;
  bool needs_room; ///< as TransferScheduler says

  const detail::ScratchType* state; ///< the rule's `State`, which the functions below take
  void (*clear)(void* state);
  StepCost (*evaluate)(const Pipeline& pipeline, void* state);
  /// Blocks in flight on top of the resident ones, by the buffer count.
  double (*blocks)(std::span<const double> loads, std::span<const LayerStream> streams);
};

/// The table of any type that is a transfer rule, a user's own or a published one.
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
