// SPDX-License-Identifier: Apache-2.0
// LayoutTable: an engine's Layout as numbers, so that code that counts memory is not compiled once per layout.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/layer_set.hpp"
#include "sluice/core/units.hpp"
#include "sluice/state/memory/holding.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace sluice {

/// The room of one token block by the number of its resident layers: a Layout's `room` is proportional to the blocks.
///
/// Rejected: a pointer to the Layout's function. The planner needs the room of every request of every plan, and the
/// calls tripled the time of an engine that plans in every step.
class LayoutTable {
 public:
  LayoutTable() = default;
  /// `count` is a Layout's `room`; `layers` the model's.
  LayoutTable(LayerBlocks (*count)(TokenBlocks, int, int), bool layerwise, int layers)
      : layers_(layers), layerwise_(layerwise) {
    for (int held = 0; held <= layers; ++held) {
      room_[static_cast<std::size_t>(held)] = static_cast<std::int32_t>(count(TokenBlocks{1}, held, layers).count());
      SLUICE_ASSERT(count(TokenBlocks{7}, held, layers).count() == 7 * room_[static_cast<std::size_t>(held)],
                    "a Layout's room is proportional to the blocks");
    }
  }

  /// Room in layer blocks of `blocks` token blocks with `held` resident layers.
  [[nodiscard]] LayerBlocks room(TokenBlocks blocks, int held) const {
    return LayerBlocks{blocks.count() * room_[static_cast<std::size_t>(held)]};
  }
  /// The same with all layers.
  [[nodiscard]] LayerBlocks room(TokenBlocks blocks) const { return room(blocks, layers_); }
  /// Whether one layer can be resident without another.
  [[nodiscard]] bool layerwise() const { return layerwise_; }

 private:
  std::array<std::int32_t, max_layers + 1> room_{};
  int layers_ = 0;
  bool layerwise_ = true;
};

} // namespace sluice
