// SPDX-License-Identifier: Apache-2.0
// Planner: finds the placement of a space with the shortest iteration within memory and SLO, by a rule's searches.
#pragma once

#include "sluice/core/layer_set.hpp"
#include "sluice/policy/transfer/deadline_pool.hpp"
#include "sluice/policy/transfer/earliest_deadline_first.hpp"
#include "sluice/policy/transfer/fair_share.hpp"
#include "sluice/policy/transfer/next_layer.hpp"
#include "sluice/policy/transfer/transfer_rule.hpp"
#include "sluice/state/plan/instance.hpp"
#include "sluice/state/plan/space.hpp"

#include <span>
#include <type_traits>
#include <utility>

namespace sluice {

// SearchRule: what the planner's searches know about a transfer rule, as a table.
struct SearchRule;

namespace detail {

template <class Rule>
class SearchProblem;

/// A rule that ends no later than `Rule` on any plan, and no earlier when a request offloads more: the cost of a
/// partial plan under it bounds every completion. `EarliestDeadlineFirst` and `NextLayer` bound themselves. Sharing the
/// link evenly is not monotone (a delayed flow leaves its share to another), but never ends before serving the nearest
/// layer first does. Under `DeadlinePool` a partial plan's own pipeline is no bound: other requests that offload free
/// room. A user's own rule is assumed to bound itself.
template <class Rule>
struct BoundingRule {
  using type = Rule;
};
template <>
struct BoundingRule<FairShare> {
  using type = EarliestDeadlineFirst;
};
template <>
struct BoundingRule<DeadlinePool> {
  using type = void;
};

template <class Rule, class Count>
constexpr const TransferRule* bounding_rule() {
  if constexpr (std::is_void_v<typename BoundingRule<Rule>::type>)
    return nullptr;
  else
    return &transfer_rule_of<typename BoundingRule<Rule>::type, Count>;
}

/// A rule's own search, as pointers: a unit that plans under another rule does not compile it.
struct OwnSearch {
  ScratchType scratch;
  /// Like `PoolSearch::run`.
  double (*run)(void* search, SearchProblem<SearchRule>& problem, std::span<const LayerSet> candidates,
                std::span<const LayerSet> hint, double growth_blocks);
};
/// PoolSearch, for `DeadlinePool`.
template <class Rule>
struct PoolSearchEntry {
  static void* make();
  static void end(void* search);
  static double run(void* search, SearchProblem<Rule>& problem, std::span<const LayerSet> candidates,
                    std::span<const LayerSet> hint, double growth_blocks);
};
template <class Rule>
inline constexpr OwnSearch pool_search{{&PoolSearchEntry<Rule>::make, &PoolSearchEntry<Rule>::end},
                                       &PoolSearchEntry<Rule>::run};

template <class Rule>
constexpr const OwnSearch* cold_search_of() {
  if constexpr (std::is_same_v<Rule, DeadlinePool>)
    return &pool_search<SearchRule>;
  else
    return nullptr;
}

} // namespace detail

/// A transfer rule with a buffer count, in a Planner's form.
struct SearchRule {
  const TransferRule* transfer;
  const TransferRule* bounding; ///< bounds the completions of partial plans; null: only the link does
  bool own_buffers;             ///< each request that offloads holds one layer of its own, independent of the others
  bool whole_layers;            ///< layers move as a whole, and two are held at once: `NextLayer`
  int held_layers;              ///< how many of its own layers a request that offloads holds at least
  const detail::OwnSearch* cold_search; ///< for one cold iteration without streamed weights; null: RuleSearch
};

/// The table of any transfer rule type, published or a user's own.
template <TransferScheduler Rule, BufferCount<Rule> Count = HeldBuffer>
inline constexpr SearchRule search_rule_of{
    &transfer_rule_of<Rule, Count>,
    detail::bounding_rule<Rule, Count>(),
    std::is_same_v<Count, HeldBuffer> &&
        (std::is_same_v<Rule, FairShare> || std::is_same_v<Rule, EarliestDeadlineFirst>),
    std::is_same_v<Rule, NextLayer>,
    std::is_same_v<Rule, NextLayer>&& std::is_same_v<Count, HeldBuffer> ? 2 : 1,
    detail::cold_search_of<Rule>(),
};

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
extern template struct sluice::detail::PoolSearchEntry<sluice::SearchRule>;
extern template class sluice::BasicPlanner<sluice::SearchRule>;
#else
#include "sluice/policy/placement/solver/planner.inl.hpp"
#endif
