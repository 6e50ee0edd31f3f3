// SPDX-License-Identifier: Apache-2.0
// BranchAndBound: a Planner's search for the shortest iteration: its order, and what the answer proves.
#pragma once

#include "sluice/policy/placement/solver/rule_search.hpp"
#include "sluice/policy/placement/solver/search_problem.hpp"
#include "sluice/state/plan/instance.hpp"
#include "sluice/state/plan/space.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace sluice::detail {

/// A Planner's search, and the memory that it works in.
template <class Rule>
class BranchAndBound {
 public:
  /// noexcept: without a throwing path, g++ 12 does not warn that a program's own operator delete, inlined here, is
  /// mismatched. It allocates a few bytes of scratch; a planner that cannot get them ends the program.
  BranchAndBound(const CandidateSpace& space, const Rule& rule) noexcept
      : space_(&space), rule_(&rule), problem_(rule), rule_search_(rule) {
    if (rule.cold_search != nullptr) cold_search_.emplace(rule.cold_search->scratch);
  }

  const Solution& solve(const Instance& instance, const Hint& hint) {
    SLUICE_ASSERT(check(instance).ok(), "a checked instance");
    if (instance.movable() != listed_for_ || candidates_.empty()) {
      listed_for_ = instance.movable();
      list_candidates(listed_for_);
    }
    double growth = 0;
    for (std::size_t r = 0; r < instance.requests.size(); ++r)
      growth += instance.blocks_at(r, instance.window_max - 1) - instance.blocks_at(r, 0);
    if (growth > 0 && instance.window_min < instance.window_max && may_hide(instance)) {
      // First a plan that holds for the whole window: if it takes no longer than the compute, no plan is better.
      longest_ = instance;
      longest_.window_min = instance.window_max;
      longest_.node_limit = instance.node_limit / 2; // the other half is for the requested plan
      longest_.deadline_s = instance.deadline_s / 2;
      problem_.begin(longest_);
      const double open = search(hint);
      if (problem_.found() && problem_.best_cost() <= compute_s(instance) * (1 + same_cost))
        return finish(instance, open);
      warm_.assign(problem_.best().begin(), problem_.best().end());
      const bool warm = problem_.found();
      problem_.begin_again(instance);
      return finish(instance, search(warm ? Hint{warm_} : hint));
    }
    problem_.begin(instance);
    return finish(instance, search(hint));
  }

  /// The last answer of `solve`.
  [[nodiscard]] const Solution& solution() const { return solution_; }

 private:
  static constexpr double infinity = std::numeric_limits<double>::infinity();

  void list_candidates(LayerSet among) {
    space_->candidates(among, candidates_);
    if (!candidates_.empty()) return;
    // Too many members to list: start from the listed spaces' members, then change single layers.
    std::vector<LayerSet> more;
    EvenSpace::candidates(among, candidates_);
    DistanceSpace::candidates(among, more);
    for (const LayerSet& set : more)
      if (std::find(candidates_.begin(), candidates_.end(), set) == candidates_.end()) candidates_.push_back(set);
    std::sort(candidates_.begin(), candidates_.end(), [](const LayerSet& a, const LayerSet& b) {
      return a.count() != b.count() ? a.count() < b.count() : a < b;
    });
  }

  static double compute_s(const Instance& instance) {
    double sum = instance.before_s + instance.after_s;
    for (const double seconds : instance.layer_compute_s) sum += seconds;
    return sum;
  }

  /// Whether the link could move at least the blocks that must leave the device while the compute runs.
  static bool may_hide(const Instance& instance) {
    const double need = instance.total_blocks() - instance.movable_budget();
    return need / instance.link_blocks_per_s <= compute_s(instance) * instance.iterations;
  }

  /// Returns a lower bound on all plans that were not examined; infinite if all were.
  double search(const Hint& hint) {
    const Instance& instance = problem_.instance();
    if (all_resident()) return infinity;
    if (problem_.slo_limit_s() <= 0) return infinity; // the compute alone misses the SLO
    double open = infinity;
    double growth = 0;
    for (std::size_t r = 0; r < instance.requests.size(); ++r)
      growth += instance.blocks_at(r, instance.window_min - 1) - instance.blocks_at(r, 0);
    const int movable = instance.movable().count();
    const bool listed = space_->listed || movable <= FreeSpace::most_listed_layers;
    if (cold_search_ && instance.iterations == 1 && instance.weights.empty())
      open = rule_->cold_search->run(cold_search_->get(), problem_, candidates_, hint.offloaded,
                                     growth * movable + instance.staying_at(instance.window_min - 1) -
                                         instance.staying_at(0));
    else
      open = rule_search_.run(problem_, candidates_, hint.offloaded);
    return listed ? open : beyond_the_list();
  }

  /// Tries to offload nothing: if that fits and holds, no plan is better.
  bool all_resident() {
    const Instance& instance = problem_.instance();
    sets_.assign(instance.requests.size(), {});
    const PlacementCost cost = problem_.evaluator.cost(instance, sets_);
    if (!cost.fits) return false;
    problem_.offer(std::span<const LayerSet>{sets_}, cost.step.step_s);
    return problem_.found() && cost.step.stall_s <= same_cost * cost.step.step_s;
  }

  /// Moves single layers into and out of the best plan as long as that helps. Returns a bound for all subsets: the link
  /// moves the blocks that must leave, and the worst layer, which is at least the mean.
  double beyond_the_list() {
    const Instance& instance = problem_.instance();
    const LayerSet among = instance.movable();
    const auto layers = static_cast<double>(among.count());
    const double compute = compute_s(instance);
    const double need = instance.total_blocks() - instance.movable_budget();
    const double moved = layers > 1 ? std::max(0.0, need) * layers / (layers - 1) : std::max(0.0, need);
    const double tail = (instance.layer_compute_s.back() + instance.after_s) / instance.iterations;
    const double bound = std::max(compute, moved > 0 ? moved / instance.link_blocks_per_s + tail : 0.0);
    if (!problem_.found()) return bound;
    sets_.assign(problem_.best().begin(), problem_.best().end());
    double best = problem_.best_cost();
    for (bool better = true; better && best > bound * (1 + same_cost);) {
      better = false;
      for (const SearchItem& item : problem_.items())
        for (int out = -1; out < instance.layers(); ++out)
          for (int in = -1; in < instance.layers(); ++in) {
            if (problem_.out_of_time()) return bound;
            const LayerSet set = sets_[item.request];
            if ((out >= 0 && !set.contains(out)) || (in >= 0 && (set.contains(in) || !among.contains(in))) ||
                (out < 0 && in < 0))
              continue;
            if (out >= 0) sets_[item.request].erase(out);
            if (in >= 0) sets_[item.request].insert(in);
            ++problem_.nodes;
            const PlacementCost cost = problem_.evaluator.cost(instance, sets_);
            if (cost.fits && cost.step.step_s < best * (1 - same_cost)) {
              problem_.offer(std::span<const LayerSet>{sets_}, cost.step.step_s);
              if (problem_.best_cost() < best) {
                best = problem_.best_cost();
                better = true;
                continue;
              }
            }
            sets_[item.request] = set;
          }
    }
    return bound;
  }

  const Solution& finish(const Instance& instance, double open) {
    Solution& s = solution_;
    s.nodes = problem_.nodes;
    s.feasible = problem_.found();
    s.next_best_s = problem_.next_best();
    if (s.feasible) {
      s.offloaded.assign(problem_.best().begin(), problem_.best().end());
      s.proven_optimal = !(open < s_cutoff());
    } else {
      s.offloaded.assign(instance.requests.size(), instance.movable());
      s.proven_optimal = open == infinity;
    }
    const PlacementCost cost = problem_.evaluator.cost(instance, s.offloaded);
    s.resident_blocks = cost.resident_blocks;
    s.buffer_blocks = cost.buffer_blocks;
    s.step_s = cost.step.step_s;
    s.stall_s = cost.step.stall_s;
    const WindowCheck held = problem_.evaluator.hold(instance, s.offloaded, cost);
    s.window = s.feasible ? held.window : 0;
    if (!s.feasible)
      s.binding = why_infeasible(instance, held.binding);
    else if (!s.proven_optimal)
      s.binding = Binding::search;
    else
      s.binding = s.stall_s > same_cost * s.step_s ? Binding::link : Binding::none;
    s.lower_bound_s = s.proven_optimal ? s.step_s : std::min(open, s.step_s);
    if (!s.feasible) s.lower_bound_s = std::min(open, s.step_s);
    return s;
  }
  [[nodiscard]] double s_cutoff() const { return problem_.best_cost() * (1 - same_cost); }

  /// `all_offloaded`: what binds for the plan that offloads everything. That plan needs the least memory under every
  /// rule whose buffers hold one layer, because each layer must be resident as a whole at one time.
  Binding why_infeasible(const Instance& instance, Binding all_offloaded) {
    if (all_offloaded != Binding::device_memory) return Binding::slo;
    if (problem_.slo_refused) return Binding::slo;
    if (!rule_->whole_layers) return Binding::device_memory;
    // Two layers are held at once: another plan may fit although that one does not.
    for (const LayerSet& candidate : candidates_) {
      sets_.assign(instance.requests.size(), candidate);
      PlacementCost cost = problem_.evaluator.cost(instance, sets_, instance.window_min - 1);
      if (cost.fits) return Binding::slo;
    }
    return Binding::device_memory;
  }

  const CandidateSpace* space_;
  const Rule* rule_;
  LayerSet listed_for_{};
  std::vector<LayerSet> candidates_;
  std::vector<LayerSet> sets_;
  std::vector<LayerSet> warm_;
  Instance longest_;
  SearchProblem<Rule> problem_;
  std::optional<Scratch> cold_search_;
  RuleSearch<Rule> rule_search_;
  Solution solution_;
};

} // namespace sluice::detail
