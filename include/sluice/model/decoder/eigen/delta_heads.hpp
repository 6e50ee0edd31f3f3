// SPDX-License-Identifier: Apache-2.0
// DeltaHeads: heads of the gated delta rule, which keep a state instead of K and V, and gated heads in layers between.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/units.hpp"
#include "sluice/model/decoder/decoder.hpp"
#include "sluice/model/decoder/eigen/activations.hpp"
#include "sluice/model/decoder/eigen/grouped_heads.hpp"
#include "sluice/model/decoder/eigen/lanes.hpp"
#include "sluice/model/decoder/eigen/parts.hpp"
#include "sluice/model/decoder/eigen/projection.hpp"
#include "sluice/model/decoder/thread_pool.hpp"
#include "sluice/model/decoder/weights.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

/// The gated delta rule (Yang et al., "Gated Delta Networks", 2024, equation 10) as Qwen3-Next computes it. A token's
/// Q, K and V pass a causal convolution and SiLU; Q and K get length 1; and each value head, with its matrix S,
/// computes
///
///     S = decay S,  S = S + k (update (v - S^T k))^T,  read S^T q / sqrt(key_dim),
///
/// and normalises and gates what it reads. Layers that attend are BasicGroupedHeads with gates.
///
/// Tokens follow one another in one order, whatever the chunks of a prompt, so a row's bits depend only on the row.
/// Rejected: the chunked form of servers, which multiplies matrices; its sums depend on where a chunk begins.
///
/// The state behind a block's last token lies in this block. A call's first row of a sequence reads the state behind
/// the token before from that token's block; the rows that follow find it in scratch memory.
class DeltaHeads : public BasicGroupedHeads<OffsetRmsNorm, true> {
 public:
  static constexpr bool recurs = true;

  DeltaHeads(const DecoderConfig& config, Tokens block_tokens, int threads)
      : BasicGroupedHeads(config, block_tokens),
        delta_(config.shape.delta),
        joint_(config.joint_states),
        epsilon_(config.norm_epsilon),
        block_tokens_(static_cast<int>(block_tokens.count())),
        scratch_(static_cast<std::size_t>(threads * scratch_floats(config.shape.delta))) {
    SLUICE_ASSERT(delta_.kernel >= 2 && delta_.kernel <= most_kernel, "a convolution over a few tokens");
  }

  [[nodiscard]] static Bytes workspace(const ModelShape& shape, int threads) {
    return Bytes{threads * scratch_floats(shape.delta) * std::int64_t{sizeof(float)}};
  }

  /// Computes what the first `rows` rows of `normed` read, and the states of `all` rows.
  void run_state(ThreadPool& pool, const Activations& activations, const LayerWeights& weights,
                 const LayerVectors& vectors, std::span<const SequenceRows> sequences, int rows, int all) {
    project_all(pool, activations, weights, rows, all);
    order_.clear();
    for (const SequenceRows& sequence : sequences) order_.push_back(&sequence);
    // A sequence's rows may come in parts, of which a later one reads the state that an earlier one leaves.
    std::sort(order_.begin(), order_.end(),
              [](const SequenceRows* a, const SequenceRows* b) { return a->position < b->position; });
    const int chunks = (delta_.channels() + chunk_channels - 1) / chunk_channels;
    pool.run(chunks, [&](int chunk, int /*thread*/) {
      const int first = chunk * chunk_channels, count = std::min(chunk_channels, delta_.channels() - first);
      for (const SequenceRows* const sequence : order_) convolve(activations, vectors, *sequence, first, count);
    });
    pool.run(delta_.value_heads, [&](int head, int thread) {
      float* scratch = scratch_.data() + thread * scratch_floats(delta_);
      for (const SequenceRows* const sequence : order_) recur(activations, vectors, *sequence, head, rows, scratch);
    });
  }
  /// The input of the layer's output projection.
  [[nodiscard]] ActivationRows state_output(const Activations& activations, int rows) const {
    return {activations.attended, activations.query_stride, rows};
  }

 private:
  static constexpr int most_kernel = 8, chunk_channels = 64;

  /// A head's matrix, its Q and K, and what it reads.
  [[nodiscard]] static std::int64_t scratch_floats(const DeltaRule& delta) {
    return std::int64_t{delta.head_numbers()} + 2 * delta.key_dim + delta.value_dim;
  }
  /// Where the state behind the token at `position` lies.
  [[nodiscard]] float* state(const SequenceRows& sequence, int position) const {
    return reinterpret_cast<float*>(sequence.blocks[position / block_tokens_]);
  }
  /// Whether the state behind row `row` of a sequence is stored: the last of its block, or of these rows.
  [[nodiscard]] bool stores(const SequenceRows& sequence, int row) const {
    const int next = sequence.position + row + 1;
    return next > sequence.stored_from && (next % block_tokens_ == 0 || row + 1 == sequence.rows);
  }

  void project_all(ThreadPool& pool, const Activations& activations, const LayerWeights& weights, int rows,
                   int all) const {
    if (joint_) return project_joint(pool, activations, weights, rows, all);
    OutputParts parts;
    parts.add(weights.mixed);
    parts.add(weights.update);
    parts.add(weights.decay);
    if (rows > 0) parts.add(weights.state_gate);
    pool.run(parts.count(), [&](int number, int /*thread*/) {
      const OutputParts::Part part = parts.part(number);
      const ActivationRows normed{activations.normed, activations.hidden_stride, part.matrix == 3 ? rows : all};
      const auto to = [&](const Matrix& w, float* y, std::int64_t stride) {
        project(normed, w, part.first, part.last, y, stride);
      };
      if (part.matrix == 0) to(weights.mixed, activations.mixed, activations.mixed_stride);
      if (part.matrix == 1) to(weights.update, activations.rates, activations.rates_stride);
      if (part.matrix == 2) to(weights.decay, activations.rates + delta_.value_heads, activations.rates_stride);
      if (part.matrix == 3) to(weights.state_gate, activations.gates, activations.query_stride);
    });
  }

  /// Outputs of a joint matrix that are consecutive in `to` as well.
  struct Outputs {
    float* to;
    std::int64_t stride;
    std::int64_t count;
    bool gates; ///< only rows that are mixed need them
  };
  /// From output `at` of `mixed` on: for each key head come its Q, its K, and its value heads' V and gates.
  [[nodiscard]] Outputs mixed_from(const Activations& activations, std::int64_t at) const {
    const std::int64_t keys = delta_.key_dim, all_keys = keys * delta_.key_heads;
    const std::int64_t values = std::int64_t{delta_.value_heads / delta_.key_heads} * delta_.value_dim;
    const std::int64_t head = at / (2 * (keys + values));
    at -= head * 2 * (keys + values);
    const auto channels = [&](std::int64_t channel, std::int64_t count) {
      return Outputs{activations.mixed + channel, activations.mixed_stride, count, false};
    };
    if (at < keys) return channels(head * keys + at, keys - at);
    if (at -= keys; at < keys) return channels(all_keys + head * keys + at, keys - at);
    if (at -= keys; at < values) return channels(2 * all_keys + head * values + at, values - at);
    at -= values;
    return {activations.gates + head * values + at, activations.query_stride, values - at, true};
  }
  /// The same of `update`: for each key head come its value heads' updates, and their decays.
  [[nodiscard]] Outputs rates_from(const Activations& activations, std::int64_t at) const {
    const std::int64_t heads = delta_.value_heads / delta_.key_heads, head = at / (2 * heads);
    at -= head * 2 * heads;
    const std::int64_t to = at < heads ? head * heads + at : delta_.value_heads + head * heads + at - heads;
    return {activations.rates + to, activations.rates_stride, (at < heads ? heads : 2 * heads) - at, false};
  }
  void project_joint(ThreadPool& pool, const Activations& activations, const LayerWeights& weights, int rows,
                     int all) const {
    OutputParts parts;
    parts.add(weights.mixed);
    parts.add(weights.update);
    pool.run(parts.count(), [&](int number, int /*thread*/) {
      const OutputParts::Part part = parts.part(number);
      const bool mixed = part.matrix == 0;
      const Matrix& w = mixed ? weights.mixed : weights.update;
      for (std::int64_t at = part.first, count = 0; at < part.last; at += count) {
        const Outputs next = mixed ? mixed_from(activations, at) : rates_from(activations, at);
        count = std::min(next.count, part.last - at);
        const ActivationRows normed{activations.normed, activations.hidden_stride, next.gates ? rows : all};
        if (normed.count > 0) project(normed, w.part(at, count), 0, count, next.to, next.stride);
      }
    });
  }

  /// The channels `first` .. `first + count` - 1 of a sequence's rows; stores the last inputs.
  void convolve(const Activations& activations, const LayerVectors& vectors, const SequenceRows& sequence, int first,
                int count) const {
    const int before = delta_.kernel - 1;
    const std::int64_t tail = std::int64_t{delta_.value_heads} * delta_.head_numbers() + first;
    using Channels = std::array<float, chunk_channels>;
    std::array<Channels, most_kernel - 1> old{}; // of the tokens before the first row; of a beginning zeros
    if (sequence.position > 0)
      for (int i = 0; i < before; ++i)
        std::copy_n(state(sequence, sequence.position - 1) + tail + std::int64_t{i} * delta_.channels(), count,
                    old[static_cast<std::size_t>(i)].data());
    std::array<Channels, most_kernel> factors{}; // the oldest token's first
    for (int i = 0; i < delta_.kernel; ++i)
      for (int c = 0; c < count; ++c)
        factors[static_cast<std::size_t>(i)][static_cast<std::size_t>(c)] =
            vectors.convolution[std::int64_t{first + c} * delta_.kernel + i];
    const auto input = [&](int row) -> const float* {
      return row < 0 ? (old.begin() + before + row)->data()
                     : activations.mixed + (sequence.first_row + row) * activations.mixed_stride + first;
    };
    for (int row = 0; row < sequence.rows; ++row) {
      float* to = activations.convolved + (sequence.first_row + row) * activations.mixed_stride + first;
      for (int c = 0; c < count; c += Lanes16::count) {
        const int left = std::min(Lanes16::count, count - c);
        Lanes16 sum = Lanes16::zero();
        for (int i = 0; i < delta_.kernel; ++i)
          sum = fused(Lanes16::load(factors[static_cast<std::size_t>(i)].data() + c),
                      load_floats(input(row - before + i) + c, left), sum);
        store_floats(silu(sum), to + c, left);
      }
      if (!stores(sequence, row)) continue;
      for (int i = 0; i < before; ++i)
        std::copy_n(input(row - before + 1 + i), count,
                    state(sequence, sequence.position + row) + tail + std::int64_t{i} * delta_.channels());
    }
  }

  /// One value head of a sequence's rows.
  void recur(const Activations& activations, const LayerVectors& vectors, const SequenceRows& sequence, int head,
             int rows, float* scratch) const {
    const int keys = delta_.key_dim, values = delta_.value_dim;
    const std::int64_t numbers = delta_.head_numbers();
    float* matrix = scratch;
    float* query = matrix + numbers;
    float* key = query + keys;
    float* read = key + keys;
    const std::int64_t own_keys = std::int64_t{head / (delta_.value_heads / delta_.key_heads)} * keys;
    const std::int64_t all_keys = std::int64_t{delta_.key_heads} * keys;
    if (sequence.position == 0)
      std::fill_n(matrix, numbers, 0.0F);
    else
      std::copy_n(state(sequence, sequence.position - 1) + head * numbers, numbers, matrix);
    for (int i = 0; i < sequence.rows; ++i) {
      const int row = sequence.first_row + i;
      const float* channels = activations.convolved + row * activations.mixed_stride;
      unit(channels + own_keys, 1.0F / std::sqrt(static_cast<float>(keys)), query);
      unit(channels + all_keys + own_keys, 1.0F, key);
      const float* value = channels + 2 * all_keys + std::int64_t{head} * values;
      const Rates rates = rates_of(activations.rates + row * activations.rates_stride, vectors, head);
      for (int v = 0; v < values; v += Lanes16::count)
        step(matrix + v, {query, key, value + v, read + v}, rates, std::min(Lanes16::count, values - v));
      if (row < rows) {
        const std::int64_t at = row * activations.query_stride + std::int64_t{head} * values;
        RmsNorm::apply(read, values, vectors.state_norm, nullptr, epsilon_, read);
        for (int v = 0; v < values; v += Lanes16::count) {
          const int left = std::min(Lanes16::count, values - v);
          store_floats(load_floats(read + v, left) * silu(load_floats(activations.gates + at + v, left)),
                       activations.attended + at + v, left);
        }
      }
      if (stores(sequence, i)) std::copy_n(matrix, numbers, state(sequence, sequence.position + i) + head * numbers);
    }
  }
  struct Rates {
    float decay;
    float update;
  };
  /// exp(-e^decay_log softplus(decay + decay_bias)) and sigmoid(update), in double precision: two numbers per head.
  [[nodiscard]] Rates rates_of(const float* rates, const LayerVectors& vectors, int head) const {
    const double open = static_cast<double>(rates[delta_.value_heads + head] + vectors.decay_bias[head]);
    const double softplus = std::max(open, 0.0) + std::log1p(std::exp(-std::abs(open)));
    return {static_cast<float>(std::exp(-std::exp(static_cast<double>(vectors.decay_log[head])) * softplus)),
            static_cast<float>(1 / (1 + std::exp(-static_cast<double>(rates[head]))))};
  }
  /// to = factor * x / |x|.
  void unit(const float* x, float factor, float* to) const {
    constexpr float epsilon = 1e-6F; // the class takes it from no config
    const float squares =
        detail::row_sum(x, delta_.key_dim, [](const Lanes16& a, const Lanes16& b) { return fused(a, a, b); });
    const float scale = factor / std::sqrt(squares + epsilon);
    for (int i = 0; i < delta_.key_dim; ++i) to[i] = x[i] * scale;
  }
  struct Vectors {
    const float* query;
    const float* key;
    const float* value;
    float* read;
  };
  /// One token, in `left` columns of the matrix. Sums are over the matrix's rows, ascending.
  void step(float* matrix, const Vectors& of, const Rates& rates, int left) const {
    const Lanes16 decay = Lanes16::all(rates.decay);
    Lanes16 known = Lanes16::zero(), read = Lanes16::zero();
    for (int k = 0; k < delta_.key_dim; ++k)
      known = fused(Lanes16::all(of.key[k]), decay * load_floats(matrix + k * delta_.value_dim, left), known);
    const Lanes16 change = (load_floats(of.value, left) - known) * Lanes16::all(rates.update);
    for (int k = 0; k < delta_.key_dim; ++k) {
      float* at = matrix + k * delta_.value_dim;
      const Lanes16 next = fused(Lanes16::all(of.key[k]), change, decay * load_floats(at, left));
      store_floats(next, at, left);
      read = fused(Lanes16::all(of.query[k]), next, read);
    }
    store_floats(read, of.read, left);
  }

  DeltaRule delta_;
  bool joint_;
  float epsilon_;
  int block_tokens_;
  std::vector<float> scratch_; // by thread
  std::vector<const SequenceRows*> order_;
};

} // namespace sluice
