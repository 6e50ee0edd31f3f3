// SPDX-License-Identifier: Apache-2.0
// ModelDescription: a decoder as a list of weight matrices and KV groups, exact to the byte. WeightFormat: how a weight
// matrix is stored, and the bytes that follow.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/model/kv_groups.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

/// How the elements of a matrix are stored: their bits, and the scales that come with them. Scales that engines keep
/// beside the weights count; scales of activations do not (a few bytes per matrix).
struct WeightFormat {
  int element_bits = 16;
  int scale_bits = 0;    ///< of one scale; 0: no scales
  int zero_bits = 0;     ///< of one zero point, beside each scale
  int block_rows = 1;    ///< outputs that share a scale; 0: all
  int block_columns = 0; ///< inputs that share a scale; 0: all
  int matrix_bits = 0;   ///< once per matrix: NVFP4's second scale
  int column_bits = 0;   ///< once per input: GPTQ's group index

  friend constexpr bool operator==(const WeightFormat&, const WeightFormat&) = default;

  /// Bytes of a matrix of `rows` outputs and `columns` inputs.
  [[nodiscard]] constexpr std::int64_t bytes(std::int64_t rows, std::int64_t columns) const {
    const auto parts = [](std::int64_t size, int block) { return block == 0 ? 1 : (size + block - 1) / block; };
    const std::int64_t blocks = parts(rows, block_rows) * parts(columns, block_columns);
    const std::int64_t bits =
        rows * columns * element_bits + blocks * (scale_bits + zero_bits) + matrix_bits + columns * column_bits;
    return (bits + 7) / 8;
  }
};

/// Elements without scales, of `bytes` bytes each.
constexpr WeightFormat plain_weights(int bytes) { return {.element_bits = 8 * bytes}; }
/// FP8 with one f32 scale per matrix.
constexpr WeightFormat fp8_weights() { return {.element_bits = 8, .scale_bits = 32, .block_rows = 0}; }
/// FP8 with one scale of `scale_bits` bits per block (DeepSeek-V3: 128 x 128, f32).
constexpr WeightFormat fp8_block_weights(int rows, int columns, int scale_bits = 32) {
  return {.element_bits = 8, .scale_bits = scale_bits, .block_rows = rows, .block_columns = columns};
}
/// NVFP4: 4 bits, an FP8 scale per `group` inputs and an f32 scale per matrix.
constexpr WeightFormat nvfp4_weights(int group) {
  return {.element_bits = 4, .scale_bits = 8, .block_columns = group, .matrix_bits = 32};
}
/// The OCP microscaling formats: MXFP4 (4 bits) and MXFP8 (8), an E8M0 scale per 32 inputs.
constexpr WeightFormat mx_weights(int bits) { return {.element_bits = bits, .scale_bits = 8, .block_columns = 32}; }

/// What a weight belongs to. Quantised checkpoints choose element types by these classes.
enum class ModuleClass : std::uint8_t {
  embedding,
  head,
  attention, ///< projections of attention, of its indexer and of a layer with a state
  dense_mlp,
  router,
  routed_experts,
  shared_experts,
  norm ///< norms and other vectors
};

/// The name, as `docs/models.md` prints it.
constexpr const char* name_of(ModuleClass of) {
  constexpr const char* names[] = {"embedding", "head",           "attention",      "dense MLP",
                                   "router",    "routed experts", "shared experts", "norms"};
  return names[static_cast<std::size_t>(of)];
}

/// Weights of one shape and one name: a matrix, or the same matrix of every expert of a layer.
struct Module {
  std::string name; ///< as in the checkpoint, without the prefix before "layers"; experts have the number 0
  ModuleClass of = ModuleClass::norm;
  std::int64_t rows = 1;    ///< outputs
  std::int64_t columns = 1; ///< inputs; 1: a vector
  std::int64_t count = 1;   ///< matrices
  std::int64_t active = 1;  ///< of `count`, those that one token passes through
  WeightFormat format{};
  bool linear = false; ///< a matrix of a linear layer, which quantisation applies to unless it is excluded

  [[nodiscard]] constexpr std::int64_t parameters() const { return rows * columns * count; }
  [[nodiscard]] constexpr std::int64_t bytes() const { return format.bytes(rows, columns) * count; }
  /// The layer of its name, "layers.17.…"; -1: outside the layers.
  [[nodiscard]] int layer() const {
    const std::size_t dot = name.find('.', 7);
    return name.rfind("layers.", 0) != 0 || dot == std::string::npos ? -1 : std::stoi(name.substr(7, dot - 7));
  }
};

enum class AttentionKind : std::uint8_t { none, full, sliding, chunked, latent, gated_delta, mamba };

/// How a layer attends, and how wide its MLP is.
struct LayerDescription {
  AttentionKind attention = AttentionKind::none;
  int heads = 0;          ///< query heads
  int kv_heads = 0;       ///< heads of K and V
  int head_dim = 0;       ///< of Q and K
  int value_dim = 0;      ///< of V
  int latent = 0;         ///< of latent attention: elements of an entry from which scores are computed, and
  int latent_value = 0;   ///< those of them from which the output is computed
  bool expands = false;   ///< prompts attend to K and V that are computed from the latents
  int index_heads = 0;    ///< query heads of the indexer; 0: none
  int index_dim = 0;      ///< of its queries and keys
  int mlp = 0;            ///< intermediate size of a dense MLP; 0: none
  int experts = 0;        ///< routed experts; 0: none
  int expert_mlp = 0;     ///< intermediate size of one expert
  int expert_hidden = 0;  ///< width at which experts work: the hidden size, or less behind a projection
  int per_token = 0;      ///< routed experts of one token
  int shared_experts = 0; ///< intermediate size of the experts that every token passes; 0: none
  bool gated_mlp = true;  ///< gate, up and down; false: up and down

  friend constexpr bool operator==(const LayerDescription&, const LayerDescription&) = default;
};

/// Layers whose weights take the same number of bytes.
struct EqualWeights {
  LayerSet layers;
  Bytes each{0};
};

/// The text part of a model: no vision tower, no audio tower and no layers for multi-token prediction.
struct ModelDescription {
  std::string name;
  int hidden = 0;
  int vocabulary = 0;
  int element_bytes = 2; ///< of weights that are not quantised
  int kv_element_bytes = 2;
  bool tied_embeddings = false;
  bool quantised = false;
  std::int64_t max_context = 0; ///< 0: unknown
  std::vector<LayerDescription> layers;
  std::vector<Module> modules;
  KvGroups kv;

  [[nodiscard]] std::int64_t parameters() const {
    std::int64_t sum = 0;
    for (const Module& module : modules) sum += module.parameters();
    return sum;
  }
  /// Parameters that one token passes through, with embedding and head (as model cards count them).
  [[nodiscard]] std::int64_t active_parameters() const {
    std::int64_t sum = 0;
    for (const Module& module : modules) sum += module.rows * module.columns * module.active;
    return sum;
  }
  [[nodiscard]] Bytes weight_bytes() const {
    std::int64_t sum = 0;
    for (const Module& module : modules) sum += module.bytes();
    return Bytes{sum};
  }
  /// The same of one class of module.
  [[nodiscard]] Bytes weight_bytes(ModuleClass of) const {
    std::int64_t sum = 0;
    for (const Module& module : modules)
      if (module.of == of) sum += module.bytes();
    return Bytes{sum};
  }
  /// The layers whose weights may stream through slots of one size: of all that are equally large, those that are the
  /// most bytes in all. `layers` has at most `max_layers`.
  [[nodiscard]] EqualWeights streamable() const {
    std::vector<std::int64_t> bytes(layers.size());
    for (const Module& module : modules)
      if (const int layer = module.layer(); layer >= 0) bytes[static_cast<std::size_t>(layer)] += module.bytes();
    EqualWeights most;
    for (const std::int64_t each : bytes) {
      EqualWeights same{{}, Bytes{each}};
      for (std::size_t layer = 0; layer < bytes.size(); ++layer)
        if (bytes[layer] == each) same.layers.insert(static_cast<int>(layer));
      if (same.each * same.layers.count() > most.each * most.layers.count()) most = same;
    }
    return most;
  }
};

} // namespace sluice
