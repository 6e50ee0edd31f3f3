// SPDX-License-Identifier: Apache-2.0
// Weights: matrices as decoders read them, the image of a layer in memory, and where its bytes come from.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/fnv.hpp"
#include "sluice/core/units.hpp"
#include "sluice/model/decoder/config.hpp"
#include "sluice/model/decoder/kinds.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

/// A row-major matrix of `rows` x `columns`, as projections are stored: y = W x has one output per row. A vector is one
/// row. The rows from `split` on lie at `tail`: if part of a layer streams, the other rows stay where they are.
struct Matrix {
  const std::byte* head = nullptr; ///< rows 0 .. split - 1
  const std::byte* tail = nullptr; ///< rows split .. rows - 1
  std::int64_t split = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  ElementType type = ElementType::f32;

  [[nodiscard]] bool empty() const { return rows == 0; }
  [[nodiscard]] std::int64_t row_bytes() const { return columns * bytes_of(type); }
  [[nodiscard]] const std::byte* row(std::int64_t at) const {
    return at < split ? head + at * row_bytes() : tail + (at - split) * row_bytes();
  }
  /// The `count` rows from `first` on.
  [[nodiscard]] Matrix part(std::int64_t first, std::int64_t count) const {
    const std::int64_t before =
        std::clamp<std::int64_t>(split - first, 0, count); // rows of the part that lie at `head`
    return {before > 0 ? row(first) : nullptr,
            before < count ? row(first + before) : nullptr,
            before,
            count,
            columns,
            type};
  }
  [[nodiscard]] static Matrix whole(const std::byte* data, std::int64_t rows, std::int64_t columns, ElementType type) {
    return {data, nullptr, rows, rows, columns, type};
  }
  friend bool operator==(const Matrix&, const Matrix&) = default; ///< the same memory, not equal numbers
};

/// The tensors of one layer. An absent tensor takes no room. With experts, `gate`, `up` and `down` exist once per
/// expert, and once more, as one wide expert behind the others, if there are shared ones. In latent attention `key`
/// yields a token's latent and rotated part, `key_norm` scales the latent, and `query_norm` the output of `query_down`.
enum class LayerTensor : std::uint8_t {
  attention_norm,
  attention_norm_bias,
  query_bias,
  key_bias,
  value_bias,
  output_bias,
  query_norm,
  key_norm,
  mlp_norm,
  mlp_norm_bias,
  up_bias,
  down_bias,
  router,
  query,
  key,
  value,
  output,
  gate,
  up,
  down,
  query_down,  ///< latent attention: to the numbers that `query` projects
  latent_up,   ///< latent attention: of every head, K's part without rotation and V
  decay_log,   ///< delta rule, and those below: of each value head, the logarithm of how fast its state decays
  decay_bias,  ///< of each value head, added to `decay`
  state_norm,  ///< scale of what a head reads
  convolution, ///< of each channel
  mixed,       ///< to the channels; with `joint_states` also to the gates of what heads read
  state_gate,  ///< to a gate for each number that a head reads
  update,      ///< to each value head's share of the update; with `joint_states` also to its decay
  decay,       ///< to each value head's decay
  router_bias, ///< of each expert, added to its score for the choice (ExpertRouting)
  shared_gate  ///< a row: to a token's gate of what its shared experts add
};

/// Whether checkpoints store it as a vector; the others are matrices, though of one row.
[[nodiscard]] constexpr bool is_vector(LayerTensor tensor) {
  return tensor < LayerTensor::router || tensor == LayerTensor::decay_log || tensor == LayerTensor::decay_bias ||
         tensor == LayerTensor::state_norm || tensor == LayerTensor::router_bias;
}

/// Where a tensor lies in its layer's image.
struct TensorPlace {
  LayerTensor tensor{};
  int expert = -1; ///< of `gate`, `up` and `down`, with experts; of the shared experts: the number of routed ones
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  ElementType type = ElementType::f32;
  std::int64_t offset = 0; ///< bytes from the start of the image, a multiple of `weight_alignment`

  [[nodiscard]] std::int64_t bytes() const { return rows * columns * bytes_of(type); }
  friend bool operator==(const TensorPlace&, const TensorPlace&) = default;
};

inline constexpr std::int64_t weight_alignment = 64;

/// `at`, or the next address that is a multiple of `bytes`; the memory must reach that far. `bytes` is a multiple of
/// T's size, and `at` of T's alignment, which is its size.
template <class T>
[[nodiscard]] T* aligned(T* at, std::size_t bytes) {
  const std::size_t beyond = reinterpret_cast<std::uintptr_t>(at) % bytes;
  return at + (beyond == 0 ? 0 : (bytes - beyond) / sizeof(T));
}

/// The image of a layer: its tensors one after another, vectors first. All images of a model have the same size, so any
/// layer fits any slot.
struct LayerLayout {
  std::vector<TensorPlace> places;
  Bytes bytes{0};

  /// Appends a tensor.
  void add(LayerTensor tensor, std::int64_t rows, std::int64_t columns, ElementType type, int expert = -1) {
    places.push_back({tensor, expert, rows, columns, type, bytes.count()});
    const std::int64_t end = bytes.count() + places.back().bytes();
    bytes = Bytes{(end + weight_alignment - 1) / weight_alignment * weight_alignment};
  }
  /// The first byte that streams if `share` of the layer does: the start of a row of a matrix, or of a tensor. A large
  /// matrix is cut at a multiple of 64 rows, so that both products' outputs begin at 128 bytes: cuBLASLt's algorithms
  /// for lesser alignments are slow. With cuts at any row, a layer with a streamed share took 1.7 times as long for
  /// decodes and 2.1 times for prompts on an H200. (In a matrix of fewer than 1,024 rows, 64 rows would be a large
  /// part.)
  [[nodiscard]] std::int64_t cut(double share) const {
    const auto wanted = static_cast<std::int64_t>((1 - share) * static_cast<double>(bytes.count()));
    std::int64_t cut = bytes.count();
    for (const TensorPlace& place : places) {
      if (place.offset + place.bytes() <= wanted) continue;
      const std::int64_t row = place.columns * bytes_of(place.type);
      const std::int64_t group = row * (place.rows >= 16 * group_rows ? group_rows : 1);
      const std::int64_t into = std::max<std::int64_t>(0, wanted - place.offset) / group * group;
      cut = place.offset + into;
      break;
    }
    if (cut == bytes.count() && places.back().offset + places.back().bytes() + weight_alignment <= cut)
      cut = places.back().offset; // only padding would stream
    return share >= 1 ? 0 : cut;
  }

 private:
  static constexpr std::int64_t group_rows = 64;
};

/// One MLP: dense, or one of the experts.
struct MlpWeights {
  Matrix gate, up, down;
};

/// A layer in the form that a decoder computes with.
struct LayerWeights {
  Matrix attention_norm, attention_norm_bias, query_bias, key_bias, value_bias, output_bias, query_norm, key_norm;
  Matrix mlp_norm, mlp_norm_bias, up_bias, down_bias, router;
  Matrix query, key, value, output, query_down, latent_up;
  Matrix decay_log, decay_bias, state_norm, convolution, mixed, state_gate, update, decay;
  Matrix router_bias, shared_gate;
  /// One without a router; else one per expert, then one for the shared experts if there are any. If these weights were
  /// pointed at a layer with more before, there are more, which nothing reads.
  std::vector<MlpWeights> mlps;

  LayerWeights() = default;
  /// The image's bytes before `cut` lie at `head`, the others at `tail` (where byte `cut` lies).
  LayerWeights(const LayerLayout& layout, const std::byte* head, const std::byte* tail, std::int64_t cut) {
    point_at(layout, head, tail, cut);
  }
  /// The same in place: once the weights have been of each layout it allocates nothing.
  void point_at(const LayerLayout& layout, const std::byte* head, const std::byte* tail, std::int64_t cut) {
    if (std::exchange(of_, &layout) != &layout)
      for (Matrix LayerWeights::*const member : members)
        if (member != nullptr) this->*member = {};
    for (const TensorPlace& place : layout.places) {
      const std::int64_t row = place.columns * bytes_of(place.type);
      Matrix matrix{head + place.offset, nullptr, place.rows, place.rows, place.columns, place.type};
      if (place.offset >= cut) {
        matrix.split = 0;
        matrix.tail = tail + (place.offset - cut);
      } else if (place.offset + place.bytes() > cut) {
        matrix.split = (cut - place.offset) / row;
        matrix.tail = tail;
      }
      at(place) = matrix;
    }
  }

 private:
  Matrix& at(const TensorPlace& place) {
    if (Matrix LayerWeights::*const member = members[static_cast<std::size_t>(place.tensor)]; member != nullptr)
      return this->*member;
    const auto expert = static_cast<std::size_t>(std::max(0, place.expert));
    if (mlps.size() <= expert) mlps.resize(expert + 1);
    MlpWeights& mlp = mlps[expert];
    return place.tensor == LayerTensor::gate ? mlp.gate : place.tensor == LayerTensor::up ? mlp.up : mlp.down;
  }

  /// By LayerTensor; null for those of `mlps`.
  static const std::array<Matrix LayerWeights::*, 32> members;
  const LayerLayout* of_ = nullptr;
};

inline constexpr std::array<Matrix LayerWeights::*, 32> LayerWeights::members{&LayerWeights::attention_norm,
                                                                              &LayerWeights::attention_norm_bias,
                                                                              &LayerWeights::query_bias,
                                                                              &LayerWeights::key_bias,
                                                                              &LayerWeights::value_bias,
                                                                              &LayerWeights::output_bias,
                                                                              &LayerWeights::query_norm,
                                                                              &LayerWeights::key_norm,
                                                                              &LayerWeights::mlp_norm,
                                                                              &LayerWeights::mlp_norm_bias,
                                                                              &LayerWeights::up_bias,
                                                                              &LayerWeights::down_bias,
                                                                              &LayerWeights::router,
                                                                              &LayerWeights::query,
                                                                              &LayerWeights::key,
                                                                              &LayerWeights::value,
                                                                              &LayerWeights::output,
                                                                              nullptr,
                                                                              nullptr,
                                                                              nullptr,
                                                                              &LayerWeights::query_down,
                                                                              &LayerWeights::latent_up,
                                                                              &LayerWeights::decay_log,
                                                                              &LayerWeights::decay_bias,
                                                                              &LayerWeights::state_norm,
                                                                              &LayerWeights::convolution,
                                                                              &LayerWeights::mixed,
                                                                              &LayerWeights::state_gate,
                                                                              &LayerWeights::update,
                                                                              &LayerWeights::decay,
                                                                              &LayerWeights::router_bias,
                                                                              &LayerWeights::shared_gate};

/// The matrices outside the layers, always on the device. In a model without a separate head, `head` is the embedding.
struct OuterWeights {
  Matrix embedding; ///< vocabulary x hidden
  Matrix positions; ///< learned: positions x hidden
  Matrix final_norm, final_norm_bias;
  Matrix head; ///< vocabulary x hidden

  [[nodiscard]] bool is_head_tied() const { return head.head == embedding.head; }
  /// Lays them out one after another, each at a multiple of `alignment` bytes: calls `visit(member, at)` for each that
  /// has memory of its own, and returns the total bytes.
  template <class Visit>
  std::int64_t lay_out(std::int64_t alignment, Visit&& visit) const {
    std::int64_t at = 0;
    for (Matrix OuterWeights::*const member :
         {&OuterWeights::embedding, &OuterWeights::positions, &OuterWeights::final_norm, &OuterWeights::final_norm_bias,
          &OuterWeights::head}) {
      const Matrix& matrix = this->*member;
      if (matrix.empty() || (member == &OuterWeights::head && is_head_tied())) continue;
      visit(member, at);
      at += (matrix.rows * matrix.row_bytes() + alignment - 1) / alignment * alignment;
    }
    return at;
  }
  /// The same matrices in this layout in the memory at `start`.
  [[nodiscard]] OuterWeights moved_to(const std::byte* start, std::int64_t alignment) const {
    OuterWeights moved = *this;
    lay_out(alignment, [&](Matrix OuterWeights::*member, std::int64_t at) {
      const Matrix& matrix = this->*member;
      moved.*member = Matrix::whole(start + at, matrix.rows, matrix.columns, matrix.type);
    });
    if (is_head_tied()) moved.head = moved.embedding;
    return moved;
  }
  friend bool operator==(const OuterWeights&, const OuterWeights&) = default; ///< the same memory
};

/// A model's weights on the host: mapped from files, or generated. A backend copies resident layers from here to its
/// device, and streams the others from here.
struct ModelWeights : OuterWeights {
  DecoderConfig config;
  LayerLayout layout; ///< of a layer that attends, with experts if the model has them: LayerKind{}. Its bytes are the
                      ///< size of every layer's image, even if the model has no such layer, and it no tensors
  /// Of the other kinds of layers that the model has, by LayerKind::number(): each as large as `layout`.
  std::array<LayerLayout, LayerKind::count> other_layouts;
  /// The address of each layer's tensors, in the layout's order.
  std::vector<std::vector<const std::byte*>> layers;
  /// Tells the owner that nothing reads a layer's bytes for now, so pages of a mapped file may leave memory.
  std::function<void(int layer)> forget = [](int) {};
  std::shared_ptr<const void> owner; ///< keeps the pointers valid

  [[nodiscard]] const LayerLayout& layout_at(int layer) const { return layout_of_kind(config.kind(layer)); }
  [[nodiscard]] const LayerLayout& layout_of_kind(LayerKind kind) const {
    return kind == LayerKind{} ? layout : other_layouts[kind.number()];
  }
  /// Sets the layouts of the kinds that `of`'s layers have to `make(kind)`, all as large as the largest.
  template <class Make>
  void lay_out_layers(const DecoderConfig& of, const Make& make) {
    layout = {};
    other_layouts = {};
    Bytes largest{0};
    for (const LayersOfKind& of_kind : layers_by_kind(of)) {
      LayerLayout& made = of_kind.kind == LayerKind{} ? layout : other_layouts[of_kind.kind.number()];
      made = make(of_kind.kind);
      largest = std::max(largest, made.bytes);
    }
    layout.bytes = largest;
    for (LayerLayout& other : other_layouts)
      if (!other.places.empty()) other.bytes = largest;
  }
  /// Embedding, positions, last norm and head; a tied head counts once.
  [[nodiscard]] Bytes outer_bytes() const {
    return Bytes{lay_out(1, [](Matrix OuterWeights::*, std::int64_t) {})};
  }
  /// WeightsIdentity compares all of them; this would compare the outer matrices alone.
  friend bool operator==(const ModelWeights&, const ModelWeights&) = delete;
};

/// Tells whether weights are the same, in the same memory, as some that may be gone. One owner may have several models,
/// and several layouts may begin at the same addresses.
class WeightsIdentity {
 public:
  WeightsIdentity() = default;
  explicit WeightsIdentity(const ModelWeights& weights)
      : owner_(weights.owner), layers_(weights.layers), outer_(weights) {
    for (std::size_t kind = 0; kind < LayerKind::count; ++kind)
      places_[kind] = weights.layout_of_kind(LayerKind::of(kind)).places;
  }
  /// False for weights without an owner: their memory may hold others by now.
  [[nodiscard]] bool is_of(const ModelWeights& weights) const {
    if (weights.owner == nullptr || owner_.lock() != weights.owner || layers_ != weights.layers) return false;
    for (std::size_t kind = 0; kind < LayerKind::count; ++kind)
      if (places_[kind] != weights.layout_of_kind(LayerKind::of(kind)).places) return false;
    return outer_ == static_cast<const OuterWeights&>(weights);
  }

 private:
  std::weak_ptr<const void> owner_;
  std::vector<std::vector<const std::byte*>> layers_;
  std::array<std::vector<TensorPlace>, LayerKind::count> places_; // by LayerKind::number()
  OuterWeights outer_;
};

/// Describes the same weights with every number stored as `element`, to divide memory before, or without, converting
/// any number. Nothing may read through it: layers have no addresses, and the matrices keep the addresses of `weights`
/// only so that a tied head is recognised.
[[nodiscard]] inline ModelWeights retyped(const ModelWeights& weights, ElementType element) {
  ModelWeights sizes;
  static_cast<OuterWeights&>(sizes) = weights;
  for (Matrix* const matrix :
       {&sizes.embedding, &sizes.positions, &sizes.final_norm, &sizes.final_norm_bias, &sizes.head})
    matrix->type = element;
  sizes.config = weights.config;
  sizes.config.shape.weight_element_bytes = sizes.config.shape.kv_element_bytes = bytes_of(element);
  sizes.lay_out_layers(weights.config, [&](LayerKind kind) {
    LayerLayout layout;
    for (const TensorPlace& place : weights.layout_of_kind(kind).places)
      layout.add(place.tensor, place.rows, place.columns, element, place.expert);
    return layout;
  });
  return sizes;
}

// weights_digest: a number that tells two models' weights apart.

/// 16 hexadecimal digits of all tensors' sizes and of 16 pieces of 64 bytes from each, evenly apart. Training changes
/// every tensor, so other weights have another digest; reading all of them would take seconds per model that is larger
/// than memory. Weights can be made to have a given digest.
[[nodiscard]] inline std::string weights_digest(const ModelWeights& weights) {
  static constexpr std::int64_t pieces = 16, piece = 64; // bytes
  Fnv digest;
  const auto add = [&digest](const std::byte* at, std::int64_t bytes) {
    digest.add(bytes);
    const std::int64_t apart = std::max(piece, bytes / pieces);
    for (std::int64_t from = 0; from < bytes; from += apart) digest.add(at + from, std::min(piece, bytes - from));
  };
  weights.lay_out(1, [&](Matrix OuterWeights::*member, std::int64_t) {
    const Matrix& matrix = weights.*member;
    add(matrix.row(0), matrix.rows * matrix.row_bytes());
  });
  for (std::size_t layer = 0; layer < weights.layers.size(); ++layer) {
    const std::vector<TensorPlace>& places = weights.layout_at(static_cast<int>(layer)).places;
    for (std::size_t i = 0; i < places.size(); ++i) add(weights.layers[layer][i], places[i].bytes());
  }
  return digest.text();
}

} // namespace sluice
