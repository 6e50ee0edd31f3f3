// SPDX-License-Identifier: Apache-2.0
// A Planner's members, which need the definition of the search.
#pragma once

#include "sluice/policy/placement/solver/branch_and_bound.hpp"
#include "sluice/policy/placement/solver/planner.hpp"
#include "sluice/policy/placement/solver/pool_search.hpp"

#include <span>

namespace sluice::detail {

// The entry to PoolSearch.
template <class Rule>
void* PoolSearchEntry<Rule>::make() {
  return scratch_of<PoolSearch<Rule>>.make();
}
template <class Rule>
void PoolSearchEntry<Rule>::end(void* search) {
  scratch_of<PoolSearch<Rule>>.end(search);
}
template <class Rule>
double PoolSearchEntry<Rule>::run(void* search, SearchProblem<Rule>& problem, std::span<const LayerSet> candidates,
                                  std::span<const LayerSet> hint, double growth_blocks) {
  return static_cast<PoolSearch<Rule>*>(search)->run(problem, candidates, hint, growth_blocks);
}

} // namespace sluice::detail

namespace sluice {

template <class Rule>
BasicPlanner<Rule>::BasicPlanner(const CandidateSpace& space, const Rule& rule)
    : search_(new detail::BranchAndBound<Rule>(space, rule)) {}
template <class Rule>
BasicPlanner<Rule>::BasicPlanner(const BasicPlanner& other)
    : search_(other.search_ == nullptr ? nullptr : new detail::BranchAndBound<Rule>(*other.search_)) {}
template <class Rule>
BasicPlanner<Rule>& BasicPlanner<Rule>::operator=(const BasicPlanner& other) {
  if (this == &other) return *this;
  if (search_ != nullptr && other.search_ != nullptr) {
    *search_ = *other.search_; // keeps its memory
  } else {
    delete search_;
    search_ = other.search_ == nullptr ? nullptr : new detail::BranchAndBound<Rule>(*other.search_);
  }
  return *this;
}
template <class Rule>
BasicPlanner<Rule>::~BasicPlanner() {
  delete search_;
}

template <class Rule>
const Solution& BasicPlanner<Rule>::solve(const Instance& instance, const Hint& hint) {
  return search_->solve(instance, hint);
}
template <class Rule>
const Solution& BasicPlanner<Rule>::solution() const {
  return search_->solution();
}

} // namespace sluice
