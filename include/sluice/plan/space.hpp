// SPDX-License-Identifier: Apache-2.0
// Spaces: which sets of layers a request may offload.
#pragma once

#include "sluice/core/layer_set.hpp"

#include <concepts>
#include <string_view>
#include <vector>

namespace sluice {

/// A family of layer sets, the same for every request. `candidates(layers, out)` replaces `out` by the members, the
/// empty set first and then by ascending count; it has `name`, and `listed` is false where the members are too many to
/// list for all but small models.
template <class S>
concept PlacementSpace = requires(int layers, std::vector<LayerSet>& out) {
  { S::name } -> std::convertible_to<std::string_view>;
  { S::listed } -> std::convertible_to<bool>;
  S::candidates(layers, out);
};

/// Layers k, 2k, 3k, … counted from 1.
constexpr LayerSet every_kth_layer(int layers, int distance) {
  LayerSet set;
  for (int layer = distance; layer <= layers; layer += distance) set.insert(layer - 1);
  return set;
}

/// `count` layers as even as can be: floor(i * layers / count) for i = 1..count, counted from 1.
constexpr LayerSet evenly_spaced_layers(int layers, int count) {
  LayerSet set;
  for (int i = 1; i <= count; ++i) set.insert(i * layers / count - 1);
  return set;
}

/// OrbitFlow's space (3.3.2): every k-th layer. D(L) = {floor(L/k) : k = 2..L} are the counts that a distance can give;
/// each is represented by the *largest* distance that gives it, which starts latest and spreads widest. Nothing
/// offloaded and everything offloaded belong to it too: |D(L)| + 2 members, at most 2 floor(sqrt(L)) + 1.
struct DistanceSpace {
  static constexpr std::string_view name = "distance";
  static constexpr bool listed = true;

  static void candidates(int layers, std::vector<LayerSet>& out) {
    out.clear();
    out.push_back({});
    for (int distance = layers; distance >= 1;) {
      const int count = layers / distance;
      out.push_back(every_kth_layer(layers, distance));
      distance = layers / (count + 1); // the largest distance of the next count that occurs
    }
  }
};

/// Any count 0..L, evenly spaced: L + 1 members.
struct EvenSpace {
  static constexpr std::string_view name = "even";
  static constexpr bool listed = true;

  static void candidates(int layers, std::vector<LayerSet>& out) {
    out.clear();
    for (int count = 0; count <= layers; ++count) out.push_back(evenly_spaced_layers(layers, count));
  }
};

/// Any subset: 2^L members (OrbitFlow's Fig. 15). Lists them up to `most_listed_layers` layers; above, planners search
/// it without a list.
struct FreeSpace {
  static constexpr std::string_view name = "free";
  static constexpr bool listed = false;
  static constexpr int most_listed_layers = 10;

  static void candidates(int layers, std::vector<LayerSet>& out) {
    out.clear();
    if (layers > most_listed_layers) return;
    for (int count = 0; count <= layers; ++count)
      for (unsigned bits = 0; bits < (1u << layers); ++bits) {
        LayerSet set;
        for (int layer = 0; layer < layers; ++layer)
          if ((bits >> layer & 1u) != 0) set.insert(layer);
        if (set.count() == count) out.push_back(set);
      }
  }
};

static_assert(PlacementSpace<DistanceSpace> && PlacementSpace<EvenSpace> && PlacementSpace<FreeSpace>);

} // namespace sluice
