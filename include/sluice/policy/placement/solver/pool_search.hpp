// SPDX-License-Identifier: Apache-2.0
// PoolSearch: branch and bound for `DeadlinePool` over a listed space, by longest paths of the pooled pipeline.
#pragma once

#include "sluice/policy/placement/solver/mix_program.hpp"
#include "sluice/policy/placement/solver/search_problem.hpp"
#include "sluice/policy/transfer/deadline_pool.hpp"
#include "sluice/policy/transfer/pipeline.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace sluice::detail {

/// Minimises a cold iteration under `DeadlinePool`. docs/planner.md has the proofs; in short:
///
/// The step time is the longest path of a graph whose arcs are linear in the per-layer loads, so it is convex in them,
/// and the loads are linear in the choices. If each undecided request is relaxed to a mix of candidates, all of them
/// share one mix (their polytopes are scaled copies). So the relaxation has one variable per candidate, however many
/// requests there are: a matrix game between candidates and paths, solved by generating paths. Its dual, a mix of
/// paths, is a linear function that bounds every plan; a child's bound is then one multiplication and one addition.
template <class Rule>
class PoolSearch {
 public:
  /// Searches `problem` over `candidates` (the empty set first). Returns a lower bound on every plan that was not
  /// examined; infinite if all were, or were shown to be no better. `growth_blocks`: by how much all requests grow
  /// until the last step at which the plan's memory must hold. Unproven guesses keep that much free; otherwise the best
  /// ones for the first step would all fail later.
  double run(SearchProblem<Rule>& problem, std::span<const LayerSet> candidates, std::span<const LayerSet> hint,
             double growth_blocks) {
    begin(problem, candidates);
    slack_ = growth_blocks;
    start_from_hint(hint);
    const double floor_s = paths_->compute_total_s();
    if (problem.cutoff() <= floor_s * (1 + same_cost)) return infinity; // optimal, or the SLO is below the compute
    // With many requests, rounding the relaxation nearly gives the answer. With few, a guess may do.
    const bool many = relaxes() && problem.items().size() > 2;
    double root = floor_s;
    if (many) root = std::max(root, relax(0));
    guess(many);
    if (!problem.found() && slack_ > 0) {
      slack_ = 0;
      guess(many);
    }
    if (problem.cutoff() <= root * (1 + same_cost)) return infinity;
    if (relaxes() && !many) root = std::max(root, relax(0));
    if (root >= problem.cutoff()) return infinity;
    // Diving costs a few relaxations, more than it saves if the whole tree is small (measured).
    const bool small = problem.items().size() <= 2 || (problem.items().size() <= 4 && choices_ <= 20);
    if (relaxes() && !small && problem.best_cost() > root * 1.001) {
      greedy(false);
      improve();
      if (many) exchange();
      if (root >= problem.cutoff()) return infinity;
    }
    slack_ = 0;
    return descend(0, root);
  }

 private:
  static constexpr double infinity = std::numeric_limits<double>::infinity();
  static constexpr std::size_t most_mixed_candidates = 2 * max_layers;

  /// A mix of paths: every plan takes at least constant + sum over requests of blocks * slope[choice].
  struct MixedPath {
    double constant = 0;
    double least = 0; ///< the least slope
    std::vector<double> slope;
    double at_node = 0; ///< constant + slope of the requests decided so far
  };
  struct Child {
    double bound;
    int choice;
  };

  [[nodiscard]] std::size_t items() const { return problem_->items().size(); }
  [[nodiscard]] const double* mask(std::size_t choice) const { return &masks_[choice * layers_]; }
  [[nodiscard]] bool relaxes() const { return choices_ <= most_mixed_candidates && items() > 1; }

  void begin(SearchProblem<Rule>& problem, std::span<const LayerSet> candidates) {
    problem_ = &problem;
    candidates_ = candidates;
    const Instance& instance = problem.instance();
    layers_ = instance.layer_compute_s.size();
    choices_ = candidates.size();
    movable_ = static_cast<double>(instance.movable().count());
    exact_ = instance.link_per_layer_s <= 0;
    relax_above_ = choices_ <= 20 ? 4 : 3;
    masks_.assign(choices_ * layers_, 0.0);
    counts_.resize(choices_);
    for (std::size_t k = 0; k < choices_; ++k) {
      candidates[k].for_each([&](int layer) { masks_[k * layers_ + static_cast<std::size_t>(layer)] = 1; });
      counts_[k] = candidates[k].count();
    }
    const std::size_t depth = items();
    loads_.resize((depth + 1) * layers_);
    moved_.assign(depth + 1, 0.0);
    rest_blocks_.assign(depth + 1, 0.0);
    for (std::size_t i = depth; i-- > 0;) rest_blocks_[i] = rest_blocks_[i + 1] + problem.items()[i].blocks;
    choice_.assign(depth, 0);
    children_.resize(depth + 1);
    std::fill_n(loads_.begin(), layers_, 0.0);
    moved_[0] = 0;
    need_ = rest_blocks_[0] * movable_ - instance.movable_budget();
    cold_ = {instance.layer_compute_s, instance.before_s, instance.after_s, 1 / instance.link_blocks_per_s};
    rest_s_.resize(layers_);
    double rest = instance.after_s;
    for (std::size_t l = layers_; l-- > 0;) rest_s_[l] = rest += instance.layer_compute_s[l];
    paths_.emplace(cold_.compute_s, cold_.before_s, cold_.after_s, cold_.seconds_per_block, need_);
    cuts_.clear();
    cut_slopes_.clear();
    mixes_used_ = 0;
  }

  /// Returns the time of complete loads, or some value of at least `limit` if it is not below that; infinite if they do
  /// not fit.
  double cost(const double* loads, double moved, double limit) {
    ++problem_->nodes;
    const double room = moved - need_;
    const double worst = largest(loads, layers_);
    if (worst + slack_ > room + 1e-9 * (room + worst)) return infinity;
    if (limit < infinity && chain_bound(loads, moved) >= limit) return limit;
    if (exact_)
      return with_contention(DeadlinePool::cold_step_s(cold_, {loads, layers_}, room, rest_s_.data(), limit), loads,
                             moved);
    Pipeline pipeline;
    pipeline.compute_s = cold_.compute_s;
    pipeline.before_s = cold_.before_s;
    pipeline.after_s = cold_.after_s;
    pipeline.link = {problem_->instance().link_blocks_per_s, problem_->instance().link_per_layer_s};
    pipeline.room_blocks = room;
    state_.clear();
    return with_contention(DeadlinePool::evaluate_loads(pipeline, {loads, layers_}, state_).step_s, loads, moved);
  }

  /// The time by the evaluator's count, never below the time on the link's clock, which all bounds refer to.
  double with_contention(double step_s, const double* loads, double moved) const {
    const Instance& instance = problem_->instance();
    if (instance.on_link <= 0) return step_s;
    const auto transfers = std::count_if(loads, loads + layers_, [](double blocks) { return blocks > 0; });
    const double link_s = moved * cold_.seconds_per_block + instance.link_per_layer_s * static_cast<double>(transfers);
    return contended({step_s, step_s - cold_.before_s - rest_s_[0], link_s}, instance.on_link).step_s;
  }

  void guess(bool by_mix) {
    if (by_mix) {
      round_mix();
      improve();
      exchange();
    } else {
      greedy(true);
      improve();
    }
  }

  // ---- complete plans, without proof ------------------------------------------------------------------------------

  void start_from_hint(std::span<const LayerSet> hint) {
    if (hint.size() != problem_->instance().requests.size()) return;
    for (std::size_t i = 0; i < items(); ++i) {
      const auto found = std::find(candidates_.begin(), candidates_.end(), hint[problem_->items()[i].request]);
      if (found == candidates_.end()) return;
      choice_[i] = static_cast<int>(found - candidates_.begin());
    }
    whole_.assign(loads_.begin(), loads_.begin() + static_cast<std::ptrdiff_t>(layers_));
    double moved = moved_[0];
    for (std::size_t i = 0; i < items(); ++i) add(whole_.data(), i, choice_[i], 1, moved);
    offer_whole(moved);
    improve();
  }

  void add(double* loads, std::size_t item, int choice, double sign, double& moved) const {
    const double blocks = sign * problem_->items()[item].blocks;
    const double* row = mask(static_cast<std::size_t>(choice));
    for (std::size_t l = 0; l < layers_; ++l) loads[l] += blocks * row[l];
    moved += blocks * counts_[static_cast<std::size_t>(choice)];
  }

  void offer_whole(double moved) {
    const double time = cost(whole_.data(), moved, infinity);
    whole_cost_ = time;
    if (time < infinity) problem_->offer(choice_, candidates_, time);
  }

  /// Decides the requests from the largest. Each gets the candidate that is best if later requests follow the mix of
  /// the relaxation, which is re-solved on the way; or, with `evenly`, if they leave the same share of every layer.
  void greedy(bool evenly) {
    future_.assign(layers_, 0.0);
    if (evenly) {
      const double total = rest_blocks_[0] * movable_;
      const double count = std::max(movable_, 2.0);
      const double share = std::clamp(need_ / total * count / (count - 1), 0.0, 1.0);
      problem_->instance().movable().for_each([&](int layer) { future_[static_cast<std::size_t>(layer)] = share; });
    } else {
      follow_mix();
    }
    // A relaxation costs about as much as trying the candidates of `choices / 16` requests.
    const std::size_t stride = 1 + choices_ / 16;
    whole_.assign(loads_.begin(), loads_.begin() + static_cast<std::ptrdiff_t>(layers_));
    double moved = moved_[0];
    for (std::size_t i = 0; i < items(); ++i) {
      if (!evenly && i > 0 && i % stride == 0 && i + 2 < items() && !problem_->out_of_time()) {
        std::copy(whole_.begin(), whole_.end(), loads_.begin() + static_cast<std::ptrdiff_t>(i * layers_));
        relax(i);
        --mixes_used_;
        follow_mix();
      }
      trial_.resize(layers_);
      if (problem_->out_of_time()) { // offload everything of the others: that fits if anything does
        for (; i < items(); ++i) add(whole_.data(), i, choice_[i] = static_cast<int>(choices_) - 1, 1, moved);
        break;
      }
      const double rest = rest_blocks_[i + 1];
      double future_count = 0;
      for (const double part : future_) future_count += part;
      double best = infinity;
      int pick = static_cast<int>(choices_) - 1;
      double best_short = infinity;
      for (std::size_t k = 0; k < choices_; ++k) {
        const double blocks = problem_->items()[i].blocks;
        const double* row = mask(k);
        for (std::size_t l = 0; l < layers_; ++l) trial_[l] = whole_[l] + blocks * row[l] + rest * future_[l];
        const double all = moved + blocks * counts_[k] + rest * future_count;
        const double time = cost(trial_.data(), all, best);
        if (time < best) {
          best = time;
          pick = static_cast<int>(k);
        } else if (best == infinity) { // nothing fits yet: take the candidate that is closest to fitting
          const double lacking = *std::max_element(trial_.begin(), trial_.end()) - (all - need_);
          if (lacking < best_short) {
            best_short = lacking;
            pick = static_cast<int>(k);
          }
        }
      }
      choice_[i] = pick;
      add(whole_.data(), i, pick, 1, moved);
    }
    offer_whole(moved);
    if (whole_cost_ == infinity) repair(moved);
  }

  /// Gives each request, from the largest, the candidate that lacks the most blocks of its share of the mix. With many
  /// requests the sums match the relaxation up to the size of the smallest request.
  void round_mix() {
    future_.assign(choices_, 0.0); // blocks that each candidate still lacks
    for (std::size_t k = 0; k < choices_; ++k) future_[k] = mix_[k] * rest_blocks_[0];
    whole_.assign(loads_.begin(), loads_.begin() + static_cast<std::ptrdiff_t>(layers_));
    double moved = moved_[0];
    for (std::size_t i = 0; i < items(); ++i) {
      const auto pick = static_cast<std::size_t>(std::max_element(future_.begin(), future_.end()) - future_.begin());
      future_[pick] -= problem_->items()[i].blocks;
      add(whole_.data(), i, choice_[i] = static_cast<int>(pick), 1, moved);
    }
    offer_whole(moved);
    if (whole_cost_ == infinity) repair(moved);
  }

  /// Swaps the choices of two requests at a time as long as that helps.
  void exchange() {
    if (whole_cost_ == infinity) return;
    const double floor_s = paths_->compute_total_s() * (1 + same_cost);
    double moved = moved_[0];
    whole_.assign(loads_.begin(), loads_.begin() + static_cast<std::ptrdiff_t>(layers_));
    for (std::size_t i = 0; i < items(); ++i) add(whole_.data(), i, choice_[i], 1, moved);
    trial_.resize(layers_);
    for (bool better = true; better && whole_cost_ > floor_s;) {
      better = false;
      for (std::size_t i = 0; i < items(); ++i)
        for (std::size_t j = i + 1; j < items(); ++j) {
          if (choice_[i] == choice_[j] || problem_->items()[i].blocks == problem_->items()[j].blocks) continue;
          if (problem_->out_of_time()) return problem_->offer(choice_, candidates_, whole_cost_);
          const double blocks = problem_->items()[i].blocks - problem_->items()[j].blocks;
          const auto ki = static_cast<std::size_t>(choice_[i]);
          const auto kj = static_cast<std::size_t>(choice_[j]);
          const double all = moved + blocks * (counts_[kj] - counts_[ki]);
          if (all * cold_.seconds_per_block >= whole_cost_) continue;
          for (std::size_t l = 0; l < layers_; ++l) trial_[l] = whole_[l] + blocks * (mask(kj)[l] - mask(ki)[l]);
          const double time = cost(trial_.data(), all, whole_cost_);
          if (time >= whole_cost_ * (1 - same_cost)) continue;
          std::swap(choice_[i], choice_[j]);
          whole_.swap(trial_);
          moved = all;
          whole_cost_ = time;
          better = true;
        }
    }
    problem_->offer(choice_, candidates_, whole_cost_);
  }

  void follow_mix() {
    std::fill(future_.begin(), future_.end(), 0.0);
    for (std::size_t k = 0; k < choices_; ++k)
      if (mix_[k] > 0)
        for (std::size_t l = 0; l < layers_; ++l) future_[l] += mix_[k] * mask(k)[l];
  }

  /// Offloads more of the largest requests until the plan fits.
  void repair(double moved) {
    for (std::size_t i = items(); i-- > 0 && whole_cost_ == infinity;) {
      while (choice_[i] + 1 < static_cast<int>(choices_) && whole_cost_ == infinity) {
        add(whole_.data(), i, choice_[i], -1, moved);
        add(whole_.data(), i, ++choice_[i], 1, moved);
        offer_whole(moved);
      }
    }
  }

  /// Changes one request at a time as long as that helps.
  void improve() {
    if (whole_cost_ == infinity) return;
    double moved = moved_[0];
    whole_.assign(loads_.begin(), loads_.begin() + static_cast<std::ptrdiff_t>(layers_));
    for (std::size_t i = 0; i < items(); ++i) add(whole_.data(), i, choice_[i], 1, moved);
    trial_.resize(layers_);
    const double floor_s = paths_->compute_total_s() * (1 + same_cost);
    std::size_t unchanged = 0;
    for (std::size_t i = 0; unchanged < items(); i = i + 1 < items() ? i + 1 : 0) {
      if (problem_->out_of_time() || whole_cost_ <= floor_s) break;
      ++unchanged;
      add(whole_.data(), i, choice_[i], -1, moved);
      int pick = choice_[i];
      double best = whole_cost_;
      for (std::size_t k = 0; k < choices_; ++k) {
        if (static_cast<int>(k) == choice_[i]) continue;
        const double blocks = problem_->items()[i].blocks;
        const double all = moved + blocks * counts_[k];
        if (all * cold_.seconds_per_block >= best) continue;
        const double* row = mask(k);
        for (std::size_t l = 0; l < layers_; ++l) trial_[l] = whole_[l] + blocks * row[l];
        const double time = cost(trial_.data(), all, best);
        if (time < best * (1 - same_cost)) {
          best = time;
          pick = static_cast<int>(k);
        }
      }
      if (pick != choice_[i]) unchanged = 0;
      choice_[i] = pick;
      add(whole_.data(), i, pick, 1, moved);
      whole_cost_ = best;
    }
    problem_->offer(choice_, candidates_, whole_cost_);
  }

  // ---- the bound --------------------------------------------------------------------------------------------------

  int add_cut(const PathCut& cut) {
    const std::size_t row = cuts_.size();
    cut_slopes_.resize((row + 1) * choices_);
    double constant = cut.constant;
    for (std::size_t l = 0; l < layers_; ++l) constant += cut.slope[l] * loads_[l]; // streamed weights
    for (std::size_t k = 0; k < choices_; ++k) {
      double sum = 0;
      candidates_[k].for_each([&](int layer) { sum += cut.slope[static_cast<std::size_t>(layer)]; });
      cut_slopes_[row * choices_ + k] = sum;
    }
    cuts_.push_back(constant);
    return static_cast<int>(row);
  }

  /// Writes the row of a cut at this node: its value if all undecided requests choose candidate k.
  void row_of(std::size_t cut, std::size_t depth, std::vector<double>& row) const {
    const double* slope = &cut_slopes_[cut * choices_];
    double constant = cuts_[cut];
    for (std::size_t i = 0; i < depth; ++i) constant += problem_->items()[i].blocks * slope[choice_[i]];
    row.resize(choices_);
    for (std::size_t k = 0; k < choices_; ++k) row[k] = constant + rest_blocks_[depth] * slope[k];
  }

  /// Solves the relaxation of the node at `depth`: returns a bound on all its plans, leaves its mix of candidates in
  /// `mix_`, and pushes its mix of paths.
  double relax(std::size_t depth) {
    if (cuts_.empty()) add_cut(paths_->compute_path());
    const std::size_t known = cuts_.size();
    rows_.resize(std::max(rows_.size(), known));
    for (std::size_t i = 0; i < known; ++i) row_of(i, depth, rows_[i]);
    program_.begin(choices_, rows_[0]);
    mix_.resize(choices_);
    const double* decided = &loads_[depth * layers_];
    trial_.resize(layers_);
    PathCut cut;
    const int most = 12 * static_cast<int>(choices_) + 100;
    for (int guard = 0; guard < most; ++guard) {
      ++problem_->nodes;
      if (!program_.enter_surpluses()) break;
      if (program_.value() >= problem_->cutoff() || problem_->out_of_time()) break;
      // Known paths come first: each costs one dot product.
      double best = 1e-9;
      int entering = -1;
      for (std::size_t i = 0; i < cuts_.size(); ++i)
        if (const double gain = program_.gain(rows_[i]); gain > best) {
          best = gain;
          entering = static_cast<int>(i);
        }
      if (entering < 0) {
        program_.mix(mix_);
        std::copy(decided, decided + layers_, trial_.begin());
        for (std::size_t k = 0; k < choices_; ++k)
          if (mix_[k] > 0)
            for (std::size_t l = 0; l < layers_; ++l) trial_[l] += rest_blocks_[depth] * mix_[k] * mask(k)[l];
        paths_->longest(trial_, cut);
        entering = add_cut(cut);
        rows_.resize(std::max(rows_.size(), cuts_.size()));
        row_of(static_cast<std::size_t>(entering), depth, rows_[static_cast<std::size_t>(entering)]);
        if (program_.gain(rows_[static_cast<std::size_t>(entering)]) <= 1e-7) break;
      }
      if (!program_.enter(entering, rows_[static_cast<std::size_t>(entering)])) break;
    }
    program_.mix(mix_);
    return push_mix(depth);
  }

  double push_mix(std::size_t depth) {
    if (mixes_used_ == mixes_.size()) mixes_.emplace_back();
    MixedPath& mixed = mixes_[mixes_used_++];
    mixed.constant = 0;
    mixed.slope.assign(choices_, 0.0);
    program_.for_each_weight([&](int row, double weight) {
      const auto cut = static_cast<std::size_t>(row);
      mixed.constant += weight * cuts_[cut];
      const double* slope = &cut_slopes_[cut * choices_];
      for (std::size_t k = 0; k < choices_; ++k) mixed.slope[k] += weight * slope[k];
    });
    mixed.least = *std::min_element(mixed.slope.begin(), mixed.slope.end());
    mixed.at_node = mixed.constant;
    for (std::size_t i = 0; i < depth; ++i)
      mixed.at_node += problem_->items()[i].blocks * mixed.slope[static_cast<std::size_t>(choice_[i])];
    return mixed.at_node + rest_blocks_[depth] * mixed.least;
  }

  /// All blocks must have arrived before the last loaded layer, which is no earlier than the last one loaded so far.
  /// Until then the pool must hold each layer and return the room of the layers before.
  [[nodiscard]] double room_bound(const double* loads) const {
    std::size_t last = layers_ - 1;
    while (last > 0 && loads[last] <= 0) --last;
    const double inverse = cold_.seconds_per_block;
    const double* compute = cold_.compute_s.data();
    double lane[4] = {loads[last] * inverse, 0, 0, 0};
    std::size_t l = 0;
    for (; l + 4 <= last; l += 4)
      for (std::size_t j = 0; j < 4; ++j) lane[j] = std::max(lane[j], loads[l + j] * inverse + compute[l + j]);
    for (; l < last; ++l) lane[0] = std::max(lane[0], loads[l] * inverse + compute[l]);
    const double most = std::max(std::max(lane[0], lane[1]), std::max(lane[2], lane[3]));
    return need_ * cold_.seconds_per_block + most + rest_s_[layers_ - 1];
  }

  // ---- the tree ---------------------------------------------------------------------------------------------------

  /// Searches a node; returns a lower bound on each of its plans that was not examined.
  double descend(std::size_t depth, double bound) {
    if (problem_->out_of_time()) return bound;
    if (depth == items()) {
      const double time = cost(&loads_[depth * layers_], moved_[depth], infinity);
      if (time < infinity) problem_->offer(choice_, candidates_, time);
      return infinity;
    }
    if (depth + 1 == items()) return last_request(depth, bound);
    const SearchItem& item = problem_->items()[depth];
    const double rest = rest_blocks_[depth + 1];
    std::vector<Child>& children = children_[depth];
    children.clear();
    const std::size_t first = item.twin ? static_cast<std::size_t>(choice_[depth - 1]) : 0;
    const double least_count = (need_ - moved_[depth] - rest * (movable_ - 1)) / item.blocks - 1e-9;
    for (std::size_t k = first; k < choices_; ++k) {
      if (counts_[k] < least_count) continue; // the undecided requests cannot make up for it
      const double moved = moved_[depth] + item.blocks * counts_[k];
      if (moved > 0 && moved * cold_.seconds_per_block + rest_s_[layers_ - 1] >= problem_->cutoff()) break;
      double child = bound;
      for (std::size_t m = 0; m < mixes_used_; ++m)
        child = std::max(child, mixes_[m].at_node + item.blocks * mixes_[m].slope[k] + rest * mixes_[m].least);
      if (child < problem_->cutoff()) children.push_back({child, static_cast<int>(k)});
    }
    std::sort(children.begin(), children.end(), [](const Child& a, const Child& b) {
      return a.bound != b.bound ? a.bound < b.bound : a.choice < b.choice;
    });
    double open = infinity;
    const double* parent = &loads_[depth * layers_];
    double* loads = &loads_[(depth + 1) * layers_];
    for (std::size_t c = 0; c < children.size(); ++c) {
      const Child child = children[c];
      if (child.bound >= problem_->cutoff()) break; // no later child is better
      if (problem_->out_of_time()) return std::min(open, child.bound);
      ++problem_->nodes;
      const auto k = static_cast<std::size_t>(child.choice);
      for (std::size_t l = 0; l < layers_; ++l) loads[l] = parent[l] + item.blocks * mask(k)[l];
      moved_[depth + 1] = moved_[depth] + item.blocks * counts_[k];
      const double worst = largest(loads, layers_);
      const double reach = moved_[depth + 1] - worst + rest * (movable_ - 1);
      if (reach < need_ * (1 - 1e-9) - 1e-6) continue; // the child never fits
      double node_bound = std::max(child.bound, room_bound(loads));
      if (node_bound >= problem_->cutoff()) continue;
      choice_[depth] = child.choice;
      const std::size_t mixes = mixes_used_;
      for (std::size_t m = 0; m < mixes; ++m) mixes_[m].at_node += item.blocks * mixes_[m].slope[k];
      if (relaxes() && items() - depth - 1 >= relax_above_) node_bound = std::max(node_bound, relax(depth + 1));
      if (node_bound < problem_->cutoff()) open = std::min(open, descend(depth + 1, node_bound));
      mixes_used_ = mixes;
      for (std::size_t m = 0; m < mixes; ++m) mixes_[m].at_node -= item.blocks * mixes_[m].slope[k];
    }
    return open;
  }

  /// Tries the last request's candidates, each a complete plan.
  double last_request(std::size_t depth, double bound) {
    const SearchItem& item = problem_->items()[depth];
    const double* parent = &loads_[depth * layers_];
    double* loads = &loads_[(depth + 1) * layers_];
    const double inverse = cold_.seconds_per_block;
    const double tail = rest_s_[layers_ - 1];
    // Counts ascend: from the first that fits with the decided requests to the last that the link can bring in time.
    const double least_count = (largest(parent, layers_) * (1 - 1e-9) + need_ - moved_[depth]) / item.blocks - 1e-9;
    for (std::size_t k = item.twin ? static_cast<std::size_t>(choice_[depth - 1]) : 0; k < choices_; ++k) {
      if (counts_[k] < least_count) continue;
      const double moved = moved_[depth] + item.blocks * counts_[k];
      const double limit = problem_->cutoff();
      if (moved > 0 && moved * inverse + tail >= limit) break;
      if (problem_->out_of_time()) return bound;
      ++problem_->nodes;
      bool hopeless = false;
      for (std::size_t m = 0; m < mixes_used_ && !hopeless; ++m)
        hopeless = mixes_[m].at_node + item.blocks * mixes_[m].slope[k] >= limit;
      if (hopeless) continue;
      const double* row = mask(k);
      for (std::size_t l = 0; l < layers_; ++l) loads[l] = parent[l] + item.blocks * row[l];
      const double time = cost(loads, moved, limit);
      if (time >= limit) continue;
      choice_[depth] = static_cast<int>(k);
      problem_->offer(choice_, candidates_, time);
    }
    return infinity;
  }

  /// A path through the room of every heavy layer: X / rate, plus, for each layer before the last loaded one, its
  /// compute less what the remaining pool takes in meanwhile.
  [[nodiscard]] double chain_bound(const double* loads, double moved) const {
    const double inverse = cold_.seconds_per_block;
    const double room_s = (moved - need_) * inverse;
    const double* compute = cold_.compute_s.data();
    std::size_t last = layers_ - 1;
    while (last > 0 && loads[last] <= 0) --last;
    double lane[4] = {0, 0, 0, 0};
    std::size_t l = 0;
    for (; l + 4 <= last; l += 4)
      for (std::size_t j = 0; j < 4; ++j) lane[j] += std::max(0.0, compute[l + j] - room_s + loads[l + j] * inverse);
    for (; l < last; ++l) lane[0] += std::max(0.0, compute[l] - room_s + loads[l] * inverse);
    return moved * inverse + (lane[0] + lane[1]) + (lane[2] + lane[3]) + rest_s_[last];
  }

  SearchProblem<Rule>* problem_ = nullptr;
  std::span<const LayerSet> candidates_;
  std::size_t layers_ = 0;
  std::size_t choices_ = 0;
  double movable_ = 0;          ///< layers that may be offloaded
  std::size_t relax_above_ = 3; ///< undecided requests from which a node's own relaxation pays off (measured)
  bool exact_ = true;           ///< no link latency: the evaluator's short form is exact
  double need_ = 0;
  double slack_ = 0;
  DeadlinePool::Cold cold_;
  DeadlinePool::State state_;
  std::optional<PoolPaths> paths_;
  std::vector<double> masks_; ///< choices x layers, 0 or 1
  std::vector<int> counts_;   ///< layers of each candidate
  std::vector<double> rest_s_;
  std::vector<double> loads_; ///< (items + 1) x layers: the loads of the requests decided at each depth
  std::vector<double> moved_;
  std::vector<double> rest_blocks_;
  std::vector<int> choice_;
  std::vector<std::vector<Child>> children_;
  std::vector<double> whole_, trial_, future_;
  double whole_cost_ = 0;
  std::vector<double> cuts_;       ///< constants
  std::vector<double> cut_slopes_; ///< cuts x choices
  std::vector<std::vector<double>> rows_;
  std::vector<double> mix_;
  std::vector<MixedPath> mixes_;
  std::size_t mixes_used_ = 0;
  MixProgram program_;
};

} // namespace sluice::detail
