// SPDX-License-Identifier: Apache-2.0
// needs_equal_layers: which part of a composition serves only models whose layers are alike.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/engine/compose.hpp"
#include "sluice/model/kv_groups.hpp"
#include "sluice/policy/placement/placement.hpp"
#include "sluice/policy/weights/resident_weights.hpp"

#include <string>
#include <type_traits>

namespace sluice {

/// `P`, an Admission or a Placement, counts in token blocks that have one size, and nothing else that it declares says
/// so.
template <class P>
concept CountsEqualBlocks = requires {
  requires bool(P::equal_blocks);
};

/// What a part of composition `C` does that a model whose layers keep different amounts of KV does not allow
/// (`Geometry::groups`): a sentence without its end. Null if requests are on the device whole, or on the host whole, or
/// dropped: such an engine serves any model.
template <class C>
[[nodiscard]] const char* needs_equal_layers(const typename C::placement_type& placement, int layers) {
  using Placed = typename C::placement_type;
  using Retained = typename C::retention_type;
  using L = typename C::layout_type;
  if constexpr (is_real_time<typename C::backend_type>) return "its Backend stores blocks of one size";
  if constexpr (!std::is_same_v<typename C::weights_type, ResidentWeights>)
    return "its Weights policy streams layers of one size";
  if constexpr (Caches<typename C::caching_type>) return "its Caching policy stores token blocks of all layers";
  if constexpr (Retained::finds_released) return "its Retention policy finds the token blocks of ended requests";
  if constexpr (Retained::keeps_hidden) return "its Retention policy keeps hidden states of single layers";
  if constexpr (Placed::places_layers) return "its Placement policy cuts layers";
  if constexpr (Rebuilds<Placed> || KeepsStates<Placed>) return "its Placement policy rebuilds layers";
  if constexpr (CountsEqualBlocks<Placed>) return "its Placement policy counts blocks of one size";
  if constexpr (CountsEqualBlocks<typename C::admission_type>) return "its Admission policy counts blocks of one size";
  if constexpr (CountsEqualBlocks<typename C::relief_type>) return "its Relief policy counts blocks of one size";
  if constexpr (L::layerwise)
    if (L::room(TokenBlocks{1}, 1, layers) != LayerBlocks{1}) return "its Layout groups layers";
  return placement.least(layers).all_resident() ? nullptr : "its Placement policy streams layers from the host";
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
