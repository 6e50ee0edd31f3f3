// SPDX-License-Identifier: Apache-2.0
// BasicDecoder: a decoder composed from a norm, a position encoding, heads, an attention and an MLP.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/model/decoder/decoder.hpp"
#include "sluice/model/decoder/eigen/activations.hpp"
#include "sluice/model/decoder/eigen/grouped_heads.hpp"
#include "sluice/model/decoder/eigen/host_lane.hpp"
#include "sluice/model/decoder/eigen/parts.hpp"
#include "sluice/model/decoder/eigen/projection.hpp"
#include "sluice/model/decoder/thread_pool.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace sluice {

/// Pre-norm layers: x += attention(norm(x)), x += mlp(norm(x)).
///
/// `Norm`: apply(x, count, scale, bias, epsilon, y). `Position`: constructed from the configuration and the learned
/// table; floats(rows), begin(positions, room), embed(position, hidden row), turn(row, head). `Attention`: constructed
/// from the shape, a block's tokens and the threads; workspace(shape, rows, threads), run(…). `Mlp`: constructed from
/// the configuration; workspace(config, rows), run(…). `Heads`: constructed from the configuration and a block's
/// tokens; run(…), output(…). If `Heads::recurs`, its run_state(…) and state_output(…) replace these and the attention
/// in layers of `shape.delta`, and its workspace(shape, threads) is counted.
template <class Norm, class Position, class Attention, class Mlp, class Heads = GroupedHeads>
class BasicDecoder final : public Decoder {
 public:
  using norm_type = Norm;
  using position_type = Position;
  using attention_type = Attention;
  using mlp_type = Mlp;

  /// Keeps the addresses of the matrices outside the layers: their bytes must outlive the decoder.
  BasicDecoder(const ModelWeights& weights, Tokens block_tokens, int threads)
      : config_(weights.config),
        block_tokens_(static_cast<int>(block_tokens.count())),
        embedding_(weights.embedding),
        head_(weights.head),
        final_norm_(widened_vector(weights.final_norm)),
        final_norm_bias_(widened_vector(weights.final_norm_bias)),
        pool_(threads),
        position_(config_, weights.positions),
        heads_(make_heads(block_tokens)),
        attention_(config_.shape, block_tokens, threads),
        mlp_(config_),
        activations_(config_.shape),
        vectors_(config_.shape) {}

  [[nodiscard]] const DecoderConfig& config() const override { return config_; }

  /// Logits need no room of their own: a sampled row is one of the rows.
  [[nodiscard]] Bytes workspace(std::int64_t rows, std::int64_t /*samples*/) const override {
    const std::int64_t floats = activations_.floats(rows) + position_.floats(rows) +
                                LayerVectors::floats(config_.shape) +
                                static_cast<std::int64_t>(final_norm_.size() + final_norm_bias_.size());
    const auto indexes = rows * std::int64_t{sizeof(void*)}; // of sequence_of_row_
    return Bytes{floats * std::int64_t{sizeof(float)} + indexes} +
           Attention::workspace(config_.shape, rows, pool_.threads()) + Mlp::workspace(config_, rows) +
           heads_workspace();
  }

  void begin(std::span<const std::int32_t> tokens, std::span<const std::int32_t> positions) override {
    SLUICE_ASSERT(tokens.size() == positions.size(), "a position for every token");
    rows_ = static_cast<int>(tokens.size());
    if (rows_ > activations_.rows()) {
      activations_.reserve(rows_);
      angles_ = {};
      angles_.resize(static_cast<std::size_t>(position_.floats(rows_)));
      sequence_of_row_ = {};
      sequence_of_row_.resize(tokens.size());
    }
    position_.begin(positions, angles_.data());
    for (int row = 0; row < rows_; ++row) {
      const auto at = static_cast<std::size_t>(row);
      SLUICE_ASSERT(tokens[at] >= 0 && tokens[at] < embedding_.rows, "a token of the vocabulary");
      widen(embedding_.row(tokens[at]), embedding_.type, embedding_.columns, hidden(row));
      position_.embed(positions[at], hidden(row));
    }
  }

  void layer(int layer, const LayerWeights& weights, std::span<const SequenceRows> sequences, int rows,
             int stored_rows) override {
    const int all = rows + stored_rows;
    SLUICE_ASSERT(all <= rows_, "rows that the iteration began with");
    lane_times_ = {};
    vectors_.read(weights);
    std::fill(sequence_of_row_.begin(), sequence_of_row_.end(), nullptr);
    for (const SequenceRows& sequence : sequences) {
      for (int row = sequence.first_row; row < sequence.first_row + sequence.rows; ++row)
        sequence_of_row_[static_cast<std::size_t>(row)] = &sequence;
    }
    normalise(all, vectors_.attention_norm, vectors_.attention_norm_bias);
    const ActivationRows mixed = mix(layer, weights, sequences, rows, all);
    if (rows == 0) return;
    add_projection(pool_, activations_, weights.output, vectors_.output_bias, mixed);
    normalise(rows, vectors_.mlp_norm, vectors_.mlp_norm_bias);
    mlp_.run(pool_, activations_, weights, vectors_, rows);
  }

  [[nodiscard]] bool has_host_lane() const override { return !Heads::recurs; }
  void open_host_lane() override {
    if (lane_ == nullptr) lane_ = std::make_unique<HostLane<Attention>>(config_.shape, Tokens{block_tokens_});
  }
  [[nodiscard]] HostLaneTimes host_lane_times() const override { return lane_times_; }

  [[nodiscard]] std::span<float> hidden_state(int row) override {
    SLUICE_ASSERT(row >= 0 && row < rows_, "a row that the iteration began with");
    return {hidden(row), static_cast<std::size_t>(config_.shape.hidden)};
  }

  void logits(std::span<const int> rows, std::span<float> logits) override {
    SLUICE_ASSERT(logits.size() == rows.size() * static_cast<std::size_t>(head_.rows), "a row of logits for each row");
    const auto room = static_cast<std::size_t>(std::max<std::int64_t>(1, activations_.rows()));
    for (std::size_t first = 0; first < rows.size(); first += room) {
      const int count = static_cast<int>(std::min(room, rows.size() - first));
      for (int i = 0; i < count; ++i) {
        Norm::apply(hidden(rows[first + static_cast<std::size_t>(i)]), config_.shape.hidden, final_norm_.data(),
                    final_norm_bias_.data(), config_.norm_epsilon, normed(i));
      }
      float* to = logits.data() + first * static_cast<std::size_t>(head_.rows);
      OutputParts parts;
      parts.add(head_);
      pool_.run(parts.count(), [&](int number, int /*thread*/) {
        const OutputParts::Part part = parts.part(number);
        project({activations_.normed, activations_.hidden_stride, count}, head_, part.first, part.last, to, head_.rows);
      });
    }
  }

 private:
  [[nodiscard]] static std::vector<float> widened_vector(const Matrix& vector) {
    std::vector<float> floats(static_cast<std::size_t>(vector.empty() ? 0 : vector.columns));
    if (!vector.empty()) widen(vector.row(0), vector.type, vector.columns, floats.data());
    return floats;
  }
  [[nodiscard]] Heads make_heads(Tokens block_tokens) const {
    if constexpr (Heads::recurs)
      return Heads{config_, block_tokens, pool_.threads()};
    else
      return Heads{config_, block_tokens};
  }
  [[nodiscard]] Bytes heads_workspace() const {
    if constexpr (Heads::recurs)
      return Heads::workspace(config_.shape, pool_.threads());
    else
      return Bytes{0};
  }
  [[nodiscard]] float* hidden(int row) { return activations_.hidden + row * activations_.hidden_stride; }
  [[nodiscard]] float* normed(int row) { return activations_.normed + row * activations_.hidden_stride; }

  void normalise(int rows, const float* scale, const float* bias) {
    each_row(pool_, rows, [&](int row) {
      Norm::apply(hidden(row), config_.shape.hidden, scale, bias, config_.norm_epsilon, normed(row));
    });
  }

  /// What tokens take from earlier ones, for `rows` rows; nothing if there are none.
  [[nodiscard]] ActivationRows mix(int layer, const LayerWeights& weights, std::span<const SequenceRows> sequences,
                                   int rows, int all) {
    if constexpr (Heads::recurs)
      if (config_.shape.delta.layers.contains(layer)) {
        heads_.run_state(pool_, activations_, weights, vectors_, sequences, rows, all);
        return heads_.state_output(activations_, rows);
      }
    heads_.run(pool_, activations_, weights, vectors_, position_, sequence_of_row_, rows, all);
    if (rows == 0) return {};
    attend(sequences, rows, config_.window(layer));
    return heads_.output(pool_, activations_, weights, rows);
  }
  /// The host's lane attends its rows while this thread and the pool attend the others.
  void attend(std::span<const SequenceRows> sequences, int rows, int window) {
    const auto attend_own = [&](std::span<const SequenceRows> own) {
      attention_.run(pool_, own, rows, window, activations_.query, activations_.attended, activations_.query_stride);
    };
    const auto is_hosted = [](const SequenceRows& sequence) { return sequence.on_host; };
    if (std::none_of(sequences.begin(), sequences.end(), is_hosted)) return attend_own(sequences);
    hosted_.clear();
    own_.clear();
    for (const SequenceRows& sequence : sequences) (is_hosted(sequence) ? hosted_ : own_).push_back(sequence);
    SLUICE_ASSERT(lane_ != nullptr, "rows for the host only after `open_host_lane`");
    lane_->begin(hosted_, window, activations_.query, activations_.query_stride);
    const EndOfBatch end{*this};
    attend_own(own_);
  }
  /// Ends the lane's batch, also if the device's attention throws: the lane reads blocks that the caller may free.
  struct EndOfBatch {
    BasicDecoder& decoder;
    explicit EndOfBatch(BasicDecoder& of) : decoder(of) {}
    EndOfBatch(const EndOfBatch&) = delete;
    EndOfBatch& operator=(const EndOfBatch&) = delete;
    ~EndOfBatch() {
      decoder.lane_times_ = decoder.lane_->end(decoder.activations_.attended, decoder.activations_.query_stride);
    }
  };

  DecoderConfig config_;
  int block_tokens_;
  Matrix embedding_;
  Matrix head_;
  std::vector<float> final_norm_;
  std::vector<float> final_norm_bias_;
  ThreadPool pool_;
  Position position_;
  Heads heads_;
  Attention attention_;
  Mlp mlp_;
  Activations activations_;
  LayerVectors vectors_;
  std::vector<float> angles_; // of the positions
  std::vector<const SequenceRows*> sequence_of_row_;
  std::vector<SequenceRows> hosted_, own_; // of the layer: whose rows the host attends, and the others
  std::unique_ptr<HostLane<Attention>> lane_;
  HostLaneTimes lane_times_; // of the layer
  int rows_ = 0;
};

} // namespace sluice
