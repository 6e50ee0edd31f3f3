// SPDX-License-Identifier: Apache-2.0
// Estimate: what an iteration would take, for policies that do not place KV: Admission asks before it proposes.
#pragma once

#include "sluice/policy/cost/cost_model.hpp"
#include "sluice/policy/transfer/block_link.hpp"
#include "sluice/policy/transfer/steady_step.hpp"
#include "sluice/state/view/view.hpp"

namespace sluice {

/// The functions behind an Estimate; their first argument is the engine's policies.
struct EstimateTable {
  StepTime (*step)(const void* policies, const Work& work);
  LinkCost (*link)(const void* policies);
  StepCost (*steady)(const SteadyLoad& load);
};

/// A read-only estimate by the planner's cost model, corrected by what it has learned, and by the evaluator that judges
/// plans and runs simulations. Valid for one call of `Admission::propose`. Rejected: the cost model and the transfer
/// rule themselves, since every admission would become a template of both.
class Estimate {
 public:
  Estimate(const EstimateTable& table, const void* policies, const Geometry& geometry)
      : table_(&table), policies_(policies), geometry_(&geometry) {}

  /// How long an iteration computes, with nothing away.
  [[nodiscard]] Seconds step(const Work& work) const { return table_->step(policies_, work).total(geometry_->layers); }
  /// How long a repeated iteration takes if the KV of `away`, `blocks` token blocks of all requests together, crosses
  /// the link in each, with `room` layer blocks for prefetches. Infinite if the rule cannot run in that room.
  [[nodiscard]] StepCost step(const Work& work, LayerSet away, double blocks, LayerBlocks room) const {
    return table_->steady({table_->step(policies_, work),
                           geometry_->layers,
                           link(),
                           {away, blocks},
                           {},
                           static_cast<double>(room.count())});
  }
  /// The link in the evaluator's unit.
  [[nodiscard]] BlockLink link() const { return block_link(table_->link(policies_), *geometry_); }

 private:
  const EstimateTable* table_;
  const void* policies_;
  const Geometry* geometry_;
};

} // namespace sluice
