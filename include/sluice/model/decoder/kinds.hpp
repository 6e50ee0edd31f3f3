// SPDX-License-Identifier: Apache-2.0
// ElementType, NormKind, PositionKind, RopeScalingKind, MlpKind, RouterScore, Products: how a decoder stores its
// numbers and what it computes.
#pragma once

#include <cstdint>

namespace sluice {

/// How a number of weights, activations or KV cache is stored. All arithmetic is in f32.
enum class ElementType : std::uint8_t { f32, f16, bf16 };

[[nodiscard]] constexpr int bytes_of(ElementType type) { return type == ElementType::f32 ? 4 : 2; }

enum class NormKind : std::uint8_t {
  rms,       ///< Llama, Qwen, Mixtral: scale only
  layer,     ///< OPT: subtracts the mean; scale and bias
  rms_offset ///< Qwen3-Next: as rms, and the scale is 1 + the stored numbers
};

enum class PositionKind : std::uint8_t {
  rotary, ///< RoPE on queries and keys, the halves rotated against each other (Hugging Face's order)
  learned ///< OPT: adds a row of a table to the embedding
};

/// How slow rotations are stretched to a longer context than that of pretraining.
enum class RopeScalingKind : std::uint8_t {
  llama3, ///< blends in the number of turns within the original context (Llama 3.1)
  yarn    ///< blends in the number of the pair (Peng et al., "YaRN", 2023), as DeepSeek's classes compute it
};

enum class MlpKind : std::uint8_t {
  gated_silu, ///< down(silu(gate x) * up x)
  relu,       ///< down(relu(up x)), OPT
  experts     ///< the `experts_per_token` gated_silu MLPs that a router chooses (ExpertRouting), and shared experts
};

/// What a router's logits become.
enum class RouterScore : std::uint8_t {
  softmax, ///< over all experts (Mixtral, DeepSeek-V2)
  sigmoid  ///< of each logit (DeepSeek-V3)
};

/// Which matrix multiplication a device uses. Serving systems call the choice batch-invariant (vLLM) or deterministic
/// inference (SGLang).
enum class Products : std::uint8_t {
  invariant, ///< a row's bits do not depend on its batch: every system generates the same tokens
  fast       ///< the device maker's library, where a row's bits may depend on the number of rows
};

} // namespace sluice
