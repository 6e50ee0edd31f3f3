// SPDX-License-Identifier: Apache-2.0
// JointPlanner: the plan with the shortest iteration of all that keep, fetch or rebuild KV and stream weights.
#pragma once

#include "sluice/core/layer_set.hpp"
#include "sluice/policy/placement/solver/joint_instance.hpp"
#include "sluice/policy/placement/solver/joint_search.hpp"
#include "sluice/policy/placement/solver/planner.hpp"
#include "sluice/state/plan/space.hpp"

namespace sluice {

/// Solves joint instances over `JointSpace` under a transfer rule: KV in three ways, and the level of streamed weights,
/// in one search. An instance without the new ways goes to a Planner over `DistanceSpace` as it is. The search is slow:
/// tens of milliseconds for four requests and 32 layers, so set a deadline (docs/planner.md has figures).
///
/// `JointPlanner planner{search_rule_of<DeadlinePool>};`
///
/// Exact over that space, unless a deadline or node limit ends it first; Solution then has the bound. A user's own rule
/// is assumed to bound itself, with longer layers too. It keeps its memory, like a Planner.
///
/// `Rule` is SearchRule: a template parameter, so that a unit that includes this but does not plan compiles no search.
template <class Rule>
class BasicJointPlanner {
 public:
  /// The table must outlive this object, as those of `search_rule_of` do.
  explicit BasicJointPlanner(const Rule& rule) : search_(rule), today_(candidate_space_of<DistanceSpace>, rule) {}

  /// The instance must pass `check`. The result is valid until the next call. Only the Planner uses `hint`.
  const JointSolution& solve(const JointInstance& joint, const Hint& hint = {}) {
    if (joint.has_new_ways()) return search_.solve(joint);
    own_.solution = today_.solve(joint.base, hint);
    own_.level = 0;
    own_.ways.clear();
    for (const LayerSet fetched : own_.solution.offloaded) own_.ways.push_back({fetched, {}});
    return own_;
  }

 private:
  detail::JointSearch<Rule> search_;
  BasicPlanner<Rule> today_;
  JointSolution own_;
};

using JointPlanner = BasicJointPlanner<SearchRule>;

} // namespace sluice
