// SPDX-License-Identifier: Apache-2.0
// DecoderConfig: what a decoder computes beyond its shape: norms, positions, the MLP's kind, biases.
#pragma once

#include "sluice/decoder/kinds.hpp"
#include "sluice/model/shape.hpp"

#include <vector>

namespace sluice {

/// Llama 3.1's stretching of slow rotations ("rope_type": "llama3"); `factor` 1 is none.
struct RopeScaling {
  double factor = 1;
  double low_frequency_factor = 1;
  double high_frequency_factor = 4;
  int original_positions = 8192;

  friend bool operator==(const RopeScaling&, const RopeScaling&) = default;
};

/// A decoder as a checkpoint describes it. The shape's `weight_element_bytes` and `kv_element_bytes` are those of the
/// memory that a backend keeps, not of the checkpoint's `torch_dtype`.
struct DecoderConfig {
  ModelShape shape;
  NormKind norm = NormKind::rms;
  float norm_epsilon = 1e-5F;
  PositionKind position = PositionKind::rotary;
  double rope_theta = 10000;
  RopeScaling rope_scaling;
  int max_positions = 1 << 20; ///< the longest context
  int position_offset = 0;     ///< row of the learned table for position 0 (OPT: 2)
  MlpKind mlp = MlpKind::gated_silu;
  bool qkv_bias = false;       ///< of query, key and value projections (Qwen2, OPT)
  bool output_bias = false;    ///< of the attention's output projection (OPT)
  bool mlp_bias = false;       ///< of up and down (OPT)
  bool query_key_norm = false; ///< RMS norm of every head's query and key before rotation (Qwen3)
  std::vector<int> end_tokens; ///< any of them ends a request
  int begin_token = -1;        ///< below 0: none

  friend bool operator==(const DecoderConfig&, const DecoderConfig&) = default;
};

} // namespace sluice
