// SPDX-License-Identifier: Apache-2.0
// DecoderConfig: what a decoder computes beyond its shape: norms, positions, rotations, the MLP's kind, the choice of
// experts, biases. LayerKind: what distinguishes its layers.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/model/decoder/kinds.hpp"
#include "sluice/model/shape.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <string>
#include <vector>

namespace sluice {

/// The scaling of slow rotations ("rope_type"); `factor` 1 means none.
struct RopeScaling {
  double factor = 1;
  double low_frequency_factor = 1;  ///< turns within the original context up to which a rotation is stretched wholly
  double high_frequency_factor = 4; ///< and from which on it is not stretched
  int original_positions = 8192;
  RopeScalingKind kind = RopeScalingKind::llama3;
  double rotated_factor = 1; ///< of what rotates, in queries and keys (YaRN)
  double score_factor = 1;   ///< of attention's scores (YaRN, as DeepSeek uses it); only with latent attention

  friend bool operator==(const RopeScaling&, const RopeScaling&) = default;
};

/// How a router chooses a token's experts and weighs them. The defaults are Mixtral's: weights add up to 1.
struct ExpertRouting {
  RouterScore score = RouterScore::softmax;
  bool corrected = false;   ///< a stored bias is added to each score, for the choice alone (DeepSeek-V3)
  bool normalised = true;   ///< the scores of the chosen experts are divided by their sum
  double scale = 1;         ///< of the weights
  int groups = 1;           ///< of consecutive experts, equally many
  int groups_per_token = 1; ///< experts of the best groups alone are chosen
  int group_scores = 1;     ///< a group's score is the sum of its so many best experts' scores (DeepSeek-V2: 1, V3: 2)

  friend bool operator==(const ExpertRouting&, const ExpertRouting&) = default;
};

/// What distinguishes a model's layers: each kind has a layout of its own.
struct LayerKind {
  bool state = false; ///< keeps a state instead of K and V
  bool dense = false; ///< has a dense MLP where others have experts

  static constexpr std::size_t count = 4;
  [[nodiscard]] constexpr std::size_t number() const { return (state ? 1U : 0U) + (dense ? 2U : 0U); }
  [[nodiscard]] static constexpr LayerKind of(std::size_t number) { return {number % 2 != 0, number >= 2}; }
  friend bool operator==(const LayerKind&, const LayerKind&) = default;
};

/// A decoder as a checkpoint describes it. The shape's `weight_element_bytes` and `kv_element_bytes` describe the
/// backend's memory, not the checkpoint's `torch_dtype`.
struct DecoderConfig {
  ModelShape shape;
  NormKind norm = NormKind::rms;
  float norm_epsilon = 1e-5F;
  PositionKind position = PositionKind::rotary;
  double rope_theta = 10000;
  RopeScaling rope_scaling;
  int max_positions = 1 << 20;       ///< the longest context
  int position_offset = 0;           ///< row of the learned table for position 0 (OPT: 2)
  MlpKind mlp = MlpKind::gated_silu; ///< of all layers but those of `shape.dense`, which are gated_silu
  ExpertRouting routing;
  bool gated_shared_experts = false; ///< each token has a gate of what its shared experts add (Qwen3-Next)
  bool neighbours_rotate = false;    ///< a head's numbers 2 i and 2 i + 1 rotate against each other (DeepSeek)
  bool qkv_bias = false;             ///< of query, key and value projections (Qwen2, OPT)
  bool output_bias = false;          ///< of the attention's output projection (OPT)
  bool mlp_bias = false;             ///< of up and down (OPT)
  bool query_key_norm = false;       ///< RMS norm of every head's query and key before rotation (Qwen3)
  bool gated_heads = false;          ///< `query` also yields a gate for each number that a head attends (Qwen3-Next)
  bool joint_states = false;   ///< delta rule: `mixed` also yields gates, and `update` decays, by key head (Qwen3-Next)
  std::vector<int> windows;    ///< by layer, the tokens that a token attends to, itself included; 0, or empty: all
  std::vector<int> end_tokens; ///< any of them ends a request
  int begin_token = -1;        ///< negative: none

  /// Of one layer; 0: a token attends to its whole context.
  [[nodiscard]] int window(int layer) const { return windows.empty() ? 0 : windows[static_cast<std::size_t>(layer)]; }
  [[nodiscard]] LayerKind kind(int layer) const {
    return {shape.delta.layers.contains(layer), shape.dense.contains(layer)};
  }

  friend bool operator==(const DecoderConfig&, const DecoderConfig&) = default;
};

/// The layers of one kind, in order.
struct LayersOfKind {
  LayerKind kind;
  std::vector<int> layers;
};
/// Those of each kind that the model has.
[[nodiscard]] inline std::vector<LayersOfKind> layers_by_kind(const DecoderConfig& config) {
  std::vector<LayersOfKind> kinds;
  for (int layer = 0; layer < config.shape.layers; ++layer) {
    const LayerKind kind = config.kind(layer);
    const auto same =
        std::find_if(kinds.begin(), kinds.end(), [&](const LayersOfKind& one) { return one.kind == kind; });
    (same == kinds.end() ? kinds.emplace_back(LayersOfKind{kind, {}}) : *same).layers.push_back(layer);
  }
  return kinds;
}

/// An error if no token's experts can be chosen so. `where` opens the error's line.
[[nodiscard]] inline Status check(const ExpertRouting& routing, const ModelShape& shape, const std::string& where) {
  const auto refuse = [&](const std::string& what, const std::string& expected) {
    return Error{ErrorCode::bad_input, where, what, expected};
  };
  if (routing.groups < 1 || shape.experts % routing.groups != 0)
    return refuse(std::to_string(shape.experts) + " experts are in " + std::to_string(routing.groups) + " groups",
                  "a number of groups that divides the experts");
  if (routing.groups_per_token < 1 || routing.groups_per_token > routing.groups)
    return refuse(std::to_string(routing.groups_per_token) + " groups of a token",
                  "1 to all " + std::to_string(routing.groups) + " groups");
  const int group = shape.experts / routing.groups;
  if (shape.experts_per_token > routing.groups_per_token * group)
    return refuse("a token has " + std::to_string(shape.experts_per_token) + " experts",
                  "at most the " + std::to_string(routing.groups_per_token * group) + " of its groups");
  if (routing.group_scores < 1 || routing.group_scores > 2 || (routing.groups > 1 && routing.group_scores > group))
    return refuse("a group's score is the sum of " + std::to_string(routing.group_scores) + " of its " +
                      std::to_string(group) + " experts' scores",
                  "1 or 2, and no more than it has");
  if (routing.score == RouterScore::softmax && (routing.corrected || routing.group_scores != 1))
    return refuse("scores by softmax have a correction, or are added in groups", "sigmoid scores for either");
  if (!(routing.scale > 0 && routing.scale <= 1e6))
    return refuse("the experts' weights are scaled by " + std::to_string(routing.scale), "a positive number");
  return {};
}

/// An error if a decoder cannot have this shape, or these parts together. `where` opens the error's line.
[[nodiscard]] inline Status check(const DecoderConfig& config, const std::string& where) {
  if (Status status = check(config.shape, where); !status) return status;
  const bool experts = config.mlp == MlpKind::experts;
  if (experts && config.shape.experts == 0)
    return Error{ErrorCode::bad_input, where, "its MLPs are experts, and there are none", "a number of experts"};
  if (!experts && !config.shape.dense.empty())
    return Error{ErrorCode::bad_input, where, "some layers have a dense MLP beside layers of experts, and none has",
                 "experts, or no such layers"};
  if (config.gated_shared_experts && config.shape.shared_intermediate == 0)
    return Error{ErrorCode::bad_input, where, "shared experts have a gate, and there are none",
                 "shared experts, or no gate"};
  if (experts)
    if (Status status = check(config.routing, config.shape, where); !status) return status;
  if (config.gated_heads && config.qkv_bias)
    return Error{ErrorCode::bad_input, where, "heads have gates, and their projections a bias", "one of the two"};
  if (config.position == PositionKind::rotary && config.shape.rotated_dim() % 2 != 0)
    return Error{ErrorCode::bad_input, where, std::to_string(config.shape.rotated_dim()) + " numbers of a head rotate",
                 "an even number, for pairs rotate"};
  return {};
}

/// The decoder of a model that is known only by its shape: an ungated MLP means OPT; the other `named_models` are
/// Llamas, Qwens and Mixtrals. (model/checkpoint/nlohmann/hf_folder.hpp reads everything from a config.json.)
[[nodiscard]] inline DecoderConfig decoder_of(const ModelShape& shape) {
  DecoderConfig decoder;
  decoder.shape = shape;
  if (shape.experts > 0) decoder.mlp = MlpKind::experts;
  if (!shape.gated_mlp) {
    decoder.norm = NormKind::layer;
    decoder.position = PositionKind::learned;
    decoder.mlp = MlpKind::relu;
  }
  return decoder;
}

/// RoPE's angular frequency for pair `pair` of the numbers of a head that rotate: theta^(-2 pair / numbers). Llama 3.1
/// and YaRN stretch frequencies whose wavelength is long compared with the context of pretraining, and blend between
/// two limits.
[[nodiscard]] inline double rotary_frequency(const DecoderConfig& config, int pair) {
  const int numbers = config.shape.rotated_dim();
  const double frequency = std::pow(config.rope_theta, -2.0 * pair / numbers);
  const RopeScaling& scaling = config.rope_scaling;
  if (scaling.factor == 1) return frequency;
  if (scaling.kind == RopeScalingKind::yarn) {
    const auto pair_of = [&](double turns) { // that turns so often within the original context
      return numbers * std::log(scaling.original_positions / (turns * 2 * std::numbers::pi)) /
             (2 * std::log(config.rope_theta));
    };
    const double first = std::max(0.0, std::floor(pair_of(scaling.high_frequency_factor)));
    const double last = std::min(numbers - 1.0, std::ceil(pair_of(scaling.low_frequency_factor)));
    const double stretched = std::clamp((pair - first) / (last > first ? last - first : 0.001), 0.0, 1.0);
    return stretched * frequency / scaling.factor + (1 - stretched) * frequency;
  }
  const double turns = scaling.original_positions * frequency / (2 * std::numbers::pi); // within the original context
  if (turns > scaling.high_frequency_factor) return frequency;
  if (turns < scaling.low_frequency_factor) return frequency / scaling.factor;
  const double kept =
      (turns - scaling.low_frequency_factor) / (scaling.high_frequency_factor - scaling.low_frequency_factor);
  return (1 - kept) * frequency / scaling.factor + kept * frequency;
}

} // namespace sluice
