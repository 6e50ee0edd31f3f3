// SPDX-License-Identifier: Apache-2.0
// PartialRecomputation: all KV is on the host; each iteration rebuilds some layers while it fetches the others (KVPR).
#pragma once

#include "sluice/policy/placement/plan_trial.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace sluice {

/// KVPR's split (Jiang et al., "KVPR: Efficient LLM Inference with I/O-Aware KV Cache Partial Recomputation", arXiv
/// 2411.17089). All KV is on the host. An iteration fetches a part of it as activations, the inputs of the layers,
/// which are half as large as K and V without grouped queries, and rebuilds K and V from them while the rest is
/// fetched. The split is the one with the shortest step by the planner's cost model: computation and link end together.
///
/// The paper splits the tokens of each layer, and rebuilds the oldest. A `Holding` has one place for the old tokens of
/// a layer, so this policy splits the layers, and spaces the rebuilt ones evenly: under a transfer rule that fetches
/// ahead, neighbouring layers overlap, and the sums of both splits are the same. A request keeps its split, since the
/// host has only one form of a layer; those that join get the split that is best beside the others'. The newest block
/// of each request stays on the device, where its tokens are appended. The inputs of layer 0 are embeddings, which need
/// no storage.
struct PartialRecomputation {
  using role = roles::Placement;
  static constexpr bool places_layers = true;
  static constexpr bool rebuilds = true;
  template <class Transfer>
  struct State {
    PlanTrial<Transfer> trial;
  };

  [[nodiscard]] constexpr Holding least(int layers) const { return {all_tokens, LayerSet::all(layers)}; }

  template <class Task, class S>
  Verdict solve(const Task& task, S& state, Plan& plan) const {
    plan.covers_unseen = false;
    plan.effort = 0; // a closed formula of the batch's sums
    return join_longest_prefix(task, plan, [&](std::size_t count) {
      return split(task, state, count, plan) || (count == 1 && fetch_all(task, state, plan));
    });
  }

  /// How long a step computes, and how long its transfers take.
  struct Times {
    double compute_s = 0, link_s = 0;
    [[nodiscard]] double step_s() const { return std::max(compute_s, link_s); }
  };
  /// The times of a steady decode of the first `count` claims, by how many layers the joining ones rebuild.
  template <class Task>
  struct Balance {
    Balance(const Task& task, std::size_t count) : layers(task.layers()) {
      double all = 0; // blocks, as are the sums below
      for (const Claim& claim : task.claims.first(count)) {
        const auto old = static_cast<double>(old_blocks(task, claim));
        all += old;
        if (!has_split(task, claim)) {
          joining += old;
          continue;
        }
        const Holding& holding = task.view.row(claim.slot).holding;
        keeps = true;
        rebuilt += old * holding.nowhere.count();
        states += old * holding.hidden.count();
        fetched += old * holding.host.count();
      }
      Work work = task.steady_decode(count);
      const StepTime plain = task.cost.step(work);
      plain_s = plain.total(layers).count();
      work.rebuilt.projected = task.view.limits.block_tokens * static_cast<std::int64_t>(all);
      if (all > 0) projected_s = (task.cost.step(work).layer - plain.layer).count() / all;
      const BlockLink link = task.block_link();
      kv_s = 1 / link.blocks_per_s;
      states_s = task.view.geometry.hidden_size().blocks(1) / link.blocks_per_s;
      per_layer_s = link.per_layer_s;
    }
    [[nodiscard]] Times times(int more) const {
      const int transfers = layers - (more > 0 && !keeps ? 1 : 0);
      return {plain_s + projected_s * (rebuilt + more * joining),
              states_s * (states + std::max(0, more - 1) * joining) + kv_s * (fetched + (layers - more) * joining) +
                  transfers * per_layer_s};
    }
    /// The fewest layers of those with the shortest step.
    [[nodiscard]] int best() const {
      int least = 0;
      for (int more = 1; more <= layers; ++more)
        if (times(more).step_s() < times(least).step_s()) least = more;
      return least;
    }

    int layers;
    double plain_s = 0, projected_s = 0, kv_s = 0, states_s = 0, per_layer_s = 0; ///< the middle ones: of a block
    double joining = 0;                                                           ///< of requests without a split
    double rebuilt = 0, states = 0, fetched = 0;                                  ///< of the others, in all layers
    bool keeps = false;                                                           ///< there are others
  };

 private:
  template <class Task>
  static std::int64_t old_blocks(const Task& task, const Claim& claim) {
    return std::max<std::int64_t>(0, task.blocks(claim).count() - 1);
  }
  /// Whether KV of the request is off the device: then its layers stay where they are.
  template <class Task>
  static bool has_split(const Task& task, const Claim& claim) {
    return !task.view.row(claim.slot).holding.all_resident();
  }
  /// Layer 0 is among the rebuilt layers, if any: its inputs cost nothing.
  static LayerSet rebuilt_of(int layers, int count) {
    LayerSet set;
    for (int i = 0; i < count; ++i) set.insert(i * layers / count);
    return set;
  }

  /// Makes the plan for the first `count` claims. False, with what binds, if they do not fit.
  template <class Task, class S>
  static bool split(const Task& task, S& state, std::size_t count, Plan& plan) {
    plan.requests.clear();
    plan.in_flight = LayerBlocks{0};
    plan.binding = Binding::none;
    if (count == 0) return true;
    const Balance<Task> balance(task, count);
    const int more = balance.best();
    const LayerSet rebuilt = rebuilt_of(task.layers(), more);
    LayerSet first;
    first.insert(0);
    std::int64_t heads = 0;
    for (const Claim& claim : task.claims.first(count)) {
      const std::int64_t old = old_blocks(task, claim);
      Holding holding;
      if (has_split(task, claim)) {
        const Holding& now = task.view.row(claim.slot).holding;
        holding = {{}, now.host, now.nowhere, now.hidden};
      } else if (old > 0) {
        holding = {{}, LayerSet::all(task.layers()) - rebuilt, rebuilt, rebuilt - first};
      }
      holding.head = task.view.limits.block_tokens * old;
      holding.next_states = !holding.hidden.empty();
      if (holding.all_resident()) holding = {};
      if (!holding.nowhere.empty()) heads += old;
      plan.requests.push_back({claim.slot, holding});
    }
    if (!state.trial.fits(task, plan)) return false;
    // The K and V of a rebuilt layer take room until it has computed, as those of the next do.
    if (heads > 0 && !state.trial.fits(task, plan, plan.in_flight + LayerBlocks{2 * heads})) return false;
    const Times times = balance.times(more);
    plan.predicted_step = Seconds{times.step_s()};
    plan.binding = times.link_s > times.compute_s ? Binding::link : Binding::layout;
    return true;
  }
  /// Without room even for the newest block of a single request, all of it is on the host.
  template <class Task, class S>
  bool fetch_all(const Task& task, S& state, Plan& plan) const {
    plan.requests.assign(1, {task.claims.front().slot, least(task.layers())});
    if (!state.trial.fits(task, plan)) return false;
    const BlockLink link = task.block_link();
    const auto blocks = static_cast<double>(task.blocks(task.claims.front()).count());
    const Times times{task.cost.step(task.steady_decode(1)).total(task.layers()).count(),
                      task.layers() * (blocks / link.blocks_per_s + link.per_layer_s)};
    plan.predicted_step = Seconds{times.step_s()};
    plan.binding = times.link_s > times.compute_s ? Binding::link : Binding::layout;
    return true;
  }
};

static_assert(Placement<PartialRecomputation>);

} // namespace sluice
