// SPDX-License-Identifier: Apache-2.0
// Weights: matrices as decoders read them, the image of a layer in memory, and where its bytes come from.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/units.hpp"
#include "sluice/decoder/config.hpp"
#include "sluice/decoder/element_type.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

namespace sluice {

/// A row-major matrix of `rows` x `columns`, as projections are stored: y = W x has one output per row. A vector is one
/// row. The rows from `split` on lie at `tail`: where a share of a layer streams, the other rows stay where they are.
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
  [[nodiscard]] static Matrix whole(const std::byte* data, std::int64_t rows, std::int64_t columns, ElementType type) {
    return {data, nullptr, rows, rows, columns, type};
  }
};

/// The tensors of one layer. An absent tensor takes no room. `gate`, `up` and `down` of experts are there once for each
/// expert.
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
  down
};

/// Where a tensor lies in the image of its layer.
struct TensorPlace {
  LayerTensor tensor{};
  int expert = -1; ///< of `gate`, `up` and `down` where there are experts
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  ElementType type = ElementType::f32;
  std::int64_t offset = 0; ///< bytes from the start of the image, a multiple of `weight_alignment`

  [[nodiscard]] std::int64_t bytes() const { return rows * columns * bytes_of(type); }
};

inline constexpr std::int64_t weight_alignment = 64;

/// The image of a layer: its tensors behind one another, vectors first. The same for all layers of a model, so that any
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
  /// The first byte that streams where `share` of the layer does: the start of a row of a matrix, or of a tensor.
  [[nodiscard]] std::int64_t cut(double share) const {
    const auto wanted = static_cast<std::int64_t>((1 - share) * static_cast<double>(bytes.count()));
    std::int64_t cut = bytes.count();
    for (const TensorPlace& place : places) {
      if (place.offset + place.bytes() <= wanted) continue;
      const std::int64_t row = place.columns * bytes_of(place.type);
      const std::int64_t into = std::max<std::int64_t>(0, wanted - place.offset) / row * row;
      cut = place.offset + into;
      break;
    }
    return share >= 1 ? 0 : cut;
  }
};

/// One MLP: dense, or one of the experts.
struct MlpWeights {
  Matrix gate, up, down;
};

/// A layer as a decoder computes with it.
struct LayerWeights {
  Matrix attention_norm, attention_norm_bias, query_bias, key_bias, value_bias, output_bias, query_norm, key_norm;
  Matrix mlp_norm, mlp_norm_bias, up_bias, down_bias, router;
  Matrix query, key, value, output;
  std::vector<MlpWeights> mlps; ///< one, or one per expert

  LayerWeights() = default;
  /// The image's bytes before `cut` at `head`, the others at `tail` (which is where byte `cut` lies).
  LayerWeights(const LayerLayout& layout, const std::byte* head, const std::byte* tail, std::int64_t cut) {
    point_at(layout, head, tail, cut);
  }
  /// The same in the memory of a layer of that layout: allocates nothing then.
  void point_at(const LayerLayout& layout, const std::byte* head, const std::byte* tail, std::int64_t cut) {
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
    const std::array<Matrix*, 17> single{&attention_norm,
                                         &attention_norm_bias,
                                         &query_bias,
                                         &key_bias,
                                         &value_bias,
                                         &output_bias,
                                         &query_norm,
                                         &key_norm,
                                         &mlp_norm,
                                         &mlp_norm_bias,
                                         &up_bias,
                                         &down_bias,
                                         &router,
                                         &query,
                                         &key,
                                         &value,
                                         &output};
    const auto index = static_cast<std::size_t>(place.tensor);
    if (index < single.size()) return *single[index];
    const auto expert = static_cast<std::size_t>(std::max(0, place.expert));
    if (mlps.size() <= expert) mlps.resize(expert + 1);
    MlpWeights& mlp = mlps[expert];
    return place.tensor == LayerTensor::gate ? mlp.gate : place.tensor == LayerTensor::up ? mlp.up : mlp.down;
  }
};

/// The matrices outside the layers; on the device all the time. In a model without a head of its own, `head` is the
/// embedding.
struct OuterWeights {
  Matrix embedding; ///< vocabulary x hidden
  Matrix positions; ///< learned: positions x hidden
  Matrix final_norm, final_norm_bias;
  Matrix head; ///< vocabulary x hidden

  [[nodiscard]] bool is_head_tied() const { return head.head == embedding.head; }
  /// Lays all one behind the other, each at a multiple of `alignment` bytes: calls `visit(member, at)` for each that
  /// has memory of its own, and returns the bytes of all.
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
  /// The same matrices in the memory at `start`, laid out so.
  [[nodiscard]] OuterWeights moved_to(const std::byte* start, std::int64_t alignment) const {
    OuterWeights moved = *this;
    lay_out(alignment, [&](Matrix OuterWeights::*member, std::int64_t at) {
      const Matrix& matrix = this->*member;
      moved.*member = Matrix::whole(start + at, matrix.rows, matrix.columns, matrix.type);
    });
    if (is_head_tied()) moved.head = moved.embedding;
    return moved;
  }
};

/// A model's weights as they lie on the host: mapped from files, or made. A backend copies the layers that are to be on
/// its device from here, and streams the others from here.
struct ModelWeights : OuterWeights {
  DecoderConfig config;
  LayerLayout layout;
  /// For each layer and place of the layout, where its bytes are.
  std::vector<std::vector<const std::byte*>> layers;
  /// Tells the owner that nothing reads a layer's bytes for now, so that pages of a mapped file need not stay in
  /// memory.
  std::function<void(int layer)> forget = [](int) {};
  std::shared_ptr<const void> owner; ///< keeps what the pointers point to

  /// Embedding, positions, last norm and head: a tied head counts once.
  [[nodiscard]] Bytes outer_bytes() const {
    return Bytes{lay_out(1, [](Matrix OuterWeights::*, std::int64_t) {})};
  }
};

} // namespace sluice
