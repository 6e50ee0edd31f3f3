// SPDX-License-Identifier: Apache-2.0
// Layout: the concept of the role that says how many layers a unit of KV memory spans.
#pragma once

#include "sluice/core/role.hpp"
#include "sluice/core/units.hpp"
#include "sluice/state/memory/holding.hpp"

#include <concepts>

namespace sluice {

/// `P` says whether one layer can be resident without others.
template <class P>
concept StatesLayerwise = requires {
  { P::layerwise } -> std::convertible_to<bool>;
};

/// `P` counts the layer blocks that `blocks` token blocks take when `resident` of `layers` layers are held.
template <class P>
concept CountsRoom = requires(TokenBlocks blocks, int resident, int layers) {
  { P::room(blocks, resident, layers) } -> std::same_as<LayerBlocks>;
};

/// How many layers a unit of KV memory spans.
///
///  1. `P::role` is `roles::Layout`.
///  2. `P::layerwise`: whether layers can be placed one by one, which per-layer placements need.
///  3. `P::room(blocks, resident, layers)` is the room in layer blocks, fragmentation included.
///
/// Requirements that are not checked: `room` is proportional to `blocks`, grows with `resident`, is at least `blocks *
/// resident`, and is zero if either is zero.
template <class P>
concept Layout = PlaysRole<P, roles::Layout> && StatesLayerwise<P> && CountsRoom<P>;

template <>
struct Contract<roles::Layout> {
  template <class P>
  static constexpr bool met = Layout<P>;

  template <class P>
  static consteval auto explain() {
    static_assert(StatesLayerwise<P>,
                  "sluice: this Layout needs `static constexpr bool layerwise = true;` (false if it "
                  "gives room to all layers or none)");
    static_assert(CountsRoom<P>, "sluice: this Layout needs `static constexpr LayerBlocks room(TokenBlocks blocks, int "
                                 "resident, int layers)`");
    return true;
  }

  template <bool Once>
  static consteval auto explain_twice() {
    static_assert(Once, "sluice: two Layouts in one engine: keep one of them");
    return true;
  }
};

/// The room that `blocks` token blocks of a request take under layout `L`, with the residency `holding`.
template <Layout L>
[[nodiscard]] constexpr Footprint footprint(const Holding& holding, TokenBlocks blocks, Tokens block_tokens, int layers,
                                            HiddenSize hidden = {}) {
  return footprint_by([layers](TokenBlocks some, int held) { return L::room(some, held, layers); }, holding, blocks,
                      block_tokens, layers, hidden);
}

} // namespace sluice
