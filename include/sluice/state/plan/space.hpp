// SPDX-License-Identifier: Apache-2.0
// Spaces: which sets of layers a request may offload.
#pragma once

#include "sluice/core/layer_set.hpp"

#include <concepts>
#include <cstdint>
#include <string_view>
#include <vector>

namespace sluice {

/// A family of layer sets, the same for every request. `candidates(among, out)` replaces `out` by the members whose
/// layers are all in `among`, the empty set first, then by ascending count. It has a `name`, and `listed` is false if
/// only small models have few enough members to list.
template <class S>
concept PlacementSpace = requires(LayerSet among, std::vector<LayerSet>& out) {
  { S::name } -> std::convertible_to<std::string_view>;
  { S::listed } -> std::convertible_to<bool>;
  S::candidates(among, out);
};

/// The layers of `among` at the `places`, counted among them from 0: spaces choose places, models say which layers may
/// move. Distances over all layers of a model with windows or states would choose mostly layers that free little, so
/// that more layers could free less (Qwen3.5-35B at 32k: distance 20 frees 134 MB, 13 frees 6 MB).
constexpr LayerSet layers_at(LayerSet places, LayerSet among) {
  if (among == LayerSet::all(among.count())) return places;
  LayerSet layers;
  int place = 0;
  among.for_each([&](int layer) {
    if (places.contains(place++)) layers.insert(layer);
  });
  return layers;
}

/// Layers k, 2k, 3k, … counted from 1.
constexpr LayerSet every_kth_layer(int layers, int distance) {
  LayerSet set;
  for (int layer = distance; layer <= layers; layer += distance) set.insert(layer - 1);
  return set;
}

/// `count` layers, spaced as evenly as possible: floor(i * layers / count) for i = 1..count, counted from 1.
constexpr LayerSet evenly_spaced_layers(int layers, int count) {
  LayerSet set;
  for (int i = 1; i <= count; ++i) set.insert(i * layers / count - 1);
  return set;
}

/// `count` of `layers` layers, nearly evenly spaced; the smaller set is always a subset of the larger one, so that one
/// more layer moves only that layer. The last layer comes first, then by halves (van der Corput's sequence); for powers
/// of two the sets equal `evenly_spaced_layers`. Evenly spaced layers would move nearly all of the batch's KV whenever
/// the count changes.
constexpr LayerSet nested_layers(int layers, int count) {
  LayerSet set;
  for (std::uint32_t i = 0; set.count() < count; ++i) {
    std::uint64_t halves = 0; // of 2^32: the bits of i reversed
    for (std::uint32_t bit = 0; bit < 32; ++bit) halves |= std::uint64_t{i >> bit & 1u} << (31 - bit);
    set.insert(layers - 1 - static_cast<int>(halves * static_cast<std::uint64_t>(layers) >> 32));
  }
  return set;
}

/// The same sets of the layers in `among`.
constexpr LayerSet every_kth_layer(LayerSet among, int distance) {
  return layers_at(every_kth_layer(among.count(), distance), among);
}
constexpr LayerSet evenly_spaced_layers(LayerSet among, int count) {
  return layers_at(evenly_spaced_layers(among.count(), count), among);
}
constexpr LayerSet nested_layers(LayerSet among, int count) {
  return layers_at(nested_layers(among.count(), count), among);
}

/// OrbitFlow's space (3.3.2): every k-th layer. D(L) = {floor(L/k) : k = 2..L} are the possible counts; each is
/// represented by the *largest* distance that gives it, which starts latest and spreads widest. The empty set and the
/// full set belong to it too: |D(L)| + 2 members, at most 2 floor(sqrt(L)) + 1.
struct DistanceSpace {
  static constexpr std::string_view name = "distance";
  static constexpr bool listed = true;

  static void candidates(LayerSet among, std::vector<LayerSet>& out);
};

/// Any count 0..L, evenly spaced: L + 1 members.
struct EvenSpace {
  static constexpr std::string_view name = "even";
  static constexpr bool listed = true;

  static void candidates(LayerSet among, std::vector<LayerSet>& out);
};

/// Any subset: 2^L members (OrbitFlow's Fig. 15). Lists them up to `most_listed_layers` layers; for more layers
/// planners search without a list.
struct FreeSpace {
  static constexpr std::string_view name = "free";
  static constexpr bool listed = false;
  static constexpr int most_listed_layers = 10; ///< of those that may move

  static void candidates(LayerSet among, std::vector<LayerSet>& out);
};

/// Returns a member of the space with the most layers of all that have at most `most`. Allocates nothing: each
/// submission asks.
template <PlacementSpace Space>
[[nodiscard]] constexpr LayerSet largest_member(int layers, int most) {
  if constexpr (std::same_as<Space, DistanceSpace>) {
    const int count = layers / (layers / (most + 1) + 1); // of the least distance that has no more
    return count == 0 ? LayerSet{} : every_kth_layer(layers, layers / count);
  } else {
    return evenly_spaced_layers(layers, most); // of EvenSpace and FreeSpace
  }
}

/// A space as a table, for code that is compiled once for all spaces.
struct CandidateSpace {
  std::string_view name;
  bool listed;
  void (*candidates)(LayerSet among, std::vector<LayerSet>& out);
};
template <PlacementSpace Space>
inline constexpr CandidateSpace candidate_space_of{
    Space::name, Space::listed, [](LayerSet among, std::vector<LayerSet>& out) { Space::candidates(among, out); }};

static_assert(PlacementSpace<DistanceSpace> && PlacementSpace<EvenSpace> && PlacementSpace<FreeSpace>);

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/state/plan/space.inl.hpp"
#endif
