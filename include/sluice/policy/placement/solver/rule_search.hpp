// SPDX-License-Identifier: Apache-2.0
// RuleSearch: branch and bound under any transfer rule, by the cost of partial plans.
#pragma once

#include "sluice/core/interrupt.hpp"
#include "sluice/core/math.hpp"
#include "sluice/policy/placement/solver/search_problem.hpp"
#include "sluice/policy/transfer/transfer_rule.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace sluice::detail {

/// Exact over a listed space for every rule, buffer count and number of iterations. Under `DeadlinePool` a partial
/// plan's own pipeline is no bound (other requests that offload free room), so only the link is counted; `PoolSearch`
/// is faster there.
template <class Rule>
class RuleSearch {
 public:
  explicit RuleSearch(const Rule& rule) : rule_(&rule) {
    if (rule.bounding != nullptr) state_.emplace(*rule.bounding->state);
  }

  /// Like `PoolSearch::run`.
  double run(SearchProblem<Rule>& problem, std::span<const LayerSet> candidates, std::span<const LayerSet> hint) {
    begin(problem, candidates);
    const double floor_s = std::max(problem.instance().before_s + problem.instance().after_s + compute_s_, bound(0));
    if (floor_s >= problem.cutoff()) return infinity; // infeasible, known without trying a plan
    if (hint.size() == sets_.size()) {
      std::transform(hint.begin(), hint.end(), sets_.begin(),
                     [among = problem.instance().movable()](LayerSet set) { return set & among; });
      if (offer()) improve();
    }
    if (problem.best_cost() <= floor_s * (1 + same_cost)) return infinity;
    for (std::size_t k = candidates_.size(); k-- > 0;) { // uniform plans, the most offloaded first
      for (const SearchItem& item : problem.items()) sets_[item.request] = candidates_[k];
      if (!offer()) break;
      if (problem.out_of_time()) return floor_s;
    }
    if (problem.found()) {
      std::copy(problem.best().begin(), problem.best().end(), sets_.begin());
      improve();
    }
    if (problem.best_cost() <= floor_s * (1 + same_cost) || problem.cutoff() <= floor_s) return infinity;
    std::fill(sets_.begin(), sets_.end(), LayerSet{});
    return descend(0, floor_s);
  }

 private:
  static constexpr double infinity = std::numeric_limits<double>::infinity();

  struct Child {
    double bound;
    int choice;
  };
  struct Sums {
    double moved;   ///< blocks, including streamed weights
    double buffers; ///< one layer of each request that offloads
  };

  void begin(SearchProblem<Rule>& problem, std::span<const LayerSet> candidates) {
    problem_ = &problem;
    candidates_ = candidates;
    const Instance& instance = problem.instance();
    layers_ = instance.layer_compute_s.size();
    movable_ = static_cast<double>(instance.movable().count());
    sets_.assign(instance.requests.size(), {});
    streams_.clear();
    children_.resize(problem.items().size() + 1);
    choice_.assign(problem.items().size(), 0);
    rest_blocks_.assign(problem.items().size() + 1, 0.0);
    for (std::size_t i = problem.items().size(); i-- > 0;)
      rest_blocks_[i] = rest_blocks_[i + 1] + problem.items()[i].blocks;
    compute_s_ = 0;
    for (const double seconds : instance.layer_compute_s) compute_s_ += seconds;
    weights_ = instance.weights.blocks * instance.weights.layers.count();
    sums_.assign(1, {weights_, 0});
    counts_.clear();
    for (const LayerSet& set : candidates) counts_.push_back(set.count());
    need_ = rest_blocks_[0] * movable_ - instance.movable_budget();
  }

  /// Evaluates `sets_` and offers it to the problem if it fits. Returns whether it fits.
  bool offer() {
    ++problem_->nodes;
    const PlacementCost cost = problem_->evaluator.cost(problem_->instance(), sets_);
    last_cost_ = cost.fits ? cost.step.step_s : infinity;
    if (cost.fits) problem_->offer(std::span<const LayerSet>{sets_}, last_cost_);
    return cost.fits;
  }

  /// Changes one request of `sets_` at a time as long as that helps.
  void improve() {
    offer();
    double best = last_cost_;
    const std::size_t items = problem_->items().size();
    std::size_t unchanged = 0;
    for (std::size_t i = 0; unchanged < items && items > 0; i = i + 1 < items ? i + 1 : 0) {
      ++unchanged;
      LayerSet& set = sets_[problem_->items()[i].request];
      LayerSet pick = set;
      for (const LayerSet& candidate : candidates_) {
        if (problem_->out_of_time()) break;
        set = candidate;
        offer();
        if (last_cost_ < best * (1 - same_cost)) {
          best = last_cost_;
          pick = candidate;
          unchanged = 0;
        }
      }
      set = pick;
      if (problem_->out_of_time()) return;
    }
  }

  /// Decides the next request; `pop` undoes it.
  void push(const SearchItem& item, std::size_t choice) {
    const Sums& sums = sums_.back();
    const int count = counts_[choice];
    sums_.push_back({sums.moved + item.blocks * count, sums.buffers + (count > 0 ? item.blocks : 0)});
    if (count > 0) streams_.push_back({candidates_[choice], item.blocks});
  }
  void pop(std::size_t choice) {
    sums_.pop_back();
    if (counts_[choice] > 0) streams_.pop_back();
  }

  /// Returns a bound on every completion of the requests decided so far; infinite if none fits.
  double bound(std::size_t depth) {
    const Instance& instance = problem_->instance();
    double moved = sums_.back().moved;
    double buffer = sums_.back().buffers;
    if (!rule_->own_buffers) {
      LayerArray loads;
      layer_loads(pipeline(), loads);
      buffer = rule_->transfer->blocks({loads.data(), layers_}, streams_);
    }
    double result = link_bound(depth, moved, buffer);
    if (rule_->bounding == nullptr) {
      ++problem_->nodes;
    } else {
      if (result >= problem_->cutoff()) return result;
      // For a complete plan, the time itself costs no more than a bound.
      if (depth == problem_->items().size()) return result;
      drop_if_interrupted();
      ++problem_->nodes; // counts what takes time; the link's bound alone is almost free
      const Pipeline partial = pipeline();
      rule_->bounding->clear(state_->get());
      double total = 0;
      for (int i = 0; i < instance.iterations; ++i) total += rule_->bounding->evaluate(partial, state_->get()).step_s;
      result = std::max(result, total / instance.iterations);
    }
    return result;
  }

  /// The bound by the link alone. `moved` and `buffer`: blocks that the decided requests move and hold in flight.
  double link_bound(std::size_t depth, double moved, double buffer) const {
    const Instance& instance = problem_->instance();
    const double to_free = need_ + weights_ + buffer - moved;
    // One more request frees at most all its layers except those that it holds itself. (A rule that holds two
    // neighbours may hold one where not all layers may be offloaded.)
    const int held = instance.among.empty() ? rule_->held_layers : std::min(rule_->held_layers, 1);
    const double most_freed = std::max(0.0, movable_ - held);
    if (to_free > rest_blocks_[depth] * most_freed + 1e-9 * math::abs(need_) + 1e-6) return infinity;
    if (to_free > 0) {
      // If each request holds a layer of its own, freeing blocks costs the link more than the blocks themselves; if one
      // request is left, as much as its candidates allow.
      if (!rule_->own_buffers)
        moved += to_free;
      else if (depth + 1 == problem_->items().size())
        moved += rest_blocks_[depth] * least_count(to_free / rest_blocks_[depth]);
      else
        moved += to_free * movable_ / most_freed;
    }
    if (moved <= 0) return 0;
    const double rest_s = instance.after_s + instance.layer_compute_s.back();
    return moved / instance.link_blocks_per_s + rest_s / instance.iterations;
  }

  /// The fewest layers of a candidate that frees at least `layers` of them while it holds one of its own.
  [[nodiscard]] double least_count(double layers) const {
    double least = movable_;
    for (const int count : counts_)
      if (count - 1 >= layers - 1e-6) least = std::min(least, static_cast<double>(count));
    return least;
  }

  [[nodiscard]] Pipeline pipeline() const {
    const Instance& instance = problem_->instance();
    Pipeline pipeline;
    pipeline.compute_s = instance.layer_compute_s;
    pipeline.before_s = instance.before_s;
    pipeline.after_s = instance.after_s;
    pipeline.streams = streams_;
    pipeline.weights = instance.weights;
    // The transfers of a layer share its latency, so one more transfer can make it arrive earlier. The latency is left
    // out, except for the rule that moves layers as a whole; beside streamed weights there, too, since KV of their
    // layer pays it before their slot is free.
    const bool latency = rule_->whole_layers && instance.weights.empty();
    pipeline.link = {instance.link_blocks_per_s, latency ? instance.link_per_layer_s : 0.0};
    return pipeline;
  }

  double descend(std::size_t depth, double parent_bound) {
    if (problem_->out_of_time()) return parent_bound;
    if (depth == problem_->items().size()) {
      offer();
      return infinity;
    }
    const SearchItem& item = problem_->items()[depth];
    std::vector<Child>& children = children_[depth];
    children.clear();
    const std::size_t first = item.twin ? static_cast<std::size_t>(choice_[depth - 1]) : 0;
    for (std::size_t k = first; k < candidates_.size(); ++k) {
      if (problem_->out_of_time()) return parent_bound;
      push(item, k);
      const double child = std::max(parent_bound, bound(depth + 1));
      pop(k);
      if (child < problem_->cutoff()) children.push_back({child, static_cast<int>(k)});
    }
    std::sort(children.begin(), children.end(), [](const Child& a, const Child& b) {
      return a.bound != b.bound ? a.bound < b.bound : a.choice < b.choice;
    });
    double open = infinity;
    for (std::size_t c = 0; c < children.size(); ++c) {
      const Child child = children[c];
      if (child.bound >= problem_->cutoff()) break;
      if (problem_->out_of_time()) {
        open = std::min(open, child.bound);
        break;
      }
      const auto choice = static_cast<std::size_t>(child.choice);
      choice_[depth] = child.choice;
      sets_[item.request] = candidates_[choice];
      push(item, choice);
      open = std::min(open, descend(depth + 1, child.bound));
      pop(choice);
    }
    sets_[item.request] = {};
    return open;
  }

  const Rule* rule_;
  SearchProblem<Rule>* problem_ = nullptr;
  std::span<const LayerSet> candidates_;
  std::size_t layers_ = 0;
  double movable_ = 0; ///< layers that may be offloaded
  double compute_s_ = 0;
  double weights_ = 0; ///< blocks of streamed weights
  double need_ = 0;
  double last_cost_ = 0;
  std::vector<LayerSet> sets_;
  std::vector<LayerStream> streams_; ///< the decided requests that offload
  std::vector<Sums> sums_;           ///< of the requests decided before each depth
  std::vector<int> counts_;          ///< layers of each candidate
  std::vector<double> rest_blocks_;
  std::vector<int> choice_;
  std::vector<std::vector<Child>> children_;
  std::optional<Scratch> state_; ///< of the bounding rule
};

} // namespace sluice::detail
