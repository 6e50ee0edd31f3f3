// SPDX-License-Identifier: Apache-2.0
// needs_equal_layers: which part of a composition serves only models whose layers are alike.
#pragma once

#include "sluice/core/layer_set.hpp"
#include "sluice/core/units.hpp"
#include "sluice/engine/compose.hpp"
#include "sluice/model/kv_groups.hpp"
#include "sluice/policy/placement/placement.hpp"
#include "sluice/policy/weights/resident_weights.hpp"

#include <string>
#include <type_traits>

namespace sluice {

/// `P`, an Admission or a Relief, counts in token blocks that have one size, and nothing else that it declares says
/// so.
template <class P>
concept CountsEqualBlocks = requires {
  requires bool(P::equal_blocks);
};

/// What a part of composition `C` does that a model whose layers keep different amounts of KV does not allow
/// (`Geometry::groups`): a sentence without its end. Null if the engine serves the model: requests are on the device
/// whole, or on the host whole, or dropped, or its placement moves only layers of `movable` (`Geometry::movable`).
/// `same_blocks`: of the layers (`KvBlocks::same_blocks`); a machine has blocks of one size.
template <class C>
[[nodiscard]] const char* needs_equal_layers(const typename C::placement_type& placement, LayerSet movable, int layers,
                                             bool same_blocks = false) {
  using Placed = typename C::placement_type;
  using Retained = typename C::retention_type;
  using L = typename C::layout_type;
  if constexpr (is_real_time<typename C::backend_type>)
    if (!same_blocks) return "its Backend stores blocks of one size";
  if constexpr (!std::is_same_v<typename C::weights_type, ResidentWeights>)
    return "its Weights policy streams layers of one size";
  if constexpr (Caches<typename C::caching_type>) return "its Caching policy stores token blocks of all layers";
  if constexpr (JudgesEnded<Retained>) return "its Retention policy parts with token blocks of all layers";
  if constexpr (Retained::keeps_hidden) return "its Retention policy keeps hidden states of single layers";
  if constexpr (Rebuilds<Placed> || KeepsStates<Placed>) return "its Placement policy rebuilds layers";
  if constexpr (!PlacesUnequalLayers<Placed>) return "its Placement policy counts layers of one size";
  if constexpr (CountsEqualBlocks<typename C::admission_type>) return "its Admission policy counts blocks of one size";
  if constexpr (CountsEqualBlocks<typename C::relief_type>) return "its Relief policy counts blocks of one size";
  if constexpr (L::layerwise)
    if (L::room(TokenBlocks{1}, 1, layers) != LayerBlocks{1}) return "its Layout groups layers";
  const bool moves_layers = Placed::places_layers || !placement.least(layers).all_resident();
  if (!moves_layers) return nullptr;
  if constexpr (!L::layerwise) return "its Layout holds all layers of a block together";
  if constexpr (Retained::copies_ahead) return "its Retention policy copies the blocks of all layers alike";
  return movable.empty() ? "its Placement policy moves single layers, and none here keeps only what grows" : nullptr;
}

/// What layers keep of a request, for an error's line: "25 of 30 layers keep at most 65 blocks, 5 all".
[[nodiscard]] std::string in_words(const KvBlocks& kv, int layers);

namespace detail {
/// The refusal of a composition.
[[nodiscard]] Error unequal_layers(const char* why, const KvBlocks& kv, int layers);
} // namespace detail

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/engine/equal_layers.inl.hpp"
#endif
