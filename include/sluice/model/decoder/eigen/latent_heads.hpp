// SPDX-License-Identifier: Apache-2.0
// LatentHeads: queries and entries of multi-head latent attention, absorbed.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/model/decoder/decoder.hpp"
#include "sluice/model/decoder/eigen/activations.hpp"
#include "sluice/model/decoder/eigen/grouped_heads.hpp"
#include "sluice/model/decoder/eigen/lanes.hpp"
#include "sluice/model/decoder/eigen/parts.hpp"
#include "sluice/model/decoder/eigen/projection.hpp"
#include "sluice/model/decoder/thread_pool.hpp"
#include "sluice/model/decoder/weights.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice {

/// Multi-head latent attention (DeepSeek-AI, "DeepSeek-V2", 2024, 2.1). A token's entry is its normalised latent c and
/// a rotated key that all heads share. K and V of a head are U c and V c, for the rows of `latent_up`. They are never
/// computed: q . (U c) = (U^T q) . c, so a query becomes an entry's size once, attention runs over entries as over the
/// K of one head, and V is applied to the weighted sum of latents. A decode then reads each entry once for all heads.
///
/// Rejected: K and V expanded for prompts, as servers do to save FLOPs. A row's bits would depend on whether it is
/// computed with a prompt or alone.
class LatentHeads {
 public:
  static constexpr bool recurs = false;

  LatentHeads(const DecoderConfig& config, Tokens block_tokens)
      : shape_(config.shape),
        score_factor_(static_cast<float>(config.rope_scaling.score_factor)),
        block_tokens_(static_cast<int>(block_tokens.count())) {
    SLUICE_ASSERT(shape_.has_latents() && shape_.kv_heads == 1, "entries of latent attention");
  }

  /// Computes the queries of the first `rows` rows of `normed`, and stores the entries of `all` rows that are not
  /// stored yet. `sequence_of_row` is null for a row that belongs to none.
  template <class Position>
  void run(ThreadPool& pool, Activations& activations, const LayerWeights& weights, const LayerVectors& vectors,
           const Position& position, std::span<const SequenceRows* const> sequence_of_row, int rows, int all) const {
    project_all(pool, activations, weights, vectors, rows, all);
    each_row(pool, all, [&](int row) {
      const StoredRow to = StoredRow::of(sequence_of_row[static_cast<std::size_t>(row)], row, block_tokens_);
      if (to.block == nullptr) return;
      float* entry = activations.key + row * activations.key_stride;
      RmsNorm::apply(entry, shape_.latent.rank, vectors.key_norm, nullptr, epsilon, entry);
      position.turn(row, entry + shape_.latent.rank);
      std::copy_n(entry, shape_.kv_width(), to.block + std::int64_t{to.token} * shape_.kv_width());
    });
    if (rows > 0) absorb(pool, activations, weights.latent_up, position, rows);
  }

  /// The input of the attention's output projection: V of each head.
  [[nodiscard]] ActivationRows output(ThreadPool& pool, const Activations& activations, const LayerWeights& weights,
                                      int rows) const {
    const int value = shape_.latent.value;
    pool.run(shape_.heads, [&](int head, int /*thread*/) {
      const Matrix up = weights.latent_up.part(std::int64_t{head} * (plain() + value) + plain(), value);
      project({activations.attended + std::int64_t{head} * shape_.latent.rank, activations.query_stride, rows}, up, 0,
              value, activations.query + std::int64_t{head} * value, activations.query_stride);
    });
    return {activations.query, activations.query_stride, rows};
  }

 private:
  static constexpr float epsilon = 1e-6F; ///< of latents' norms: DeepSeek's classes take it from no config

  /// Numbers of a head's Q and K that do not rotate.
  [[nodiscard]] int plain() const { return shape_.head_dim - shape_.latent.rotated; }

  /// Entries into `key`, heads' queries into `attended`, which attention overwrites only later.
  void project_all(ThreadPool& pool, const Activations& activations, const LayerWeights& weights,
                   const LayerVectors& vectors, int rows, int all) const {
    const ActivationRows normed{activations.normed, activations.hidden_stride, rows};
    const bool down = shape_.latent.query_rank > 0;
    const Matrix& from_normed = down ? weights.query_down : weights.query;
    OutputParts parts;
    parts.add(weights.key);
    if (rows > 0) parts.add(from_normed);
    pool.run(parts.count(), [&](int number, int /*thread*/) {
      const OutputParts::Part part = parts.part(number);
      if (part.matrix == 0)
        project({normed.data, normed.stride, all}, weights.key, part.first, part.last, activations.key,
                activations.key_stride);
      else
        project(normed, from_normed, part.first, part.last, down ? activations.value : activations.attended,
                down ? activations.value_stride : activations.query_stride);
    });
    if (!down || rows == 0) return;
    each_row(pool, rows, [&](int row) {
      float* query = activations.value + row * activations.value_stride;
      RmsNorm::apply(query, shape_.latent.query_rank, vectors.query_norm, nullptr, epsilon, query);
    });
    OutputParts up;
    up.add(weights.query);
    pool.run(up.count(), [&](int number, int /*thread*/) {
      const OutputParts::Part part = up.part(number);
      project({activations.value, activations.value_stride, rows}, weights.query, part.first, part.last,
              activations.attended, activations.query_stride);
    });
  }

  /// Rotates each head's query, and brings its other part to a latent's size: a number of U^T q is summed in ascending
  /// order of the rows of U, whatever the rows beside it.
  template <class Position>
  void absorb(ThreadPool& pool, const Activations& activations, const Matrix& latent_up, const Position& position,
              int rows) const {
    pool.run(shape_.heads, [&](int head, int /*thread*/) {
      const Matrix up = latent_up.part(std::int64_t{head} * (plain() + shape_.latent.value), plain());
      const std::int64_t from = std::int64_t{head} * shape_.head_dim, to = std::int64_t{head} * shape_.kv_width();
      for (int row = 0; row < rows; ++row) {
        float* query = activations.attended + row * activations.query_stride + from;
        float* entry = activations.query + row * activations.query_stride + to;
        for (int i = 0; i < shape_.head_dim; ++i) query[i] *= score_factor_;
        position.turn(row, query + plain());
        std::fill_n(entry, shape_.latent.rank, 0.0F);
        std::copy_n(query + plain(), shape_.latent.rotated, entry + shape_.latent.rank);
      }
      with_type(up.type, [&](auto type) {
        for (int i = 0; i < plain(); ++i)
          for (int row = 0; row < rows; ++row)
            add<decltype(type)::value>(activations.attended[row * activations.query_stride + from + i], up.row(i),
                                       activations.query + row * activations.query_stride + to);
      });
    });
  }
  /// latent += factor * w, for `rank` numbers.
  template <ElementType type>
  void add(float factor, const std::byte* w, float* latent) const {
    const Lanes16 all = Lanes16::all(factor);
    int k = 0;
    for (; k + Lanes16::count <= shape_.latent.rank; k += Lanes16::count)
      fused(all, load_stored<type>(w + k * bytes_of(type)), Lanes16::load(latent + k)).store(latent + k);
    if (k < shape_.latent.rank) {
      const int left = shape_.latent.rank - k;
      store_floats(fused(all, load_stored<type>(w + k * bytes_of(type), left), load_floats(latent + k, left)),
                   latent + k, left);
    }
  }

  ModelShape shape_;
  float score_factor_;
  int block_tokens_;
};

} // namespace sluice
