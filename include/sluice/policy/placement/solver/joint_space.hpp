// SPDX-License-Identifier: Apache-2.0
// JointSpace: which layers a request may fetch and rebuild at once: the pruned space of joint plans.
#pragma once

#include "sluice/core/layer_set.hpp"
#include "sluice/policy/placement/solver/joint_instance.hpp"
#include "sluice/state/plan/space.hpp"

#include <vector>

namespace sluice {

/// `count` layers of `among` to rebuild. First come layers that only project, which are those with states and layer 0,
/// then the others, in both cases the lowest first. If every layer may be rebuilt and tokens take time to pass layers,
/// no other set of so many layers computes less, and none that computes as little moves fewer blocks of states:
/// docs/planner.md has the proof, and why low layers go first.
inline LayerSet rebuilt_layers(LayerSet among, const RebuildCost& cost, int count) {
  LayerSet projects = cost.states;
  projects.insert(0);
  LayerSet rebuilt;
  for (const LayerSet part : {among & projects, among - projects})
    part.for_each([&](int layer) {
      if (rebuilt.count() < count) rebuilt.insert(layer);
    });
  return rebuilt;
}

/// The pruned space: rebuild 0, or all, half, a quarter, ... of the layers, and fetch one of the distance space's sets
/// of the others. 63 members of 32 layers.
struct JointSpace {
  /// Replaces `out` by the members for a request that rebuilds at `cost`; null: it rebuilds nothing. `DistanceSpace`'s
  /// members come first. Whatever the cost, the members at one place rebuild and fetch equally many layers.
  static void candidates(LayerSet among, const RebuildCost* cost, std::vector<KvWays>& out) {
    out.clear();
    std::vector<LayerSet> fetched;
    const auto add = [&](LayerSet rebuilt) {
      fetched.clear();
      if (rebuilt == among)
        fetched.push_back({});
      else
        DistanceSpace::candidates(among - rebuilt, fetched);
      for (const LayerSet set : fetched) out.push_back({set, rebuilt});
    };
    add({});
    if (cost == nullptr) return;
    for (int count = among.count(); count > 0; count /= 2) add(rebuilt_layers(among, *cost, count));
  }
};

} // namespace sluice
