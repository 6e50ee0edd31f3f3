// SPDX-License-Identifier: Apache-2.0
// PlanningProblem: an instance with names, and a transfer rule, space and buffer count chosen at run time.
#pragma once

#include "sluice/core/layer_set.hpp"
#include "sluice/state/plan/instance.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

enum class TransferKind : std::uint8_t { next_layer, fair_share, earliest_deadline_first, deadline_pool };
enum class SpaceKind : std::uint8_t { distance, even, free };
enum class BufferKind : std::uint8_t { held, paper };

/// The content of a planning problem's file: programs read it, engines never need it.
struct PlanningProblem {
  Instance instance;
  std::vector<std::string> ids; ///< one per request of the instance
  TransferKind transfer = TransferKind::deadline_pool;
  SpaceKind space = SpaceKind::distance;
  BufferKind buffer = BufferKind::held;
  std::optional<std::vector<LayerSet>> placement; ///< to evaluate instead of solving
};

} // namespace sluice
