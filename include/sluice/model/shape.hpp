// SPDX-License-Identifier: Apache-2.0
// ModelShape: the sizes of a decoder, and the bytes and FLOPs that follow from them.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/layer_set.hpp"
#include "sluice/core/math.hpp"
#include "sluice/core/units.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

namespace sluice {

/// Bytes of weights as a quantised checkpoint stores them, with scales, where each class of module has its own format.
struct StoredWeights {
  std::int64_t attention = 0; ///< of one layer; 0: not quantised, all is `weight_element_bytes`
  std::int64_t router = 0;    ///< of one layer
  std::int64_t expert = 0;    ///< of one expert, or of a layer's dense MLP
  std::int64_t embedding = 0;
  std::int64_t head = 0; ///< of a tied head: the embedding's

  friend bool operator==(const StoredWeights&, const StoredWeights&) = default;
};

/// Multi-head latent attention (DeepSeek-AI, "DeepSeek-V2", 2024): a layer keeps one entry per token, a latent from
/// which K and V of all heads follow, and a rotated part of K that all heads share. The other part of a head's Q and K
/// is not rotated.
struct LatentAttention {
  int rank = 0;       ///< numbers of a latent; 0: layers keep K and V of heads
  int rotated = 0;    ///< numbers of the rotated part, which `head_dim` counts
  int value = 0;      ///< size of a head's V
  int query_rank = 0; ///< Q is projected through so many numbers; 0: directly

  friend bool operator==(const LatentAttention&, const LatentAttention&) = default;
};

/// Layers of the gated delta rule (Yang et al., "Gated Delta Networks", 2024), as in Qwen3-Next: instead of K and V
/// such a layer keeps a state of one size, a matrix per value head, and the last inputs of a short convolution.
struct DeltaRule {
  LayerSet layers{};   ///< that keep a state; the others attend. Empty: all attend
  int key_heads = 0;   ///< heads of Q and of K
  int value_heads = 0; ///< heads of V; consecutive ones share a key head
  int key_dim = 0;     ///< size of a head's Q and K
  int value_dim = 0;   ///< size of a head's V
  int kernel = 0;      ///< tokens that the convolution reads

  /// Numbers of a token's Q, K and V, each of which is convolved on its own.
  [[nodiscard]] constexpr int channels() const { return 2 * key_heads * key_dim + value_heads * value_dim; }
  /// Numbers of a head's matrix.
  [[nodiscard]] constexpr int head_numbers() const { return key_dim * value_dim; }
  /// Numbers of a layer's state: [value head][key_dim][value_dim], then [kernel - 1][channels].
  [[nodiscard]] constexpr std::int64_t numbers() const {
    return std::int64_t{value_heads} * head_numbers() + std::int64_t{kernel - 1} * channels();
  }

  friend bool operator==(const DeltaRule&, const DeltaRule&) = default;
};

/// The shape of a decoder-only transformer, from which every byte and FLOP of serving follows.
///
/// Left out: norms, biases and learned positions. They are less than 0.3 % of the parameters of every named model,
/// never move, and take no significant time.
struct ModelShape {
  std::string name;
  int layers = 1;
  int hidden = 1;               ///< width of the residual stream
  int heads = 1;                ///< query heads
  int kv_heads = 1;             ///< heads of K and of V; fewer than `heads` with grouped-query attention
  int head_dim = 1;             ///< not always hidden / heads (Qwen3)
  int mlp = 1;                  ///< intermediate size of a dense MLP; with experts, of the layers in `dense`
  bool gated_mlp = true;        ///< gate, up and down (SwiGLU); false: up and down only (OPT)
  int experts = 0;              ///< 0: a dense MLP
  int experts_per_token = 0;    ///< how many of `experts` the router chooses
  int moe_intermediate = 0;     ///< intermediate size of one expert
  int vocabulary = 1;           ///< rows of the embedding and of the output head
  bool tied_embeddings = false; ///< the output head is the embedding's matrix
  int weight_element_bytes = 2; ///< half precision; 1 for 8-bit weights, 4 for single precision
  int kv_element_bytes = 2;
  Tokens max_context{0};       ///< the longest context it was made for; 0: unknown. Nothing refuses a longer one
  Tokens attention_window{0};  ///< tokens that each token attends to, if fewer; 0: all. Costs do not know it: KV and
                               ///< attention of longer contexts are upper bounds
  StoredWeights stored{};      ///< of a quantised checkpoint
  LatentAttention latent{};    ///< with a rank, `kv_heads` is 1, and `head_dim` the size of a head's Q and K
  int rotated = 0;             ///< numbers of a head's Q and K that rotate, its first ones; 0: all
  DeltaRule delta{};           ///< with layers of it; parameters and costs count each layer as one with attention
  int shared_intermediate = 0; ///< beside routed experts, of the shared ones, which every token passes; 0: none
  LayerSet dense{};            ///< layers with a dense MLP beside layers of experts; parameters and costs count each
                               ///< layer as one of experts

  friend bool operator==(const ModelShape&, const ModelShape&) = default;

  // Parameters of one layer ---------------------------------------------------------------------------------------

  [[nodiscard]] constexpr bool has_latents() const { return latent.rank > 0; }
  [[nodiscard]] constexpr bool has_states() const { return !delta.layers.empty(); }
  /// What a layer keeps of a token: so many vectors (K and V of each head, or one entry), each of `kv_width` numbers.
  [[nodiscard]] constexpr int kv_vectors() const { return has_latents() ? 1 : 2 * kv_heads; }
  [[nodiscard]] constexpr int kv_width() const { return has_latents() ? latent.rank + latent.rotated : head_dim; }
  /// Numbers of a head's Q and K that rotate, with rotary positions.
  [[nodiscard]] constexpr int rotated_dim() const {
    return has_latents() ? latent.rotated : rotated > 0 ? rotated : head_dim;
  }
  /// Size of a head's V.
  [[nodiscard]] constexpr int value_dim() const { return has_latents() ? latent.value : head_dim; }

  /// Q, K, V and output projections.
  [[nodiscard]] constexpr std::int64_t attention_parameters() const {
    if (has_latents()) {
      const std::int64_t queries = std::int64_t{heads} * head_dim;
      const std::int64_t query =
          latent.query_rank > 0 ? latent.query_rank * (hidden + queries) : std::int64_t{hidden} * queries;
      const std::int64_t expanded = std::int64_t{heads} * (head_dim - latent.rotated + latent.value);
      return query + std::int64_t{hidden} * kv_width() + latent.rank * expanded +
             std::int64_t{heads} * latent.value * hidden;
    }
    return std::int64_t{2} * hidden * (std::int64_t{heads} + kv_heads) * head_dim;
  }
  /// One expert's matrices, or the dense MLP's.
  [[nodiscard]] constexpr std::int64_t expert_parameters() const {
    return (gated_mlp ? std::int64_t{3} : std::int64_t{2}) * hidden * (experts > 0 ? moe_intermediate : mlp);
  }
  [[nodiscard]] constexpr std::int64_t router_parameters() const { return std::int64_t{experts} * hidden; }
  [[nodiscard]] constexpr std::int64_t shared_parameters() const {
    return std::int64_t{3} * hidden * shared_intermediate;
  }
  [[nodiscard]] constexpr std::int64_t layer_parameters() const {
    return attention_parameters() + router_parameters() + shared_parameters() +
           expert_parameters() * (experts > 0 ? experts : 1);
  }
  /// Parameters of one layer that one token passes through.
  [[nodiscard]] constexpr std::int64_t active_layer_parameters() const {
    return attention_parameters() + router_parameters() + shared_parameters() +
           expert_parameters() * (experts > 0 ? experts_per_token : 1);
  }

  // Parameters of the whole ---------------------------------------------------------------------------------------

  [[nodiscard]] constexpr std::int64_t embedding_parameters() const { return std::int64_t{vocabulary} * hidden; }
  /// Embedding, layers and output head; a tied head counts once.
  [[nodiscard]] constexpr std::int64_t parameters() const {
    return layer_parameters() * layers + embedding_parameters() * (tied_embeddings ? 1 : 2);
  }
  /// Parameters that one token passes through, by the convention of model cards (embedding and head included).
  [[nodiscard]] constexpr std::int64_t active_parameters() const {
    return active_layer_parameters() * layers + embedding_parameters() * (tied_embeddings ? 1 : 2);
  }

  // Bytes ---------------------------------------------------------------------------------------------------------

  [[nodiscard]] constexpr bool quantised() const { return stored.attention > 0; }
  [[nodiscard]] constexpr Bytes layer_weight_bytes() const {
    if (quantised()) return Bytes{stored.attention + stored.router + stored.expert * (experts > 0 ? experts : 1)};
    return Bytes{layer_parameters() * weight_element_bytes};
  }
  [[nodiscard]] constexpr Bytes weight_bytes() const {
    if (quantised())
      return layer_weight_bytes() * layers + Bytes{stored.embedding + (tied_embeddings ? 0 : stored.head)};
    return Bytes{parameters() * weight_element_bytes};
  }
  /// The output head, read once per iteration that samples.
  [[nodiscard]] constexpr Bytes head_weight_bytes() const {
    return Bytes{quantised() ? stored.head : embedding_parameters() * weight_element_bytes};
  }
  /// Bytes of one element of the attention's projections, with its share of the scales.
  [[nodiscard]] constexpr double attention_element_bytes() const {
    if (!quantised()) return weight_element_bytes;
    return static_cast<double>(stored.attention) / static_cast<double>(attention_parameters());
  }
  /// Expected number of one layer's experts that `tokens` tokens touch together, if the router spreads them evenly and
  /// independently: E * (1 - (1 - k/E)^tokens). 1 for a dense MLP.
  [[nodiscard]] double experts_touched(Tokens tokens) const {
    if (experts == 0) return 1.0;
    const double missed = 1.0 - static_cast<double>(experts_per_token) / experts;
    return experts * (1.0 - math::pow(missed, static_cast<double>(tokens.count())));
  }
  /// Weight bytes of one layer that an iteration of `tokens` tokens reads: all of a dense layer; in a layer of experts
  /// only those that are touched.
  [[nodiscard]] Bytes layer_weight_bytes_read(Tokens tokens) const {
    if (quantised())
      return Bytes{stored.attention + stored.router +
                   static_cast<std::int64_t>(static_cast<double>(stored.expert) * experts_touched(tokens))};
    const double read = static_cast<double>(attention_parameters() + router_parameters() + shared_parameters()) +
                        static_cast<double>(expert_parameters()) * experts_touched(tokens);
    return Bytes{static_cast<std::int64_t>(read * weight_element_bytes)};
  }
  /// K and V of one token in one layer, or its entry.
  [[nodiscard]] constexpr Bytes kv_bytes_per_token_per_layer() const {
    return Bytes{std::int64_t{kv_vectors()} * kv_width() * kv_element_bytes};
  }
  /// K and V of one token in all layers.
  [[nodiscard]] constexpr Bytes kv_bytes_per_token() const { return kv_bytes_per_token_per_layer() * layers; }
  /// One layer block: 65,536 B for Llama-3-8B at 16 tokens in half precision.
  [[nodiscard]] constexpr Bytes layer_block_bytes(Tokens block_tokens) const {
    return kv_bytes_per_token_per_layer() * block_tokens.count();
  }
  /// One token block: a layer block of every layer.
  [[nodiscard]] constexpr Bytes token_block_bytes(Tokens block_tokens) const {
    return layer_block_bytes(block_tokens) * layers;
  }
  /// One token's hidden state, which HCache keeps per layer instead of K and V. KV in FP8 leaves it in the weights'
  /// data type.
  [[nodiscard]] constexpr Bytes hidden_bytes_per_token() const {
    return Bytes{std::int64_t{hidden} * std::max(kv_element_bytes, weight_element_bytes)};
  }

  /// The hidden states of a block of tokens.
  [[nodiscard]] constexpr Bytes layer_hidden_bytes(Tokens block_tokens) const {
    return hidden_bytes_per_token() * block_tokens.count();
  }

  // FLOPs (a multiply-add is two) ---------------------------------------------------------------------------------

  /// The matrix products of one layer for one token: projections, router and the chosen experts (or the MLP).
  [[nodiscard]] constexpr Flops linear_flops_per_token_per_layer() const {
    return Flops{2.0 * static_cast<double>(active_layer_parameters())};
  }
  /// One layer's attention for one (query, key) pair: the score and the weighted sum, over all query heads. Latents are
  /// attended to absorbed, as entries.
  [[nodiscard]] constexpr Flops attention_flops_per_pair_per_layer() const {
    if (has_latents()) return Flops{2.0 * static_cast<double>(heads) * (kv_width() + latent.rank)};
    return Flops{4.0 * static_cast<double>(heads) * head_dim};
  }
  /// The projections to what a layer keeps of a token alone: the cost of rebuilding KV from hidden states.
  [[nodiscard]] constexpr Flops kv_projection_flops_per_token_per_layer() const {
    return Flops{2.0 * static_cast<double>(hidden) * kv_vectors() * kv_width()};
  }
  /// The output head for one row (one sampled token).
  [[nodiscard]] constexpr Flops head_flops_per_row() const {
    return Flops{2.0 * static_cast<double>(embedding_parameters())};
  }
};

namespace detail {

struct ShapeField {
  const char* name;
  int value;
  int least;
  int most;
};

inline Status check_shape_field(const ShapeField& field, const std::string& where) {
  if (field.value >= field.least && field.value <= field.most) return {};
  return Error{ErrorCode::bad_input, where, std::string{field.name} + " is " + std::to_string(field.value),
               "a whole number from " + std::to_string(field.least) + " to " + std::to_string(field.most)};
}

} // namespace detail

/// An error if the sizes are no valid decoder. The upper bounds are far above any model, and low enough that no product
/// of them overflows. `where` opens the error's line: a file, or the flag that set the shape.
inline Status check(const ModelShape& shape, const std::string& where) {
  constexpr int wide = 1 << 18;
  const detail::ShapeField fields[] = {
      {"the number of layers", shape.layers, 1, max_layers},
      {"the hidden size", shape.hidden, 1, wide},
      {"the number of heads", shape.heads, 1, 1 << 12},
      {"the number of KV heads", shape.kv_heads, 1, 1 << 12},
      {"the head size", shape.head_dim, 1, 1 << 12},
      {"the part of a head that rotates", shape.rotated, 0, shape.head_dim},
      {"the vocabulary", shape.vocabulary, 1, 1 << 24},
      {"the number of experts", shape.experts, 0, 1 << 12},
      {"the MLP size of the shared experts", shape.shared_intermediate, 0, shape.experts > 0 ? wide : 0},
      {"the size of a weight in bytes", shape.weight_element_bytes, 1, 4},
      {"the size of a KV element in bytes", shape.kv_element_bytes, 1, 4},
  };
  for (const detail::ShapeField& field : fields) {
    if (Status status = detail::check_shape_field(field, where); !status) return status;
  }
  if (shape.heads % shape.kv_heads != 0) {
    return Error{ErrorCode::bad_input, where,
                 std::to_string(shape.heads) + " heads cannot share " + std::to_string(shape.kv_heads) + " KV heads",
                 "a number of heads that the KV heads divide"};
  }
  if (shape.has_latents()) {
    const detail::ShapeField latents[] = {
        {"the number of KV heads of latent attention", shape.kv_heads, 1, 1},
        {"the rank of a latent", shape.latent.rank, 1, 1 << 12},
        {"the rotated part of a head", shape.latent.rotated, 1, shape.head_dim - 1},
        {"the size of a head's V", shape.latent.value, 1, 1 << 12},
        {"the rank of a query", shape.latent.query_rank, 0, wide},
    };
    for (const detail::ShapeField& field : latents) {
      if (Status status = detail::check_shape_field(field, where); !status) return status;
    }
  }
  if (shape.has_states()) {
    if (shape.has_latents())
      return Error{ErrorCode::bad_input, where, "the model has latents and states", "latent attention, or states"};
    const detail::ShapeField states[] = {
        {"the highest layer with a state", shape.delta.layers.highest(), 0, shape.layers - 1},
        {"the number of key heads of a state", shape.delta.key_heads, 1, 1 << 12},
        {"the number of value heads of a state", shape.delta.value_heads, 1, 1 << 12},
        {"the key size of a state", shape.delta.key_dim, 1, 1 << 12},
        {"the value size of a state", shape.delta.value_dim, 1, 1 << 12},
        {"the length of a convolution", shape.delta.kernel, 2, 8},
    };
    for (const detail::ShapeField& field : states) {
      if (Status status = detail::check_shape_field(field, where); !status) return status;
    }
    if (shape.delta.value_heads % shape.delta.key_heads != 0)
      return Error{ErrorCode::bad_input, where,
                   std::to_string(shape.delta.value_heads) + " value heads cannot share " +
                       std::to_string(shape.delta.key_heads) + " key heads",
                   "a number of value heads that the key heads divide"};
  }
  if (shape.experts == 0) return detail::check_shape_field({"the MLP size", shape.mlp, 1, wide}, where);
  if (Status status = detail::check_shape_field({"the MLP size of an expert", shape.moe_intermediate, 1, wide}, where);
      !status) {
    return status;
  }
  const detail::ShapeField routed[] = {
      {"the number of experts per token", shape.experts_per_token, 1, shape.experts},
      {"the highest layer with a dense MLP", shape.dense.highest(), -1, shape.layers - 1},
  };
  for (const detail::ShapeField& field : routed) {
    if (Status status = detail::check_shape_field(field, where); !status) return status;
  }
  if (shape.dense.empty()) return {};
  return detail::check_shape_field({"the MLP size", shape.mlp, 1, wide}, where);
}

// tensor_shard: the part of a model that one device of a tensor-parallel group stores and computes.

/// The model as one of `degree` devices sees it: heads, MLPs (of dense layers, of each expert and of shared ones) and
/// vocabulary are divided, so the shape's weights, KV and FLOPs are that device's part. `where` opens the error's line:
/// a flag.
///
/// - With fewer KV heads than devices, KV heads are replicated: each device keeps one whole, and the group keeps degree
///   / kv_heads copies of all KV. The shard's bytes include that.
/// - The residual stream, and with it `hidden_bytes_per_token`, is whole on every device; so is the router.
/// - If the degree does not divide the vocabulary, the vocabulary is padded, as in serving engines.
inline Expected<ModelShape> tensor_shard(const ModelShape& whole, int degree, const std::string& where) {
  const auto refuse = [&](const std::string& what, const char* expected) {
    return Error{ErrorCode::bad_input, where, what, expected};
  };
  const std::string of = " of " + whole.name + " do not divide among " + std::to_string(degree) + " devices";
  if (degree < 1) return refuse("there are " + std::to_string(degree) + " devices", "at least 1");
  if (whole.heads % degree != 0)
    return refuse("the " + std::to_string(whole.heads) + " heads" + of, "a number that divides the heads");
  if (whole.kv_heads % degree != 0 && degree % whole.kv_heads != 0)
    return refuse("the " + std::to_string(whole.kv_heads) + " KV heads" + of,
                  "a number that divides the KV heads, or that they divide");
  const bool any_dense = whole.experts == 0 || !whole.dense.empty();
  for (const int mlp : {any_dense ? whole.mlp : 0, whole.experts > 0 ? whole.moe_intermediate : 0})
    if (mlp % degree != 0)
      return refuse("the " + std::to_string(mlp) + " columns of the MLP" + of, "a number that divides them");
  if (whole.shared_intermediate % degree != 0)
    return refuse("the " + std::to_string(whole.shared_intermediate) + " columns of the shared experts" + of,
                  "a number that divides them");
  ModelShape shard = whole;
  shard.heads = whole.heads / degree;
  shard.kv_heads = std::max(1, whole.kv_heads / degree);
  if (any_dense) shard.mlp = whole.mlp / degree;
  if (whole.experts > 0) shard.moe_intermediate = whole.moe_intermediate / degree;
  shard.shared_intermediate = whole.shared_intermediate / degree;
  shard.vocabulary = (whole.vocabulary + degree - 1) / degree;
  if (whole.quantised()) { // scales are divided with their weights
    const auto part = [](std::int64_t bytes, std::int64_t kept, std::int64_t parameters) {
      return static_cast<std::int64_t>(
          math::llround(static_cast<double>(bytes) * static_cast<double>(kept) / static_cast<double>(parameters)));
    };
    shard.stored.attention = part(whole.stored.attention, shard.attention_parameters(), whole.attention_parameters());
    shard.stored.expert = part(whole.stored.expert, shard.expert_parameters(), whole.expert_parameters());
    shard.stored.embedding = part(whole.stored.embedding, shard.embedding_parameters(), whole.embedding_parameters());
    shard.stored.head = part(whole.stored.head, shard.embedding_parameters(), whole.embedding_parameters());
  }
  return shard;
}

} // namespace sluice
