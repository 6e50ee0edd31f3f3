// SPDX-License-Identifier: Apache-2.0
// The members of each space.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/state/plan/space.hpp"

#include <vector>

namespace sluice {

SLUICE_INLINE void DistanceSpace::candidates(LayerSet among, std::vector<LayerSet>& out) {
  const int layers = among.count();
  out.clear();
  out.push_back({});
  for (int distance = layers; distance >= 1;) {
    const int count = layers / distance;
    out.push_back(every_kth_layer(among, distance));
    distance = layers / (count + 1); // the largest distance of the next count that occurs
  }
}

SLUICE_INLINE void EvenSpace::candidates(LayerSet among, std::vector<LayerSet>& out) {
  out.clear();
  for (int count = 0; count <= among.count(); ++count) out.push_back(evenly_spaced_layers(among, count));
}

SLUICE_INLINE void FreeSpace::candidates(LayerSet among, std::vector<LayerSet>& out) {
  const int layers = among.count();
  out.clear();
  if (layers > most_listed_layers) return;
  for (int count = 0; count <= layers; ++count)
    for (unsigned bits = 0; bits < (1u << layers); ++bits) {
      LayerSet set;
      for (int layer = 0; layer < layers; ++layer)
        if ((bits >> layer & 1u) != 0) set.insert(layer);
      if (set.count() == count) out.push_back(layers_at(set, among));
    }
}

} // namespace sluice
