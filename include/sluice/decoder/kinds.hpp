// SPDX-License-Identifier: Apache-2.0
// NormKind, PositionKind and MlpKind: what tells one family of decoders from another.
#pragma once

#include <cstdint>

namespace sluice {

enum class NormKind : std::uint8_t {
  rms,  ///< Llama, Qwen, Mixtral: scale only
  layer ///< OPT: mean removed, scale and bias
};

enum class PositionKind : std::uint8_t {
  rotary, ///< RoPE on queries and keys, halves rotated against each other (Hugging Face's order)
  learned ///< OPT: a row of a table is added to the embedding
};

enum class MlpKind : std::uint8_t {
  gated_silu, ///< down(silu(gate x) * up x)
  relu,       ///< down(relu(up x)), OPT
  experts     ///< the router's best `experts_per_token` of gated_silu MLPs (Mixtral)
};

} // namespace sluice
