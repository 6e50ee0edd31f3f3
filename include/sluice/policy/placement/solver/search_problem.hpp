// SPDX-License-Identifier: Apache-2.0
// SearchProblem: what all searches of the planner share: ordered requests, candidates, the best plan, the clock.
#pragma once

#include "sluice/core/math.hpp"
#include "sluice/core/stopwatch.hpp"
#include "sluice/policy/placement/solver/placement_evaluator.hpp"
#include "sluice/state/plan/instance.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace sluice::detail {

/// Plans whose costs differ by less than this relative difference cost the same: above rounding, below relevance.
inline constexpr double same_cost = 1e-10;

/// A request in a search: largest first, because the largest request's choice decides most.
struct SearchItem {
  double blocks = 0;
  std::size_t request = 0; ///< position in the instance
  bool twin = false;       ///< equal to the item before it: only one order of their choices need be tried
};

/// `Rule` is SearchRule, here and in the searches: a template parameter, so that a unit that includes a planner but
/// does not plan compiles none of it.
template <class Rule>
class SearchProblem {
 public:
  explicit SearchProblem(const Rule& rule) : evaluator(*rule.transfer) {}

  void begin(const Instance& instance) {
    instance_ = &instance;
    items_.clear();
    for (std::size_t r = 0; r < instance.requests.size(); ++r)
      if (const double blocks = instance.blocks_at(r, 0); blocks > 0) items_.push_back({blocks, r, false});
    const auto same = [&](const SearchItem& a, const SearchItem& b) {
      return a.blocks == b.blocks && instance.requests[a.request].tokens == instance.requests[b.request].tokens;
    };
    std::sort(items_.begin(), items_.end(), [&](const SearchItem& a, const SearchItem& b) {
      if (a.blocks != b.blocks) return a.blocks > b.blocks;
      const Tokens left = instance.requests[a.request].tokens;
      const Tokens right = instance.requests[b.request].tokens;
      return left != right ? left > right : a.request < b.request;
    });
    for (std::size_t i = 1; i < items_.size(); ++i) items_[i].twin = same(items_[i], items_[i - 1]);
    offloaded_.assign(instance.requests.size(), {});
    best_.assign(instance.requests.size(), {});
    best_cost_ = std::numeric_limits<double>::infinity();
    next_best_ = best_cost_;
    nodes = 0;
    stopped = false;
    slo_refused = false;
    window_matters_ = instance.has_slo() || instance.window_min > 1;
    slo_limit_s_ = instance.has_slo() ? unknown : std::numeric_limits<double>::infinity();
    started_ = Stopwatch{};
    timed_ = math::isfinite(instance.deadline_s);
  }

  /// Begins a second search for the same answer: nodes and time continue where the first search stopped.
  void begin_again(const Instance& instance) {
    const std::int64_t spent = nodes;
    const Stopwatch started = started_;
    begin(instance);
    nodes = spent;
    started_ = started;
  }

  [[nodiscard]] const Instance& instance() const { return *instance_; }
  [[nodiscard]] std::span<const SearchItem> items() const { return items_; }
  [[nodiscard]] bool found() const { return math::isfinite(best_cost_); }
  [[nodiscard]] double best_cost() const { return best_cost_; }
  [[nodiscard]] double next_best() const { return next_best_; }
  [[nodiscard]] std::span<const LayerSet> best() const { return best_; }
  /// A partial plan whose bound is not below this cannot lead to a better one.
  [[nodiscard]] double cutoff() { return std::min(best_cost_ * (1 - same_cost), slo_limit_s()); }
  /// The longest first step that the SLO allows. Computed on first use: a batch that fits as it is never asks.
  [[nodiscard]] double slo_limit_s() {
    if (slo_limit_s_ == unknown) slo_limit_s_ = slowest_first_step();
    return slo_limit_s_;
  }

  /// Takes a complete plan: candidate `choice[i]` for item i, at `cost` seconds. Keeps it if it is the best that holds.
  void offer(std::span<const int> choice, std::span<const LayerSet> candidates, double cost) {
    for (std::size_t i = 0; i < items_.size(); ++i)
      offloaded_[items_[i].request] = candidates[static_cast<std::size_t>(choice[i])];
    offer_sets(cost);
  }
  void offer(std::span<const LayerSet> offloaded, double cost) {
    std::copy(offloaded.begin(), offloaded.end(), offloaded_.begin());
    offer_sets(cost);
  }

  /// Whether to stop: the deadline has passed or the nodes are used up. Reads the clock at every call if there is a
  /// deadline: between two calls may lie a microsecond or, with many requests, a hundred.
  bool out_of_time() {
    if (stopped) return true;
    if (nodes >= instance_->node_limit) return stopped = true;
    if (timed_) stopped = started_.elapsed().count() >= instance_->deadline_s;
    return stopped;
  }

  PlacementEvaluator evaluator;
  std::int64_t nodes = 0;
  bool stopped = false;
  bool slo_refused = false; ///< a plan fitted in memory, but missed the SLO

 private:
  static constexpr double unknown = -1;

  void offer_sets(double cost) {
    if (!(cost < best_cost_)) {
      if (cost > best_cost_ && cost < next_best_) next_best_ = cost;
      return;
    }
    if (window_matters_) {
      const PlacementCost first = evaluator.cost(*instance_, offloaded_);
      const WindowCheck check = evaluator.hold(*instance_, offloaded_, first);
      if (check.window == 0) {
        slo_refused |= check.binding == Binding::slo;
        return;
      }
    }
    next_best_ = best_cost_;
    best_cost_ = cost;
    best_ = offloaded_;
  }

  /// Finds the longest first step that the SLO allows. KV only grows, so no later step of the window is shorter (under
  /// the bounding rules: see `BoundingRule`): a plan that is slower at first misses too often in any window. By
  /// bisection from above, so that it refuses nothing that holds.
  [[nodiscard]] double slowest_first_step() const {
    double compute = instance_->before_s + instance_->after_s;
    for (const double seconds : instance_->layer_compute_s) compute += seconds;
    const auto holds = [&](double step_s) {
      double misses = 0;
      double elapsed_s = step_s;
      for (int t = 1; t <= instance_->window_max; ++t, elapsed_s += step_s) {
        misses += instance_->paused_without_deposit;
        for (const InstanceRequest& request : instance_->requests)
          if (PlacementEvaluator::misses_step(request, t, elapsed_s)) misses += 1;
        if (misses > instance_->alpha * instance_->window_max + 1e-9) return false;
        if (t >= instance_->window_min && misses <= instance_->alpha * t + 1e-9) return true;
      }
      return false;
    };
    if (!holds(compute)) return 0;
    double good = compute;
    double bad = 2 * compute;
    for (int i = 0; holds(bad); ++i) {
      if (i == 60) return std::numeric_limits<double>::infinity();
      good = bad;
      bad *= 2;
    }
    for (int i = 0; i < 30; ++i) {
      const double middle = 0.5 * (good + bad);
      (holds(middle) ? good : bad) = middle;
    }
    return bad * (1 + 1e-9);
  }

  const Instance* instance_ = nullptr;
  std::vector<SearchItem> items_;
  std::vector<LayerSet> offloaded_;
  std::vector<LayerSet> best_;
  double best_cost_ = 0;
  double next_best_ = 0;
  double slo_limit_s_ = 0;
  bool window_matters_ = false;
  bool timed_ = false;
  Stopwatch started_;
};

} // namespace sluice::detail
