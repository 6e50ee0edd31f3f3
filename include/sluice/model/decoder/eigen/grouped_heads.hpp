// SPDX-License-Identifier: Apache-2.0
// GroupedHeads: Q, K and V of heads, where groups of query heads share a KV head.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/model/decoder/decoder.hpp"
#include "sluice/model/decoder/eigen/activations.hpp"
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

/// Calls `each(row)` for the rows 0 .. `rows` - 1, some rows per job.
template <class EachRow>
void each_row(ThreadPool& pool, int rows, const EachRow& each) {
  constexpr int job_rows = 8;
  pool.run((rows + job_rows - 1) / job_rows, [&](int part, int /*thread*/) {
    for (int row = part * job_rows; row < std::min(rows, (part + 1) * job_rows); ++row) each(row);
  });
}

/// Where a row's K and V are stored.
struct StoredRow {
  float* block = nullptr; ///< null: they are stored already, or the row belongs to no sequence
  int token = 0;          ///< of the block

  /// `sequence`: the row's, or null.
  [[nodiscard]] static StoredRow of(const SequenceRows* sequence, int row, int block_tokens) {
    if (sequence == nullptr) return {};
    const int position = sequence->position + (row - sequence->first_row);
    if (position < sequence->stored_from) return {};
    return {reinterpret_cast<float*>(sequence->blocks[position / block_tokens]), position % block_tokens};
  }
};

/// `HeadNorm`: of each head's query and key, if the layer has scales for it. `Gated`: `query` yields, head by head, the
/// query and a gate for each number that the head attends.
template <class HeadNorm = RmsNorm, bool Gated = false>
class BasicGroupedHeads {
 public:
  static constexpr bool recurs = false;

  BasicGroupedHeads(const DecoderConfig& config, Tokens block_tokens)
      : shape_(config.shape), epsilon_(config.norm_epsilon), block_tokens_(static_cast<int>(block_tokens.count())) {
    SLUICE_ASSERT(!shape_.has_latents() && config.rope_scaling.score_factor == 1, "K and V of heads");
  }

  /// Computes the queries of the first `rows` rows of `normed`, and stores K and V of `all` rows that are not stored
  /// yet. `sequence_of_row` is null for a row that belongs to none.
  template <class Position>
  void run(ThreadPool& pool, Activations& activations, const LayerWeights& weights, const LayerVectors& vectors,
           const Position& position, std::span<const SequenceRows* const> sequence_of_row, int rows, int all) const {
    project_all(pool, activations, weights, vectors, rows, all);
    each_row(pool, all, [&](int row) {
      if (row < rows && Gated) part_gates(activations, row);
      if (row < rows)
        finish(position, row, activations.query + row * activations.query_stride, shape_.heads, vectors.query_norm);
      const StoredRow to = StoredRow::of(sequence_of_row[static_cast<std::size_t>(row)], row, block_tokens_);
      if (to.block == nullptr) return;
      float* key = activations.key + row * activations.key_stride;
      const float* value = activations.value + row * activations.key_stride;
      finish(position, row, key, shape_.kv_heads, vectors.key_norm);
      for (int head = 0; head < shape_.kv_heads; ++head) {
        float* at = to.block + (std::int64_t{head} * block_tokens_ + to.token) * shape_.head_dim;
        std::copy_n(key + std::int64_t{head} * shape_.head_dim, shape_.head_dim, at);
        std::copy_n(value + std::int64_t{head} * shape_.head_dim, shape_.head_dim,
                    at + std::int64_t{shape_.kv_heads} * block_tokens_ * shape_.head_dim);
      }
    });
  }

  /// The input of the attention's output projection.
  [[nodiscard]] ActivationRows output([[maybe_unused]] ThreadPool& pool, const Activations& activations,
                                      const LayerWeights& /*weights*/, int rows) const {
    if constexpr (Gated)
      each_row(pool, rows, [&](int row) {
        float* attended = activations.attended + row * activations.query_stride;
        const float* gates = activations.gates + row * activations.query_stride;
        const Lanes16 one = Lanes16::all(1.0F);
        for (std::int64_t i = 0; i < std::int64_t{shape_.heads} * shape_.head_dim; i += Lanes16::count) {
          const Lanes16 gate = Lanes16::load(gates + i); // rows have room behind their last number
          (Lanes16::load(attended + i) / (one + exponential(Lanes16::zero() - gate))).store(attended + i);
        }
      });
    return {activations.attended, activations.query_stride, rows};
  }

 private:
  void project_all(ThreadPool& pool, const Activations& activations, const LayerWeights& weights,
                   const LayerVectors& vectors, int rows, int all) const {
    OutputParts parts;
    parts.add(weights.key);
    parts.add(weights.value);
    if (rows > 0) parts.add(weights.query);
    pool.run(parts.count(), [&](int number, int /*thread*/) {
      const OutputParts::Part part = parts.part(number);
      const bool is_query = part.matrix == 2;
      const Matrix& w = is_query ? weights.query : part.matrix == 1 ? weights.value : weights.key;
      const float* bias = is_query ? vectors.query_bias : part.matrix == 1 ? vectors.value_bias : vectors.key_bias;
      float* to = is_query           ? (Gated ? activations.mixed : activations.query)
                  : part.matrix == 1 ? activations.value
                                     : activations.key;
      const std::int64_t stride = !is_query ? activations.key_stride
                                  : Gated   ? activations.mixed_stride
                                            : activations.query_stride;
      const int count = is_query ? rows : all;
      project({activations.normed, activations.hidden_stride, count}, w, part.first, part.last, to, stride);
      for (int r = 0; r < count; ++r) add_bias(bias, part.first, part.last, to + r * stride);
    });
  }
  void part_gates(const Activations& activations, int row) const {
    const float* from = activations.mixed + row * activations.mixed_stride;
    float* query = activations.query + row * activations.query_stride;
    float* gates = activations.gates + row * activations.query_stride;
    for (int head = 0; head < shape_.heads; ++head, from += std::int64_t{2} * shape_.head_dim) {
      std::copy_n(from, shape_.head_dim, query + std::int64_t{head} * shape_.head_dim);
      std::copy_n(from + shape_.head_dim, shape_.head_dim, gates + std::int64_t{head} * shape_.head_dim);
    }
  }
  /// Normalises and rotates heads.
  template <class Position>
  void finish(const Position& position, int row, float* heads, int count, const float* scale) const {
    for (int head = 0; head < count; ++head, heads += shape_.head_dim) {
      if (scale != nullptr) HeadNorm::apply(heads, shape_.head_dim, scale, nullptr, epsilon_, heads);
      position.turn(row, heads);
    }
  }

  ModelShape shape_;
  float epsilon_;
  int block_tokens_;
};
using GroupedHeads = BasicGroupedHeads<>;

} // namespace sluice
