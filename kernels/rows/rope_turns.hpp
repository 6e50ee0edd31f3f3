// SPDX-License-Identifier: Apache-2.0
// rope_turns: the table of RopeAndStore, made on the host once per model.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/model/decoder/config.hpp"

#include <cstddef>
#include <numbers>
#include <vector>

namespace sluice::kernels {

/// Full turns per token of each pair of a head's numbers; empty where positions are learned.
[[nodiscard]] inline std::vector<double> rope_turns(const DecoderConfig& config) {
  std::vector<double> turns;
  if (config.position != PositionKind::rotary) return turns;
  SLUICE_ASSERT(config.shape.head_dim % 2 == 0, "a head of pairs");
  for (int pair = 0; pair < config.shape.head_dim / 2; ++pair)
    turns.push_back(rotary_frequency(config, pair) / (2 * std::numbers::pi));
  return turns;
}

} // namespace sluice::kernels
