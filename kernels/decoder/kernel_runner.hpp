// SPDX-License-Identifier: Apache-2.0
// KernelRunner: computes a decoder's passes with this project's kernels, on a GPU's stream or the emulator's.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/units.hpp"
#include "sluice/model/decoder/model_runner.hpp"
#include "sluice/model/decoder/sampler.hpp"

#include "kernels/decoder/kernel_queue.hpp"
#include "kernels/decoder/runner_room.hpp"
#include "kernels/decoder/staging.hpp"
#include "kernels/rows/rope_and_store.hpp"
#include "kernels/sample/sample.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace sluice::kernels {

// sample_way: converts the arguments of the host's sampler to Sample's parameters for a row.

/// For the token at `position` of `sequence`: with it `Sample` chooses the same token as `sluice::sample`.
[[nodiscard]] inline SampleWay sample_way(const Sampling& sampling, std::uint64_t sequence, std::int64_t position) {
  SLUICE_ASSERT(check(sampling).ok(), "a valid Sampling");
  if (!(sampling.temperature > 0)) return {};
  return {sampling_scale(sampling.temperature), sampling_share(sampling.top_p),
          sluice::detail::sampling_draw(sampling.seed, sequence, position), sampling.top_k};
}

/// The compile-time configuration of the runner's kernels. Norm, positions, MLP, biases, groups and block sizes come
/// from the model at run time.
struct KernelRunnerConfig {
  ElementType element = ElementType::bf16; ///< of weights, activations, K and V; logits are f32
  int head_dim = 128;
};

/// The ModelRunner of a GPU. Everything is enqueued on one queue, so kernels need no waits between each other. A layer
/// is nine launches (fourteen with experts), and at most three more for attention; or a part of a graph. Hidden states
/// that a layer keeps or starts from take one more launch and one more upload. Final norm, head and sampler are at
/// least three.
///
/// **Uploads.** An iteration's tokens, rows and attention tiles, the new entries of block tables, and how the expected
/// rows are sampled, are uploaded once, before the first layer. Tables stay on the device (KeptTables), so a decode
/// step uploads what is new and not what is there. A layer has an upload of its own only if its rows, its experts'
/// places or its blocks were not known by then: blocks that the link brings for this iteration, tables that the device
/// has no room to keep.
///
/// **A row's bits depend only on that row**, on one runner, because this holds for each kernel (docs/kernels.md):
/// products use our own tiles, of any size; attention uses segments at fixed positions; and the addresses of matrices,
/// blocks and biases affect the choice of launches, never the order of sums. The exception is fast products
/// (`KernelRunnerLimits::products`), which the queue's library computes. Experts' products always use our own tiles,
/// since only the device knows how many rows an expert has.
///
/// **Reuse of the host's memory.** Tables and tokens are staged in pinned memory, in which an iteration writes no byte
/// twice. `begin` waits for the ticket recorded after the previous iteration and starts over. This is the only wait for
/// reuse (`QueueWait::reuse`), and it rarely blocks: a caller that has the iteration's tokens has already waited. On
/// the device, tables overwrite earlier ones in the queue's order.
///
/// **Graphs.** If a layer only computes every row of a small iteration (usually decodes), its launches go to the queue
/// as a sequence, together with those of such layers before it, up to the last `give`, and the embedding before the
/// first. If all layers of an iteration were such, the launches for its samples are a sequence, too, or the end of the
/// layers' if `give` was not called. The queue may replay a sequence as a graph (LaunchGraphs). Their parameters are
/// therefore kept equal from iteration to iteration: rows, attention tiles and tiles to merge are rounded up, and
/// tables stay at the same addresses, with their contents uploaded before. The results of padding rows are not read;
/// tiles beyond the last have no rows.
///
/// No step allocates on the device: all buffers are in the memory given to `place`, whose size `workspace` returns.
template <KernelQueue Queue, KernelRunnerConfig config_>
class KernelRunner final : public ModelRunner {
 public:
  using T = ElementOf<config_.element>;

  /// A runner that can compute once `place` has given it memory.
  KernelRunner(Queue queue, const DecoderConfig& config, const KernelRunnerLimits& limits)
      : queue_(std::move(queue)), config_of_model_(config), limits_(limits) {
    SLUICE_ASSERT(shape().head_dim == config_.head_dim, "the head size that the kernels are compiled for");
    SLUICE_ASSERT(shape().heads % shape().kv_heads == 0, "query heads in groups");
  }
  /// A runner with its memory: `weights` hold its configuration, and the matrices outside the layers, on the device.
  KernelRunner(Queue queue, const ModelWeights& weights, const KernelRunnerLimits& limits, std::span<std::byte> arena)
      : KernelRunner(std::move(queue), weights.config, limits) {
    KernelRunner::place({arena, weights});
  }
  void place(const RunnerMemory& memory) override {
    SLUICE_ASSERT(reinterpret_cast<std::uintptr_t>(memory.workspace.data()) % 256 == 0, "at a multiple of 256 bytes");
    arena_ = memory.workspace;
    outer_ = memory.weights;
    const std::vector<double> turns = rope_turns(config_of_model_);
    room_ = room_for(0, 0);
    if (fast())
      queue_.lend({at<std::byte>(room_.library), static_cast<std::size_t>(RunnerRoom::library_bytes(limits_))});
    if (!turns.empty()) {
      StagedBlock block =
          staging_.block(queue_, StagedBlock::bytes_of<double>(turns.size()), at<std::byte>(room_.turns));
      std::copy(turns.begin(), turns.end(), block.take<double>(turns.size()).host);
      staging_.upload(block);
      staging_.flush(queue_, nullptr);
    }
    constexpr std::size_t count = RunnerRoom::most_arrivals;
    StagedBlock zeros = staging_.block(queue_, StagedBlock::bytes_of<int>(count), at<std::byte>(room_.arrivals));
    std::fill_n(zeros.take<int>(count).host, count, 0);
    staging_.upload(zeros);
    staging_.flush(queue_, nullptr);
    kept_ = KeptTables{shape().layers, RunnerRoom::kept_entries(config_of_model_, limits_)};
    first_blocks_.resize(static_cast<std::size_t>(shape().layers));
    has_own_.assign(static_cast<std::size_t>(shape().layers), true);
    expert_places_.resize(static_cast<std::size_t>(shape().layers));
    end_iteration();
  }

  /// Waits, since the device may still copy from the runner's memory.
  ~KernelRunner() override {
    if (!ended_) end_iteration();
    queue_.wait(end_, QueueWait::reuse);
  }

  [[nodiscard]] const DecoderConfig& config() const override { return config_of_model_; }
  [[nodiscard]] std::optional<GraphCounts> graphs() const override { return queue_.graph_counts(); }

  [[nodiscard]] static Bytes workspace(const DecoderConfig& config, const KernelRunnerLimits& limits, std::int64_t rows,
                                       std::int64_t samples) {
    return Bytes{RunnerRoom{config, bytes_of(config_.element), limits, rows, samples}.bytes};
  }
  [[nodiscard]] Bytes workspace(std::int64_t rows, std::int64_t samples) const override {
    return workspace(config_of_model_, limits_, rows, samples);
  }

  void begin(std::span<const std::int32_t> tokens, std::span<const std::int32_t> positions) override {
    SLUICE_ASSERT(tokens.size() == positions.size(), "a position for every token");
    if (!ended_) end_iteration();
    queue_.wait(end_, QueueWait::reuse);
    staging_.restart();
    ended_ = false;
    given_rows_ = live_rows_ = static_cast<int>(tokens.size());
    rows_ = static_cast<int>(limits_.padded(given_rows_));
    steady_ = given_rows_ <= limits_.graph_rows;
    adds_scattered_ = false;
    room_ = room_for(rows_, 0);
    StagedBlock block = staging_.block(queue_, 2 * StagedBlock::bytes_of<int>(static_cast<std::size_t>(rows_)),
                                       at<std::byte>(room_.given));
    const Staged<int> given = block.take<int>(static_cast<std::size_t>(rows_));
    const Staged<int> where = block.take<int>(static_cast<std::size_t>(rows_));
    std::fill_n(given.host, rows_, 0); // padding rows have the first token of the vocabulary
    std::fill_n(where.host, rows_, 0);
    for (std::size_t row = 0; row < tokens.size(); ++row) {
      SLUICE_ASSERT(tokens[row] >= 0 && tokens[row] < shape().vocabulary, "a token of the vocabulary");
      SLUICE_ASSERT(positions[row] >= 0 && positions[row] < config_of_model_.max_positions, "a position of the model");
      given.host[row] = tokens[row];
      where.host[row] = positions[row];
    }
    staging_.upload(block);
    token_of_row_ = given.device;
    position_of_row_ = where.device;
    embedded_ = false;
    staged_samples_ = 0;
    listed_.clear();
    if (std::exchange(listed_rows_, rows_) != rows_) // the lists are elsewhere
      for (std::vector<int>& list : first_blocks_) list.clear();
  }

  void announce(std::span<const GrownTable> tables) override {
    for (const GrownTable& grown : tables) {
      KeptTables::Table* const table = kept_.find(grown.layer, grown.table);
      if (table == nullptr || grown.blocks > table->room) continue;
      if (staging_.waiting() >= RunnerRoom::most_changes) return;
      update(*table, grown.known, grown.blocks, grown.addresses);
    }
  }

  void expect(std::span<const SampleRow> rows) override {
    if (!rows.empty()) stage_samples(rows);
  }

  void restore(std::span<const HiddenRows> rows) override {
    if (rows.empty()) return;
    upload();
    embed();
    // The experts' results of the last layer are added now, to the residual in memory, in its row order; this changes
    // no bit of the remaining rows.
    if (adds_scattered_) normalise(outer_.final_norm, outer_.final_norm_bias, live_rows_);
    copy_states(rows, [](const HiddenRows& some, T* row) { return CopySegment{some.states, row, 0}; });
  }

  void launch_layer(int layer, const LayerWeights& weights, std::span<const SequenceRows> sequences, int rows,
                    int stored_rows, std::span<const HiddenRows> kept) override {
    SLUICE_ASSERT(layer >= 0 && layer < shape().layers, "a layer of the model");
    SLUICE_ASSERT(rows >= 0 && stored_rows >= 0 && rows + stored_rows <= given_rows_,
                  "rows that the iteration began with");
    live_rows_ = rows;
    const int all = rows + stored_rows;
    if (all == 0) return;
    const bool first = listed_.empty();
    list_rows(sequences, rows, all, kept.empty());
    list_blocks(layer, sequences);
    if (first && steady_) expect_first_blocks(layer, sequences);
    if (experts()) list_experts(layer, weights);
    tables_.head_biases = head_biases(weights);
    upload();
    if (steady_) {
      queue_.graph(GraphPlace{layer, rows_, tables_.tile_counts[0], tables_.merged_counts[0]}, [&] {
        embed();
        launch_kernels(weights, tables_, rows_, rows_, kept);
      });
    } else {
      embed();
      launch_kernels(weights, tables_, rows, all, kept);
    }
  }

  void give() override { queue_.give(); }

  void launch_samples(std::span<const SampleRow> rows) override {
    samples_ = rows.size();
    fetched_ = false;
    if (rows.empty()) return end_iteration();
    const std::size_t token_bytes = StagedBlock::bytes_of<int>(samples_);
    if (tokens_.size() < token_bytes) tokens_ = queue_.host(2 * token_bytes);
    SLUICE_ASSERT(std::all_of(rows.begin(), rows.end(),
                              [this](const SampleRow& one) { return one.row >= 0 && one.row < live_rows_; }),
                  "rows of the last layer");
    if (!staged(rows)) stage_samples(rows);
    upload();
    if (steady_)
      queue_.graph(GraphPlace{shape().layers, rows_, static_cast<int>(samples_), 0}, [this] { sample(); });
    else
      sample();
    end_iteration();
  }

  [[nodiscard]] std::span<const std::int32_t> tokens() override {
    if (samples_ == 0) return {};
    queue_.wait(end_, QueueWait::results);
    return {reinterpret_cast<const std::int32_t*>(tokens_.data()), samples_};
  }

  [[nodiscard]] std::span<const float> logits(std::size_t sample) override {
    SLUICE_ASSERT(sample < samples_, "a row that was sampled");
    const auto width = static_cast<std::size_t>(shape().vocabulary);
    if (!fetched_) {
      SLUICE_ASSERT(ended_, "logits of an iteration after which none has begun");
      const std::size_t bytes = samples_ * width * sizeof(float);
      if (logits_.size() < bytes) logits_ = queue_.host(bytes);
      queue_.copy(logits_.data(), at<float>(room_.logits), bytes);
      queue_.wait(queue_.record(), QueueWait::results);
      fetched_ = true;
    }
    return {reinterpret_cast<const float*>(logits_.data()) + sample * width, width};
  }

 private:
  /// A layer's tables, on the device; and the tiles of its attention, once for kernels of one warp and once for those
  /// of four. What depends only on its rows is the same for all layers with these rows.
  struct Tables {
    const int* sequences = nullptr;   ///< [rows]
    const int* stored_from = nullptr; ///< [sequences]
    const AttentionTile* tiles[2] = {};
    const AttentionTile* merged[2] = {};
    int tile_counts[2] = {}, merged_counts[2] = {};

    const int* first_block = nullptr; ///< [sequences]
    void* const* blocks = nullptr;
    const void* head_biases = nullptr;           ///< of queries, keys and values, one after the other
    const ProductWeights* gate_and_up = nullptr; ///< [experts]; only gate if there is `up`
    const ProductWeights* up = nullptr;          ///< [experts]; null: gate and up are one product
    const ProductWeights* down = nullptr;        ///< [experts]
  };

  [[nodiscard]] const ModelShape& shape() const { return config_of_model_.shape; }
  [[nodiscard]] int group() const { return shape().heads / shape().kv_heads; }
  [[nodiscard]] int queries() const { return shape().heads * shape().head_dim; }
  [[nodiscard]] int keys() const { return shape().kv_heads * shape().head_dim; }
  [[nodiscard]] bool gated() const { return config_of_model_.mlp != MlpKind::relu; }
  [[nodiscard]] bool fast() const { return limits_.products == Products::fast; }
  [[nodiscard]] bool experts() const { return config_of_model_.mlp == MlpKind::experts; }
  [[nodiscard]] int mlp() const { return experts() ? shape().moe_intermediate : shape().mlp; }

  template <class Number>
  [[nodiscard]] Number* at(std::int64_t offset) const {
    return reinterpret_cast<Number*>(arena_.data() + offset);
  }
  [[nodiscard]] RunnerRoom room_for(std::int64_t rows, std::int64_t samples) const {
    const RunnerRoom room{config_of_model_, bytes_of(config_.element), limits_, rows, samples};
    SLUICE_ASSERT(room.bytes <= static_cast<std::int64_t>(arena_.size()), "an arena with room for the iteration");
    return room;
  }
  /// The address of a matrix outside the layers, or of a vector; null if the model has none.
  [[nodiscard]] static const void* data(const Matrix& matrix) {
    if (matrix.empty()) return nullptr;
    SLUICE_ASSERT(matrix.type == config_.element, "weights in the element of the kernels");
    return matrix.row(0);
  }
  /// The host's staged data has been read once all work enqueued until now is done.
  void end_iteration() {
    staging_.flush(queue_, at<std::byte>(room_.changes)); // of an iteration whose layers all had nothing to compute
    end_ = queue_.record();
    ended_ = true;
  }

  /// Stages which rows are sampled, and how.
  void stage_samples(std::span<const SampleRow> rows) {
    const std::size_t count = staged_samples_ = rows.size();
    room_ = room_for(rows_, static_cast<std::int64_t>(count)); // the buffers before the samples' do not move
    StagedBlock block =
        staging_.block(queue_, StagedBlock::bytes_of<SampleWay>(count) + StagedBlock::bytes_of<int>(count),
                       at<std::byte>(room_.sampled));
    ways_ = block.take<SampleWay>(count);
    which_ = block.take<int>(count);
    for (std::size_t i = 0; i < count; ++i) {
      ways_.host[i] = sample_way(rows[i].sampling, rows[i].sequence, rows[i].position);
      which_.host[i] = rows[i].row;
    }
    staging_.upload(block);
  }
  /// Whether these rows are those of the last `stage_samples`, in this iteration.
  [[nodiscard]] bool staged(std::span<const SampleRow> rows) const {
    bool same = rows.size() == staged_samples_;
    for (std::size_t i = 0; same && i < rows.size(); ++i)
      same = which_.host[i] == rows[i].row &&
             ways_.host[i] == sample_way(rows[i].sampling, rows[i].sequence, rows[i].position);
    return same;
  }
  /// The final norm, the head and the tokens of the staged samples. The last kernel writes the tokens to the host's
  /// memory by itself: 4 bytes a row.
  void sample() {
    const auto count = static_cast<int>(staged_samples_);
    normalise(outer_.final_norm, outer_.final_norm_bias, count, which_.device, at<T>(room_.last));
    ProductCall product = call(at<T>(room_.last), shape().hidden, count, at<float>(room_.logits), shape().vocabulary);
    product.wide = true;
    multiply(WeightPieces{outer_.head}, product);
    SampleParams sample;
    sample.logits = at<float>(room_.logits);
    sample.ways = ways_.device;
    sample.tokens = reinterpret_cast<int*>(tokens_.data());
    sample.rows = count;
    sample.vocabulary = shape().vocabulary;
    sample.refuses = true;
    sample.parts = sample_parts(count, shape().vocabulary, limits_.sms);
    sample.best = at<std::uint64_t>(room_.best);
    sample.arrivals = at<int>(room_.arrivals);
    queue_.template launch<SampleConfig{.element = ElementType::f32}>(sample);
  }

  /// Normalises the residual (plus the last layer's expert results, if any) into `out`.
  void normalise(const Matrix& scale, const Matrix& bias, int rows, const int* which, T* out) {
    NormParams norm;
    norm.x = std::exchange(adds_scattered_, false) ? at<T>(room_.scattered) : nullptr;
    norm.residual = at<T>(room_.residual);
    norm.which = which;
    norm.weight = data(scale);
    norm.bias = data(bias);
    norm.out = out;
    norm.rows = rows;
    norm.features = shape().hidden;
    norm.epsilon = config_of_model_.norm_epsilon;
    if (config_of_model_.norm == NormKind::rms)
      queue_.template launch<NormConfig{.element = config_.element, .kind = NormKind::rms}>(norm);
    else
      queue_.template launch<NormConfig{.element = config_.element, .kind = NormKind::layer}>(norm);
  }
  void normalise(const Matrix& scale, const Matrix& bias, int rows) {
    normalise(scale, bias, rows, nullptr, at<T>(room_.normed));
  }

  [[nodiscard]] static ProductCall call(const T* x, int x_stride, int rows, void* y, int y_stride) {
    ProductCall product;
    product.x = x;
    product.y = y;
    product.x_stride = x_stride;
    product.y_stride = y_stride;
    product.rows = rows;
    product.element = config_.element;
    return product;
  }
  void multiply(const ProductCall& product) {
    if (fast()) return queue_.multiply(product);
    each_launch(product, [this](const ProductCall& some) {
      switch (tile_rows_for(some.rows)) {
      case 16:
        return queue_.template launch<TileProductConfig{.element = config_.element, .tile_rows = 16}>(some);
      case 64:
        return queue_.template launch<TileProductConfig{.element = config_.element, .tile_rows = 64}>(some);
      default:
        return queue_.template launch<TileProductConfig{.element = config_.element, .tile_rows = 128}>(some);
      }
    });
  }
  /// y = x W^T for all pieces of W, side by side in y. A row of y has the outputs of all matrices that multiply x, of
  /// which W may be some.
  void multiply(const WeightPieces& pieces, ProductCall product) {
    const std::size_t number = product.wide ? sizeof(float) : sizeof(T);
    product.inputs = pieces.inputs();
    product.segments = {.inputs = segment_inputs(product.y_stride, product.inputs, limits_.least_segment),
                        .sms = limits_.sms,
                        .partials = at<float>(room_.partials),
                        .numbers = room_.partial_count,
                        .arrivals = at<int>(room_.arrivals),
                        .most_arrivals = RunnerRoom::most_arrivals};
    for (int i = 0; i < pieces.products(); ++i) {
      product.w = pieces.weights(i);
      product.outputs = pieces.outputs(i);
      multiply(product);
      const auto outputs = static_cast<std::size_t>(product.outputs);
      product.y = static_cast<std::byte*>(product.y) + outputs * number;
      if (product.bias != nullptr) product.bias = static_cast<const T*>(product.bias) + outputs;
    }
  }
  /// residual += x W^T + bias.
  void add(const WeightPieces& pieces, const Matrix& bias, const T* x, int rows) {
    ProductCall product = call(x, pieces.inputs(), rows, at<T>(room_.residual), shape().hidden);
    product.bias = data(bias);
    product.accumulate = true;
    multiply(pieces, product);
  }

  /// Copies between rows of the residual stream and their kept hidden states: `segment(some, first row)` has the ends
  /// of a copy.
  template <class Segment>
  void copy_states(std::span<const HiddenRows> rows, const Segment& segment);
  [[nodiscard]] int blocks_of(const SequenceRows& sequence) const;
  /// Uploads the staged blocks.
  void upload() { staging_.flush(queue_, at<std::byte>(room_.changes)); }
  /// Launches the embedding, once in an iteration.
  void embed() {
    if (std::exchange(embedded_, true)) return;
    EmbedParams embed;
    embed.tokens = token_of_row_;
    embed.positions = position_of_row_;
    embed.table = data(outer_.embedding);
    embed.learned = data(outer_.positions);
    embed.position_offset = config_of_model_.position_offset;
    embed.out = at<T>(room_.residual);
    embed.rows = rows_;
    embed.features = shape().hidden;
    queue_.template launch<EmbedConfig{.element = config_.element}>(embed);
  }
  /// Stages the layer's rows and tiles, unless the last layer had the same. For all steady layers with the same rounded
  /// numbers of rows and tiles they have the same addresses. `only_computes`: the layer keeps no hidden states.
  void list_rows(std::span<const SequenceRows> sequences, int rows, int all, bool only_computes);
  /// Finds the layer's tiles of attention.
  void plan(std::span<const SequenceRows> sequences, int rows, int all);
  /// Stages the entries of block tables that the device does not have, and where the tables begin.
  void list_blocks(int layer, std::span<const SequenceRows> sequences);
  /// Stages where the tables of the other layers begin, as far as the device keeps them, before the first layer.
  void expect_first_blocks(int layer, std::span<const SequenceRows> sequences);
  void list_first_blocks(int layer, const std::vector<int>& list);
  /// Stages entries `from` .. `to` - 1 of a table, and those that the device lacks before them.
  void update(KeptTables::Table& table, int from, int to, std::byte* const* addresses);
  /// Stages the places of a layer's experts, unless the device has them.
  void list_experts(int layer, const LayerWeights& weights);
  void launch_kernels(const LayerWeights& weights, const Tables& tables, int rows, int all,
                      std::span<const HiddenRows> kept);
  /// Computes queries of `rows`, and keys and values of `all`.
  void project_heads(const LayerWeights& weights, int rows, int all);
  void place_heads(const LayerWeights& weights, const Tables& tables, int rows, int all);
  [[nodiscard]] const void* head_biases(const LayerWeights& weights);
  void attend(const Tables& tables);
  template <int warps>
  void attend(const Tables& tables, int which);
  void launch_mlp(const LayerWeights& weights, int rows);
  void activate(const LayerWeights& weights, int rows);
  void launch_experts(const LayerWeights& weights, const Tables& tables, int rows);
  /// y = x W^T of rows in their experts' order, `y` and its columns as `outputs` of `y_stride`.
  void multiply_grouped(const ProductWeights* table, const T* x, int inputs, T* y, int outputs, int y_stride, int rows);
  /// Whether gate and up of every expert are one product.
  [[nodiscard]] static bool joined(const LayerWeights& weights);

  Queue queue_;
  DecoderConfig config_of_model_;
  KernelRunnerLimits limits_;
  std::span<std::byte> arena_;
  OuterWeights outer_;

  RunnerRoom room_; // of the iteration
  Staging<Queue> staging_;
  typename Queue::Ticket end_{};  // after the last iteration's work
  bool ended_ = true;             // the last iteration has ended, and none has begun since
  int given_rows_ = 0, rows_ = 0; // of the iteration; the same, padded
  int live_rows_ = 0;             // rows that the last layer was given
  bool steady_ = false;           // all layers until now computed the padded rows
  bool embedded_ = true;          // the iteration's first launch has been made
  const int* token_of_row_ = nullptr;
  const int* position_of_row_ = nullptr;
  bool adds_scattered_ = false; // the next norm does

  std::size_t staged_samples_ = 0; // of the iteration
  Staged<SampleWay> ways_;
  Staged<int> which_;
  std::size_t samples_ = 0;
  bool fetched_ = false; // logits
  typename Queue::Memory tokens_, logits_;

  Tables tables_;
  std::vector<SequenceRows> listed_;     // whose rows and tiles the device has; empty: unknown
  int listed_live_ = 0, listed_all_ = 0; // rows that these layers pass on, and all of their rows
  bool listed_steady_ = false;
  std::vector<AttentionRows> attended_[2]; // each sequence's rows, or none: for kernels of one warp, of four
  std::vector<AttentionTile> wanted_;
  AttentionPlan plans_[2];

  KeptTables kept_;
  std::vector<std::vector<int>> first_blocks_; // by layer: the list that the device has; empty: unknown
  int listed_rows_ = 0;                        // padded rows for which the device has these lists
  std::vector<bool> has_own_;                  // by layer: the last launch had tables of its own
  std::vector<int> first_block_;
  std::vector<std::pair<std::byte* const*, int>> own_;     // the launch's own tables, and their entries
  std::vector<std::vector<ProductWeights>> expert_places_; // by layer: gate (and up), up, down, as the device has them
  std::vector<ProductWeights> wanted_places_;
};

} // namespace sluice::kernels

#include "kernels/decoder/kernel_runner.inl.hpp"
