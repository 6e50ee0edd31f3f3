// SPDX-License-Identifier: Apache-2.0
// A Planner's members, which need the definition of the search.
#pragma once

#include "sluice/policy/placement/solver/branch_and_bound.hpp"
#include "sluice/policy/placement/solver/planner.hpp"

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
