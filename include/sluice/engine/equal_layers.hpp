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

namespace detail {
template <class P>
inline constexpr const char* policy_needs_equal_layers = nullptr;
template <class P>
  requires requires { Contract<typename P::role>::template equal_layers<P>; }
inline constexpr const char* policy_needs_equal_layers<P> = Contract<typename P::role>::template equal_layers<P>;

/// The first of the sentences of these policies; null if there is none.
template <class... Ps>
consteval const char* first_need(Parts<Ps...>) {
  const char* first = nullptr;
  ((first = first != nullptr ? first : policy_needs_equal_layers<Ps>), ...);
  return first;
}
} // namespace detail

/// What a part of composition `C` does that a model whose layers keep different amounts of KV does not allow
/// (`Geometry::groups`): a sentence without its end, its policy's (`Contract`) or of several together. Null if the
/// engine serves the model: requests are on the device whole, or on the host whole, or dropped, or its placement moves
/// only layers of `movable` (`Geometry::movable`). `same_blocks`: of the layers (`KvBlocks::same_blocks`); a machine
/// has blocks of one size, and streams the weights of layers of one layout.
template <class C>
[[nodiscard]] const char* needs_equal_layers(const typename C::placement_type& placement, LayerSet movable, int layers,
                                             bool same_blocks = false) {
  using L = typename C::layout_type;
  if constexpr (is_real_time<typename C::backend_type>) {
    if (!same_blocks) return "its Backend stores blocks of one size";
    if (!std::is_same_v<typename C::weights_type, ResidentWeights>)
      return "its Weights policy streams layers, which its Backend does where they are alike";
  }
  if (const char* const need = detail::first_need(typename C::policies{}); need != nullptr) return need;
  if (L::layerwise && L::room(TokenBlocks{1}, 1, layers) != LayerBlocks{1}) return "its Layout groups layers";
  if (!C::placement_type::places_layers && placement.least(layers).all_resident()) return nullptr; // it moves no layer
  if (!L::layerwise) return "its Layout holds all layers of a block together";
  if (C::retention_type::copies_ahead) return "its Retention policy copies the blocks of all layers alike";
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
