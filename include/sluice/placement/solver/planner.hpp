// SPDX-License-Identifier: Apache-2.0
// Planner: the placement of a space with the shortest iteration that memory and SLO allow.
#pragma once

#include "sluice/placement/solver/search_rule.hpp"
#include "sluice/plan/instance.hpp"
#include "sluice/plan/solution.hpp"
#include "sluice/plan/space.hpp"

#include <utility>

namespace sluice {

namespace detail {
template <class Rule>
class BranchAndBound;
} // namespace detail

/// Solves planning instances over a space, under a transfer rule, with the memory in flight that a buffer count says.
/// Space, rule and count come as tables, so that the search is compiled once. One object solves many instances: it
/// keeps its memory, so that a steady state allocates nothing.
///
/// `Planner planner{candidate_space_of<DistanceSpace>, search_rule_of<FairShare>};`
///
/// Exact, unless a deadline or node limit ends it first: then the best plan so far, a lower bound and
/// `proven_optimal = false`. Deterministic without a deadline. Among plans of equal cost the first found is returned;
/// where KV grows and the compute alone sets the time, one that holds for the whole window is preferred.
///
/// `Rule` is SearchRule: a template, so that a unit that includes this and does not plan compiles none of the search.
template <class Rule>
class BasicPlanner {
 public:
  /// The tables must outlive this, as `candidate_space_of` and `search_rule_of` do.
  BasicPlanner(const CandidateSpace& space, const Rule& rule);
  BasicPlanner(const BasicPlanner& other);
  BasicPlanner(BasicPlanner&& other) noexcept : search_(std::exchange(other.search_, nullptr)) {}
  BasicPlanner& operator=(const BasicPlanner& other);
  BasicPlanner& operator=(BasicPlanner&& other) noexcept {
    std::swap(search_, other.search_);
    return *this;
  }
  ~BasicPlanner();

  /// The instance must pass `check`. The result lives until the next call.
  const Solution& solve(const Instance& instance, const Hint& hint = {});

  /// What `solve` returned last.
  [[nodiscard]] const Solution& solution() const;

 private:
  detail::BranchAndBound<Rule>* search_; ///< owned; null in a planner that was moved from
};

using Planner = BasicPlanner<SearchRule>;

/// A Planner over held buffers that names its tables by types: what a placement policy keeps in its state.
template <class Space, class Transfer>
struct ExactSearch : Planner {
  ExactSearch() : Planner(candidate_space_of<Space>, search_rule_of<Transfer>) {}
};

} // namespace sluice

#ifdef SLUICE_COMPILED
extern template class sluice::BasicPlanner<sluice::SearchRule>;
#else
#include "sluice/placement/solver/planner.inl.hpp"
#endif
