// SPDX-License-Identifier: Apache-2.0
// The entry to PoolSearch.
#pragma once

#include "sluice/policy/placement/solver/pool_search.hpp"
#include "sluice/policy/placement/solver/search_rule.hpp"

#include <span>

namespace sluice::detail {

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
