// SPDX-License-Identifier: Apache-2.0
// rotary_frequency: how fast each pair of a head's numbers turns (RoPE), with Llama 3.1's stretching.
#pragma once

#include "sluice/decoder/config.hpp"

#include <cmath>
#include <numbers>

namespace sluice {

/// The angular frequency of pair `pair` of a head's numbers: theta^(-2 pair / head size), and Llama 3.1's stretching of
/// frequencies whose wave is long against the context that the model was first trained on (between the two limits, a
/// blend).
[[nodiscard]] inline double rotary_frequency(const DecoderConfig& config, int pair) {
  const double frequency = std::pow(config.rope_theta, -2.0 * pair / config.shape.head_dim);
  const RopeScaling& scaling = config.rope_scaling;
  if (scaling.factor == 1) return frequency;
  const double turns = scaling.original_positions * frequency / (2 * std::numbers::pi); // in the first context
  if (turns > scaling.high_frequency_factor) return frequency;
  if (turns < scaling.low_frequency_factor) return frequency / scaling.factor;
  const double kept =
      (turns - scaling.low_frequency_factor) / (scaling.high_frequency_factor - scaling.low_frequency_factor);
  return (1 - kept) * frequency / scaling.factor + kept * frequency;
}

} // namespace sluice
