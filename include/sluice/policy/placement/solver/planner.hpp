// SPDX-License-Identifier: Apache-2.0
// Planner: finds the placement of a space with the shortest iteration within memory and SLO.
#pragma once

#include "sluice/policy/placement/solver/search_rule.hpp"
#include "sluice/state/plan/instance.hpp"
#include "sluice/state/plan/solution.hpp"
#include "sluice/state/plan/space.hpp"

#include <utility>

namespace sluice {

namespace detail {
template <class Rule>
class BranchAndBound;
} // namespace detail

/// Solves planning instances over a space under a transfer rule, with the memory in flight given by a buffer count.
/// Space, rule and count are tables, so that the search is compiled once. One object solves many instances: it keeps
/// its memory, so a steady state allocates nothing.
///
/// `Planner planner{candidate_space_of<DistanceSpace>, search_rule_of<FairShare>};`
///
/// Exact, unless a deadline or node limit ends it first: then the answer is the best plan so far, a lower bound, and
/// `proven_optimal = false`. Deterministic without a deadline. Among plans of equal cost the first one found is
/// returned; if KV grows and the compute alone determines the time, a plan that holds for the whole window is
/// preferred.
///
/// `Rule` is SearchRule: a template parameter, so that a unit that includes this but does not plan compiles no search.
template <class Rule>
class BasicPlanner {
 public:
  /// The tables must outlive this object, as those of `candidate_space_of` and `search_rule_of` do.
  BasicPlanner(const CandidateSpace& space, const Rule& rule);
  BasicPlanner(const BasicPlanner& other);
  BasicPlanner(BasicPlanner&& other) noexcept : search_(std::exchange(other.search_, nullptr)) {}
  BasicPlanner& operator=(const BasicPlanner& other);
  BasicPlanner& operator=(BasicPlanner&& other) noexcept {
    std::swap(search_, other.search_);
    return *this;
  }
  ~BasicPlanner();

  /// The instance must pass `check`. The result is valid until the next call.
  const Solution& solve(const Instance& instance, const Hint& hint = {});

  /// The last answer of `solve`.
  [[nodiscard]] const Solution& solution() const;

 private:
  detail::BranchAndBound<Rule>* search_; ///< owned; null in a moved-from planner
};

using Planner = BasicPlanner<SearchRule>;

/// A Planner with held buffers that takes its tables by type: a placement policy's state.
template <class Space, class Transfer>
struct ExactSearch : Planner {
  ExactSearch() : Planner(candidate_space_of<Space>, search_rule_of<Transfer>) {}
};

} // namespace sluice

#ifdef SLUICE_COMPILED
extern template class sluice::BasicPlanner<sluice::SearchRule>;
#else
#include "sluice/policy/placement/solver/planner.inl.hpp"
#endif
