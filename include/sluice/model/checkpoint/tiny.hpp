// SPDX-License-Identifier: Apache-2.0
// tiny_llama, tiny_windows, tiny_latent, tiny_latent_experts, tiny_delta, random_weights: models generated from a seed,
// without a checkpoint.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/model/decoder/config.hpp"
#include "sluice/model/decoder/weights.hpp"

#include <cstdint>
#include <functional>

namespace sluice {

namespace detail {

/// How a tensor's numbers are distributed.
struct Spread {
  float mean = 0;
  float deviation = 1;
};

/// Norms near 1 and biases near 0, none of which could be left out unnoticed. Projections keep the scale of their
/// inputs; queries are twice as large, so that attention prefers some tokens.
Spread spread_of(const TensorPlace& place, NormKind norm);

} // namespace detail

/// Calls `work(i)` for each `i` below `count`, in any order, possibly in parallel; returns when all are done.
using ForEach = std::function<void(int count, const std::function<void(int)>& work)>;
/// On the caller's thread.
void one_by_one(int count, const std::function<void(int)>& work);

/// Random weights for any decoder, all of one type, from a seed: the same numbers on every platform (rounded, if `type`
/// is short) and with any number of threads. Logits vary by a few units. The shape's `weight_element_bytes` becomes
/// that of `type`, and `kv_element_bytes` 4. Every number is written once, in its final place: a large model takes no
/// more memory than its weights.
[[nodiscard]] ModelWeights random_weights(DecoderConfig config, std::uint64_t seed, ElementType type = ElementType::f32,
                                          const ForEach& for_each = one_by_one);

/// `tiny`: a Llama of 8 layers and 4 KV heads of 32, whose layer block of 16 tokens is 16 KiB; its tokens are the 256
/// bytes and a few special ones.
[[nodiscard]] DecoderConfig tiny_llama_config();

inline constexpr std::uint64_t tiny_llama_seed = 20260118;

/// A small random Llama, 24 MB of f32. Its output is meaningless but varied, and the same for the same seed.
[[nodiscard]] ModelWeights tiny_llama(std::uint64_t seed = tiny_llama_seed);

/// `tiny-window`: the same, but in three of four layers a token attends to the last 24 tokens, itself included, as in
/// Gemma 3 (five of six, and 1,024 tokens).
[[nodiscard]] DecoderConfig tiny_windows_config();
[[nodiscard]] ModelWeights tiny_windows(std::uint64_t seed = tiny_llama_seed);

/// `tiny-mla`: `tiny` with latent attention, as in DeepSeek-V2: an entry of 96 numbers per token, so that a layer
/// block of 16 tokens is 6 KiB; 8 heads of 48, of which 16 rotate; Q through 96 numbers.
[[nodiscard]] DecoderConfig tiny_latent_config();
[[nodiscard]] ModelWeights tiny_latent(std::uint64_t seed = tiny_llama_seed);

/// `tiny-mla-experts`: `tiny-mla` with experts behind its first layer, chosen as in DeepSeek-V3: 3 of 12 in 2 of 4
/// groups, each of 64 numbers, and shared ones of 96.
[[nodiscard]] DecoderConfig tiny_latent_experts_config();
[[nodiscard]] ModelWeights tiny_latent_experts(std::uint64_t seed = tiny_llama_seed);

/// `tiny-delta`: the Llama with the gated delta rule in three of four layers, as in Qwen3-Next: a state of 4 heads of
/// 24 x 32 and a convolution over 4 tokens of 224 channels, 14.6 KiB of a block of 16 KiB; in every fourth layer 2 KV
/// heads of 64, of which 16 rotate, and gated outputs.
[[nodiscard]] DecoderConfig tiny_delta_config();
[[nodiscard]] ModelWeights tiny_delta(std::uint64_t seed = tiny_llama_seed);

} // namespace sluice

#ifndef SLUICE_MODEL_COMPILED
#include "sluice/model/checkpoint/tiny.inl.hpp"
#endif
