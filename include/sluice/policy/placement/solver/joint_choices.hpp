// SPDX-License-Identifier: Apache-2.0
// JointChoices: the requests of a joint search, their candidates, and what each choice adds to a plan's sums.
#pragma once

#include "sluice/policy/cost/rebuild.hpp"
#include "sluice/policy/placement/solver/joint_instance.hpp"
#include "sluice/policy/placement/solver/joint_paths.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace sluice::detail {

/// Requests with the same states have the same candidates: requests of one class.
class JointChoices {
 public:
  struct Item {
    double blocks = 0;
    std::size_t request = 0; ///< position in the instance
    std::size_t of = 0;      ///< class
    RebuildCost cost;
    bool twin = false; ///< equal to the item before it: only one order of their choices need be tried
  };
  /// What a choice of one item adds, apart from layers.
  struct Amount {
    double used = 0;
    double own = 0;
    double moved = 0;
  };

  /// `space(among, cost, out)` lists candidates like `JointSpace::candidates`.
  template <class Space>
  void begin(const JointInstance& joint, Space&& space) {
    const Instance& base = joint.base;
    layers_ = base.layer_compute_s.size();
    items_.clear();
    classes_used_ = 0;
    for (std::size_t r = 0; r < base.requests.size(); ++r) {
      const double blocks = base.blocks_at(r, 0);
      if (blocks <= 0) continue;
      Item item{blocks, r, 0, joint.rebuilds.empty() ? RebuildCost{} : joint.rebuilds[r], false};
      item.cost.states.erase(0);
      items_.push_back(item);
    }
    const auto same = [](const Item& a, const Item& b) {
      return a.blocks == b.blocks && a.cost.states == b.cost.states && a.cost.state_blocks == b.cost.state_blocks &&
             a.cost.project_s == b.cost.project_s && a.cost.pass_s == b.cost.pass_s;
    };
    std::sort(items_.begin(), items_.end(), [&](const Item& a, const Item& b) {
      if (a.blocks != b.blocks) return a.blocks > b.blocks;
      if (a.cost.states != b.cost.states) return a.cost.states < b.cost.states;
      if (a.cost.pass_s != b.cost.pass_s) return a.cost.pass_s < b.cost.pass_s;
      if (a.cost.project_s != b.cost.project_s) return a.cost.project_s < b.cost.project_s;
      if (a.cost.state_blocks != b.cost.state_blocks) return a.cost.state_blocks < b.cost.state_blocks;
      return a.request < b.request;
    });
    const bool rebuilds = !joint.rebuilds.empty();
    const LayerSet among = base.movable();
    for (std::size_t i = 0; i < items_.size(); ++i) {
      items_[i].twin = i > 0 && same(items_[i], items_[i - 1]);
      items_[i].of = class_of(items_[i].cost, rebuilds, among, space);
    }
    if (items_.empty()) return;
    choices_ = classes_[0].ways.size();
    amounts_.resize(items_.size() * choices_);
    const double movable = among.count();
    for (std::size_t i = 0; i < items_.size(); ++i)
      for (std::size_t k = 0; k < choices_; ++k) {
        const Item& item = items_[i];
        const KvWays& way = ways(i, k);
        const int states = classes_[item.of].parts[part(i, k)].states.count();
        const double held = way.rebuilt.empty() ? 0 : joint.held_rebuilt;
        amounts_[i * choices_ + k] = {item.blocks * (movable - way.fetched.count() - way.rebuilt.count() + held),
                                      (way.fetched.empty() ? 0 : item.blocks) +
                                          (states == 0 ? 0 : item.cost.state_blocks),
                                      item.blocks * way.fetched.count() + item.cost.state_blocks * states};
      }
  }

  [[nodiscard]] std::span<const Item> items() const { return items_; }
  [[nodiscard]] std::size_t choices() const { return choices_; }
  [[nodiscard]] const KvWays& ways(std::size_t item, std::size_t choice) const {
    return classes_[items_[item].of].ways[choice];
  }
  [[nodiscard]] const Amount& amount(std::size_t item, std::size_t choice) const {
    return amounts_[item * choices_ + choice];
  }

  /// Adds `share` of a choice to `sums`.
  void add(std::size_t i, std::size_t k, double share, JointSums& sums) const {
    const Item& item = items_[i];
    const Class& of = classes_[item.of];
    const Amount& own = amount(i, k);
    sums.used += share * own.used;
    sums.own += share * own.own;
    const double* fetched = &of.fetched[k * layers_];
    const double blocks = share * item.blocks;
    for (std::size_t l = 0; l < layers_; ++l) sums.load[l] += blocks * fetched[l];
    const Part& part = of.parts[of.part[k]];
    if (part.rebuilt.empty()) return;
    const double* masks = &of.masks[of.part[k] * 3 * layers_];
    const double states = share * item.cost.state_blocks;
    const double project_s = share * item.cost.project_s;
    const double pass_s = share * item.cost.pass_s;
    for (std::size_t l = 0; l < layers_; ++l) {
      sums.load[l] += states * masks[l];
      sums.compute_s[l] += project_s * masks[layers_ + l] + pass_s * masks[2 * layers_ + l];
    }
  }

  /// Writes a cut's slope of each item's choices, items x choices.
  void slopes(const JointCut& cut, double* out) {
    for (std::size_t c = 0; c < classes_used_; ++c) {
      Class& of = classes_[c];
      for (std::size_t k = 0; k < choices_; ++k) of.sum[k] = sum(of.ways[k].fetched, cut.load);
      for (Part& part : of.parts) {
        part.states_sum = sum(part.states, cut.load);
        part.rebuilt_sum = sum(part.rebuilt, cut.compute);
        part.passed_sum = sum(part.passed, cut.compute);
      }
    }
    for (std::size_t i = 0; i < items_.size(); ++i) {
      const Item& item = items_[i];
      const Class& of = classes_[item.of];
      rebuilds_.clear();
      for (const Part& part : of.parts)
        rebuilds_.push_back(item.cost.state_blocks * part.states_sum + item.cost.project_s * part.rebuilt_sum +
                            item.cost.pass_s * part.passed_sum);
      const Amount* amounts = &amounts_[i * choices_];
      for (std::size_t k = 0; k < choices_; ++k)
        out[i * choices_ + k] =
            item.blocks * of.sum[k] + rebuilds_[of.part[k]] + cut.used * amounts[k].used + cut.own * amounts[k].own;
    }
  }

 private:
  /// Candidates that rebuild the same layers.
  struct Part {
    LayerSet rebuilt, states, passed;
    double states_sum = 0, rebuilt_sum = 0, passed_sum = 0;
  };
  struct Class {
    LayerSet states;
    std::vector<KvWays> ways;
    std::vector<std::size_t> part; ///< of each candidate
    std::vector<Part> parts;
    std::vector<double> fetched; ///< choices x layers, 0 or 1
    std::vector<double> masks;   ///< parts x {states, rebuilt, passed} x layers, 0 or 1
    std::vector<double> sum;
  };

  [[nodiscard]] std::size_t part(std::size_t item, std::size_t choice) const {
    return classes_[items_[item].of].part[choice];
  }
  static double sum(LayerSet set, const LayerArray& values) {
    double total = 0;
    set.for_each([&](int layer) { total += values[static_cast<std::size_t>(layer)]; });
    return total;
  }

  template <class Space>
  std::size_t class_of(const RebuildCost& cost, bool rebuilds, LayerSet among, Space&& space) {
    for (std::size_t c = 0; c < classes_used_; ++c)
      if (classes_[c].states == cost.states) return c;
    if (classes_used_ == classes_.size()) classes_.emplace_back();
    Class& made = classes_[classes_used_];
    if (made.states != cost.states || among != among_ || rebuilds != rebuilds_listed_ || made.ways.empty() ||
        made.fetched.size() != made.ways.size() * layers_) {
      if (classes_used_ == 0) {
        for (Class& other : classes_) other.ways.clear();
        among_ = among;
        rebuilds_listed_ = rebuilds;
      }
      made.states = cost.states;
      space(among, rebuilds ? &cost : nullptr, made.ways);
      tabulate(made);
    }
    return classes_used_++;
  }
  void tabulate(Class& of) const {
    of.part.clear();
    of.parts.clear();
    of.masks.clear();
    of.fetched.assign(of.ways.size() * layers_, 0.0);
    of.sum.resize(of.ways.size());
    for (std::size_t k = 0; k < of.ways.size(); ++k) {
      const KvWays& way = of.ways[k];
      way.fetched.for_each([&](int layer) { of.fetched[k * layers_ + static_cast<std::size_t>(layer)] = 1; });
      std::size_t p = 0;
      while (p < of.parts.size() && of.parts[p].rebuilt != way.rebuilt) ++p;
      of.part.push_back(p);
      if (p < of.parts.size()) continue;
      const LayerSet states = way.rebuilt & of.states;
      const LayerSet passed = passed_layers(way.rebuilt, states);
      of.parts.push_back({way.rebuilt, states, passed});
      of.masks.resize((p + 1) * 3 * layers_, 0.0);
      std::size_t row = p * 3;
      for (const LayerSet set : {states, way.rebuilt, passed}) {
        set.for_each([&](int layer) { of.masks[row * layers_ + static_cast<std::size_t>(layer)] = 1; });
        ++row;
      }
    }
  }

  std::size_t layers_ = 0;
  std::size_t choices_ = 0;
  LayerSet among_;
  bool rebuilds_listed_ = false;
  std::vector<Item> items_;
  std::vector<Class> classes_;
  std::size_t classes_used_ = 0;
  std::vector<Amount> amounts_; ///< items x choices
  std::vector<double> rebuilds_;
};

} // namespace sluice::detail
