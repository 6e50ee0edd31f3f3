// SPDX-License-Identifier: Apache-2.0
// JointSearch: branch and bound over the level of streamed weights and every request's kept, fetched and rebuilt
// layers.
#pragma once

#include "sluice/core/math.hpp"
#include "sluice/core/stopwatch.hpp"
#include "sluice/policy/placement/solver/joint_choices.hpp"
#include "sluice/policy/placement/solver/joint_evaluator.hpp"
#include "sluice/policy/placement/solver/joint_paths.hpp"
#include "sluice/policy/placement/solver/joint_space.hpp"
#include "sluice/policy/placement/solver/mix_program.hpp"
#include "sluice/policy/placement/solver/search_problem.hpp"
#include "sluice/policy/transfer/deadline_pool.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace sluice::detail {

/// Minimises a cold iteration over `JointSpace` and the levels. The first branch is the level; then the requests, the
/// largest first. Each level solves the relaxation of docs/planner.md, whose mix of paths bounds every plan at that
/// level by one number per request and choice; nodes near the root solve it again. Under rules whose partial plans
/// bound their completions, a node's own time is a second bound.
template <class Rule>
class JointSearch {
 public:
  explicit JointSearch(const Rule& rule) : rule_(&rule), evaluator_(*rule.transfer) {
    if (rule.bounding != nullptr) bounding_state_.emplace(*rule.bounding->state);
    if (rule.cold_search != nullptr)
      kind_ = JointRule::pool;
    else if (rule.whole_layers)
      kind_ = JointRule::pair;
    else if (rule.own_buffers)
      kind_ = JointRule::own;
    if (kind_ == JointRule::pair && rule.held_layers < 2) kind_ = JointRule::other;
  }

  const JointSolution& solve(const JointInstance& joint) {
    begin(joint);
    finish(search());
    return answer_;
  }

 private:
  static constexpr double infinity = std::numeric_limits<double>::infinity();

  /// A mix of paths: every plan of its level takes at least constant + the sum of its choices' slopes.
  struct Mixed {
    double constant = 0;
    double at_node = 0;        ///< with the slopes of the requests decided so far
    std::vector<double> slope; ///< items x choices
    std::vector<double> least; ///< the least slopes of items i and later, summed
  };
  struct Level {
    JointPaths paths;
    double budget = 0;
    double root = 0;               ///< a bound on all plans of the level
    std::vector<double> constants; ///< of its cuts
    std::vector<double> slopes;    ///< cuts x items x choices
    std::vector<double> mix;
    Mixed root_mix;
  };
  struct Child {
    double bound;
    int choice;
  };

  [[nodiscard]] std::size_t items() const { return choices_.items().size(); }
  [[nodiscard]] std::size_t width() const { return items() * choices_.choices(); }
  [[nodiscard]] double cutoff() const { return best_ * (1 - same_cost); }

  bool out_of_time() {
    if (stopped_) return true;
    if (nodes_ >= joint_->base.node_limit) return stopped_ = true;
    if (timed_) stopped_ = started_.elapsed().count() >= joint_->base.deadline_s;
    return stopped_;
  }

  void begin(const JointInstance& joint) {
    joint_ = &joint;
    const Instance& base = joint.base;
    started_ = Stopwatch{};
    timed_ = math::isfinite(base.deadline_s);
    stopped_ = false;
    nodes_ = 0;
    best_ = next_best_ = infinity;
    layers_ = base.layer_compute_s.size();
    choices_.begin(joint, &JointSpace::candidates);
    sums_.resize(items() + 1);
    room_.assign(items() + 1, 0.0);
    sums_[0] = JointSums{};
    std::copy(base.layer_compute_s.begin(), base.layer_compute_s.end(), sums_[0].compute_s.begin());
    choice_.assign(items(), 0);
    best_choice_.assign(items(), 0);
    children_.resize(items() + 1);
    ways_.assign(base.requests.size(), {});
    mixes_used_ = 0;
    floor_s_ = base.before_s + base.after_s;
    for (const double seconds : base.layer_compute_s) floor_s_ += seconds;
    rest_s_.resize(layers_);
    double rest = base.after_s;
    for (std::size_t l = layers_; l-- > 0;) rest_s_[l] = rest += base.layer_compute_s[l];
    least_room_.assign(items() + 1, 0.0);
    for (std::size_t i = items(); i-- > 0;) {
      double least = infinity;
      for (std::size_t k = 0; k < choices_.choices(); ++k) least = std::min(least, spread(i, k));
      least_room_[i] = least_room_[i + 1] + least;
    }
  }

  /// The least that a choice adds to a plan's memory: moving blocks are held, at least as many as in the mean layer.
  [[nodiscard]] double spread(std::size_t i, std::size_t k) const {
    const auto& amount = choices_.amount(i, k);
    if (kind_ == JointRule::own) return amount.used + amount.own;
    if (kind_ == JointRule::other) return amount.used;
    return amount.used + amount.moved / static_cast<double>(layers_);
  }

  // ---- complete plans ---------------------------------------------------------------------------------------------

  /// The time of the choices of `choice_` at the current level, whose sums are `sums`, or some value of at least
  /// `limit` if it is not below that; infinite if they do not fit.
  double cost(const JointSums& sums, double limit) {
    ++nodes_;
    const Level& level = levels_[at_];
    if (kind_ == JointRule::pool) {
      const double worst = largest(sums.load.data(), layers_);
      const double room = level.budget - sums.used;
      if (worst > room + 1e-9 * math::abs(level.budget)) return infinity;
      const Instance& base = joint_->base;
      if (base.link_per_layer_s <= 0 && base.on_link <= 0 && joint_->weights(at_).empty()) {
        const DeadlinePool::Cold cold{
            {sums.compute_s.data(), layers_}, base.before_s, base.after_s, 1 / base.link_blocks_per_s};
        return DeadlinePool::cold_step_s(cold, {sums.load.data(), layers_}, room, rest_s_.data(), limit);
      }
    } else if (sums.used > level.budget * (1 + 1e-9)) {
      return infinity;
    }
    for (std::size_t i = 0; i < items(); ++i)
      ways_[choices_.items()[i].request] = choices_.ways(i, static_cast<std::size_t>(choice_[i]));
    const PlacementCost cost = evaluator_.cost(*joint_, at_, ways_);
    return cost.fits ? cost.step.step_s : infinity;
  }

  void offer(double cost) {
    if (!(cost < best_)) {
      if (cost > best_ && cost < next_best_) next_best_ = cost;
      return;
    }
    next_best_ = best_;
    best_ = cost;
    best_level_ = at_;
    best_choice_ = choice_;
  }

  /// The sums of `choice_`, without item `but`.
  void sum_up(JointSums& sums, std::size_t but) const {
    sums = sums_[0];
    for (std::size_t i = 0; i < items(); ++i)
      if (i != but) choices_.add(i, static_cast<std::size_t>(choice_[i]), 1, sums);
  }

  /// What the root's mix of paths proves about `choice_`.
  [[nodiscard]] double proven(const Mixed& mixed) const {
    double sum = mixed.constant;
    for (std::size_t i = 0; i < items(); ++i)
      sum += mixed.slope[i * choices_.choices() + static_cast<std::size_t>(choice_[i])];
    return sum;
  }

  double try_whole() {
    if (proven(levels_[at_].root_mix) >= cutoff()) return infinity;
    sum_up(trial_, items());
    const double time = cost(trial_, infinity);
    if (time < infinity) offer(time);
    return time;
  }

  /// Looks for a good plan of this level: the relaxation's mix, rounded; the same choice for all; then changes of one
  /// request at a time.
  void guess() {
    const Level& level = levels_[at_];
    const std::size_t count = choices_.choices();
    double rest = 0;
    for (const auto& item : choices_.items()) rest += item.blocks;
    lacking_.resize(count);
    for (std::size_t k = 0; k < count; ++k) lacking_[k] = level.mix[k] * rest;
    for (std::size_t i = 0; i < items(); ++i) {
      const auto pick = std::max_element(lacking_.begin(), lacking_.end());
      *pick -= choices_.items()[i].blocks;
      choice_[i] = static_cast<int>(pick - lacking_.begin());
    }
    const double before = best_;
    try_whole();
    for (std::size_t k = count; k-- > 0 && !out_of_time();) {
      std::fill(choice_.begin(), choice_.end(), static_cast<int>(k));
      try_whole();
    }
    if (best_ < before) improve();
  }

  void improve() {
    choice_ = best_choice_;
    const Mixed& mixed = levels_[at_].root_mix;
    const std::size_t count = choices_.choices();
    double linear = proven(mixed);
    std::size_t unchanged = 0;
    for (std::size_t i = 0; unchanged < items(); i = i + 1 < items() ? i + 1 : 0) {
      if (out_of_time() || best_ <= levels_[at_].root * (1 + same_cost)) break;
      ++unchanged;
      const int old = choice_[i];
      const double* slope = &mixed.slope[i * count];
      bool summed = false;
      for (std::size_t k = 0; k < count; ++k) {
        if (static_cast<int>(k) == old) continue;
        if (linear - slope[static_cast<std::size_t>(old)] + slope[k] >= cutoff()) continue;
        if (!summed) sum_up(others_, i);
        summed = true;
        trial_ = others_;
        choices_.add(i, k, 1, trial_);
        choice_[i] = static_cast<int>(k);
        const double time = cost(trial_, cutoff());
        if (time < cutoff()) {
          offer(time);
          unchanged = 0;
        }
      }
      choice_[i] = best_choice_[i];
      linear += slope[static_cast<std::size_t>(choice_[i])] - slope[static_cast<std::size_t>(old)];
    }
  }

  // ---- the bound --------------------------------------------------------------------------------------------------

  std::size_t add_cut(Level& level, const JointCut& cut) {
    double constant = cut.constant;
    for (std::size_t l = 0; l < layers_; ++l) constant += cut.compute[l] * joint_->base.layer_compute_s[l];
    level.constants.push_back(constant);
    level.slopes.resize(level.constants.size() * width());
    choices_.slopes(cut, &level.slopes[(level.constants.size() - 1) * width()]);
    return level.constants.size() - 1;
  }
  /// A cut's value if all undecided requests choose candidate k.
  void row_of(const Level& level, std::size_t cut, std::size_t depth, std::vector<double>& row) const {
    const std::size_t count = choices_.choices();
    const double* slopes = &level.slopes[cut * width()];
    double constant = level.constants[cut];
    for (std::size_t i = 0; i < depth; ++i) constant += slopes[i * count + static_cast<std::size_t>(choice_[i])];
    row.assign(count, constant);
    for (std::size_t i = depth; i < items(); ++i)
      for (std::size_t k = 0; k < count; ++k) row[k] += slopes[i * count + k];
  }

  /// Solves the relaxation in which the undecided requests share one mix of candidates, and writes its mix of paths.
  /// Returns the bound, which lets each request choose on its own.
  double relax(Level& level, std::size_t depth, Mixed& mixed) {
    if (level.constants.empty()) add_cut(level, level.paths.compute_path());
    const std::size_t count = choices_.choices();
    rows_.resize(std::max(rows_.size(), level.constants.size()));
    for (std::size_t i = 0; i < level.constants.size(); ++i) row_of(level, i, depth, rows_[i]);
    program_.begin(count, rows_[0]);
    level.mix.resize(count);
    const int most = 12 * static_cast<int>(count) + 100;
    for (int guard = 0; guard < most; ++guard) {
      ++nodes_;
      if (!program_.enter_surpluses()) break;
      if (program_.value() >= cutoff() || out_of_time()) break;
      double best = 1e-9;
      std::size_t entering = level.constants.size();
      for (std::size_t i = 0; i < level.constants.size(); ++i)
        if (const double gain = program_.gain(rows_[i]); gain > best) {
          best = gain;
          entering = i;
        }
      if (entering == level.constants.size()) {
        program_.mix(level.mix);
        trial_ = sums_[depth];
        for (std::size_t k = 0; k < count; ++k)
          if (level.mix[k] > 0)
            for (std::size_t i = depth; i < items(); ++i) choices_.add(i, k, level.mix[k], trial_);
        level.paths.longest(trial_, cut_);
        add_cut(level, cut_);
        rows_.resize(std::max(rows_.size(), level.constants.size()));
        row_of(level, entering, depth, rows_[entering]);
        if (program_.gain(rows_[entering]) <= gain_that_counts) break;
      }
      if (!program_.enter(static_cast<int>(entering), rows_[entering])) break;
    }
    program_.mix(level.mix);
    return push_mix(level, depth, mixed);
  }

  double push_mix(const Level& level, std::size_t depth, Mixed& mixed) {
    const std::size_t count = choices_.choices();
    mixed.constant = 0;
    mixed.slope.assign(width(), 0.0);
    program_.for_each_weight([&](int row, double weight) {
      const auto cut = static_cast<std::size_t>(row);
      mixed.constant += weight * level.constants[cut];
      const double* slope = &level.slopes[cut * width()];
      for (std::size_t k = 0; k < width(); ++k) mixed.slope[k] += weight * slope[k];
    });
    mixed.least.assign(items() + 1, 0.0);
    for (std::size_t i = items(); i-- > 0;) {
      const auto from = mixed.slope.begin() + static_cast<std::ptrdiff_t>(i * count);
      mixed.least[i] = mixed.least[i + 1] + *std::min_element(from, from + static_cast<std::ptrdiff_t>(count));
    }
    mixed.at_node = mixed.constant;
    for (std::size_t i = 0; i < depth; ++i)
      mixed.at_node += mixed.slope[i * count + static_cast<std::size_t>(choice_[i])];
    return mixed.at_node + mixed.least[depth];
  }

  /// The time of the decided requests alone under the bounding rule: no completion ends earlier.
  double partial_bound(std::size_t depth) {
    if (rule_->bounding == nullptr) return 0;
    ++nodes_;
    const Instance& base = joint_->base;
    streams_.clear();
    for (std::size_t i = 0; i < depth; ++i) {
      const auto& item = choices_.items()[i];
      const KvWays& way = choices_.ways(i, static_cast<std::size_t>(choice_[i]));
      if (!way.fetched.empty()) streams_.push_back({way.fetched, item.blocks});
      const LayerSet states = way.rebuilt & item.cost.states;
      if (!states.empty() && item.cost.state_blocks > 0) streams_.push_back({states, item.cost.state_blocks});
    }
    Pipeline pipeline;
    pipeline.compute_s = {sums_[depth].compute_s.data(), layers_};
    pipeline.before_s = base.before_s;
    pipeline.after_s = base.after_s;
    pipeline.streams = streams_;
    pipeline.weights = joint_->weights(at_);
    // A layer's transfers share its latency, so one more of them can make another arrive earlier. Only whole layers
    // keep it, and not beside streamed weights: KV of their layer would pay it before their slot is free.
    const bool latency = rule_->whole_layers && pipeline.weights.empty();
    pipeline.link = {base.link_blocks_per_s, latency ? base.link_per_layer_s : 0.0};
    rule_->bounding->clear(bounding_state_->get());
    return rule_->bounding->evaluate(pipeline, bounding_state_->get()).step_s;
  }

  // ---- the tree ---------------------------------------------------------------------------------------------------

  /// Returns a lower bound on every plan that was not examined; infinite if all were, or were shown to be no better.
  double search() {
    const std::size_t count = joint_->level_count();
    if (levels_.size() < count) levels_.resize(count);
    for (at_ = 0; at_ < count; ++at_) { // nothing leaves the device: if that fits and does not wait, no plan is better
      levels_[at_].budget = joint_->budget(at_);
      if (sums_of_kept() > levels_[at_].budget) continue;
      std::fill(choice_.begin(), choice_.end(), 0);
      sum_up(trial_, items());
      if (const double time = cost(trial_, infinity); time < infinity) offer(time);
      if (best_ <= floor_s_ * (1 + same_cost)) return infinity;
    }
    order_.clear();
    for (at_ = 0; at_ < count; ++at_) {
      Level& level = levels_[at_];
      level.paths.begin(*joint_, at_, kind_);
      level.constants.clear();
      level.slopes.clear();
      level.root = floor_s_;
      if (items() == 0) continue;
      if (least_room_[0] > level.budget * (1 + 1e-9) + 1e-6) continue; // no plan of this level fits
      level.root = std::max(floor_s_, relax(level, 0, level.root_mix));
      if (level.root < cutoff()) order_.push_back(at_);
    }
    std::sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
      return levels_[a].root != levels_[b].root ? levels_[a].root < levels_[b].root : a < b;
    });
    double open = infinity;
    for (const std::size_t level : order_) {
      if (levels_[level].root >= cutoff()) break;
      at_ = level;
      guess();
    }
    for (const std::size_t level : order_) {
      if (levels_[level].root >= cutoff()) break;
      if (out_of_time()) return std::min(open, levels_[level].root);
      at_ = level;
      mixes_used_ = 0;
      open = std::min(open, descend(0, levels_[level].root));
    }
    return open;
  }
  [[nodiscard]] double sums_of_kept() const {
    double used = 0;
    for (std::size_t i = 0; i < items(); ++i) used += choices_.amount(i, 0).used;
    return used;
  }

  /// Calls `visit` with each mix of paths that bounds the present node.
  template <class Visit>
  void for_each_mix(Visit&& visit) {
    visit(levels_[at_].root_mix);
    for (std::size_t m = 0; m < mixes_used_; ++m) visit(mixes_[m]);
  }

  double descend(std::size_t depth, double bound) {
    if (out_of_time()) return bound;
    if (depth + 1 == items()) return last_request(depth, bound);
    const std::size_t count = choices_.choices();
    std::vector<Child>& children = children_[depth];
    children.clear();
    const std::size_t first = choices_.items()[depth].twin ? static_cast<std::size_t>(choice_[depth - 1]) : 0;
    for (std::size_t k = first; k < count; ++k) {
      double child = bound;
      for_each_mix([&](const Mixed& mixed) {
        child = std::max(child, mixed.at_node + mixed.slope[depth * count + k] + mixed.least[depth + 1]);
      });
      if (child < cutoff()) children.push_back({child, static_cast<int>(k)});
    }
    std::sort(children.begin(), children.end(), [](const Child& a, const Child& b) {
      return a.bound != b.bound ? a.bound < b.bound : a.choice < b.choice;
    });
    double open = infinity;
    for (std::size_t c = 0; c < children.size(); ++c) {
      const Child child = children[c];
      if (child.bound >= cutoff()) break;
      if (out_of_time()) return std::min(open, child.bound);
      ++nodes_;
      const auto k = static_cast<std::size_t>(child.choice);
      choice_[depth] = child.choice;
      room_[depth + 1] = room_[depth] + spread(depth, k);
      if (room_[depth + 1] + least_room_[depth + 1] > levels_[at_].budget * (1 + 1e-9) + 1e-6) continue;
      sums_[depth + 1] = sums_[depth];
      choices_.add(depth, k, 1, sums_[depth + 1]);
      double node_bound = std::max(child.bound, partial_bound(depth + 1));
      if (node_bound >= cutoff()) continue;
      for_each_mix([&](Mixed& mixed) { mixed.at_node += mixed.slope[depth * count + k]; });
      const std::size_t mixes = mixes_used_;
      if (items() - depth - 1 >= relax_above) {
        if (mixes_used_ == mixes_.size()) mixes_.emplace_back();
        node_bound = std::max(node_bound, relax(levels_[at_], depth + 1, mixes_[mixes_used_]));
        ++mixes_used_;
      }
      if (node_bound < cutoff()) open = std::min(open, descend(depth + 1, node_bound));
      mixes_used_ = mixes;
      for_each_mix([&](Mixed& mixed) { mixed.at_node -= mixed.slope[depth * count + k]; });
    }
    return open;
  }

  double last_request(std::size_t depth, double bound) {
    const std::size_t count = choices_.choices();
    for (std::size_t k = choices_.items()[depth].twin ? static_cast<std::size_t>(choice_[depth - 1]) : 0; k < count;
         ++k) {
      if (out_of_time()) return bound;
      bool hopeless = room_[depth] + spread(depth, k) > levels_[at_].budget * (1 + 1e-9) + 1e-6;
      for_each_mix([&](const Mixed& mixed) {
        hopeless = hopeless || mixed.at_node + mixed.slope[depth * count + k] >= cutoff();
      });
      if (hopeless) continue;
      trial_ = sums_[depth];
      choices_.add(depth, k, 1, trial_);
      choice_[depth] = static_cast<int>(k);
      const double time = cost(trial_, cutoff());
      if (time < cutoff()) offer(time);
    }
    return infinity;
  }

  void finish(double open) {
    Solution& s = answer_.solution;
    const Instance& base = joint_->base;
    s.nodes = nodes_;
    s.feasible = math::isfinite(best_);
    s.next_best_s = next_best_;
    answer_.level = s.feasible ? best_level_ : 0;
    // If nothing fits, the answer is one example: everything fetched, at the first level.
    answer_.ways.assign(base.requests.size(), {s.feasible ? LayerSet{} : base.movable(), {}});
    if (s.feasible)
      for (std::size_t i = 0; i < items(); ++i)
        answer_.ways[choices_.items()[i].request] = choices_.ways(i, static_cast<std::size_t>(best_choice_[i]));
    const PlacementCost cost = evaluator_.cost(*joint_, answer_.level, answer_.ways);
    s.offloaded.clear();
    for (const KvWays& way : answer_.ways) s.offloaded.push_back(way.fetched);
    s.resident_blocks = cost.resident_blocks + base.staying_at(0);
    s.buffer_blocks = cost.buffer_blocks;
    s.step_s = cost.step.step_s;
    s.stall_s = cost.step.stall_s;
    s.proven_optimal = s.feasible ? !(open < cutoff()) : open == infinity;
    s.lower_bound_s = s.feasible && s.proven_optimal ? s.step_s : std::min(open, s.step_s);
    s.window = s.feasible ? 1 : 0;
    if (!s.feasible)
      s.binding = s.proven_optimal ? Binding::device_memory : Binding::search;
    else if (!s.proven_optimal)
      s.binding = Binding::search;
    else
      s.binding = s.stall_s > same_cost * s.step_s ? Binding::link : Binding::none;
  }

  static constexpr std::size_t relax_above = 3; ///< undecided requests from which a node's own relaxation pays off
  static constexpr double gain_that_counts = 1e-7;

  const Rule* rule_;
  JointRule kind_ = JointRule::other;
  BasicJointEvaluator<TransferRule> evaluator_;
  std::optional<Scratch> bounding_state_;
  const JointInstance* joint_ = nullptr;
  JointChoices choices_;
  std::size_t layers_ = 0;
  double floor_s_ = 0; ///< computing alone
  std::vector<double> rest_s_;
  std::vector<double> least_room_;
  std::vector<double> room_;
  std::vector<Level> levels_;
  std::vector<std::size_t> order_;
  std::size_t at_ = 0;          ///< the present level
  std::vector<JointSums> sums_; ///< of the requests decided before each depth
  JointSums trial_, others_;
  JointCut cut_;
  std::vector<int> choice_, best_choice_;
  std::vector<KvWays> ways_;
  std::vector<std::vector<Child>> children_;
  std::vector<std::vector<double>> rows_;
  std::vector<double> lacking_;
  std::vector<Mixed> mixes_;
  std::vector<LayerStream> streams_;
  std::size_t mixes_used_ = 0;
  MixProgram program_;
  double best_ = 0;
  double next_best_ = 0;
  std::size_t best_level_ = 0;
  std::int64_t nodes_ = 0;
  bool stopped_ = false;
  bool timed_ = false;
  Stopwatch started_;
  JointSolution answer_;
};

} // namespace sluice::detail
