// SPDX-License-Identifier: Apache-2.0
// RunnerRoom: offsets and total size of the buffers of a KernelRunner's iteration in device memory.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/units.hpp"
#include "sluice/model/decoder/config.hpp"
#include "sluice/model/decoder/kinds.hpp"
#include "sluice/model/decoder/weights.hpp"

#include "kernels/attention/attention_plan.hpp"
#include "kernels/copy/copy_segments.hpp"
#include "kernels/decoder/staging.hpp"
#include "kernels/products/product.hpp"
#include "kernels/sample/sample.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace sluice::kernels {

/// An iteration's limits besides its rows, and its kind of products.
struct KernelRunnerLimits {
  Tokens block_tokens{16};
  /// Entries of a layer's block table: blocks of all its sequences together. Must be at least the blocks that fit the
  /// device, and more if sequences share blocks.
  std::int64_t table_blocks = 1 << 16;
  /// Entries of the block tables that stay on the device between launches (KeptTables), for each layer on average.
  /// Tables without room are uploaded with every launch.
  std::int64_t kept_blocks = 1 << 16;
  int split_rows = attention_split_rows; ///< `plan_attention`'s
  Products products = Products::invariant;
  /// Workspace of fast products: NVIDIA's recommendation for cuBLASLt on compute capability 9.0.
  Bytes library_room{32 << 20};
  /// Most memory for sums of segments of own products: those of two tiles of 128 rows for each SM of 256.
  Bytes segment_room{32 << 20};
  int least_segment = 512; ///< `segment_inputs`'s
  int sms = 132;           ///< of the GPU (an H100's): affects only speed
  /// Iterations of at most this many rows are launched as graphs, if possible; 0: none.
  int graph_rows = 0;

  /// Rows that an iteration of `rows` computes: with graphs, row counts are rounded up to a few values. A product's
  /// tile has 16 rows anyway.
  [[nodiscard]] constexpr std::int64_t padded(std::int64_t rows) const {
    if (rows > graph_rows) return rows;
    const std::int64_t bucket =
        rows <= 16 ? static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(rows))) : (rows + 15) / 16 * 16;
    return rows == 0 ? 0 : std::min<std::int64_t>(bucket, graph_rows);
  }
};

/// Offsets of an iteration's buffers, in bytes, each a multiple of 256, which depend only on its padded rows. The first
/// buffers stay where they are from iteration to iteration.
/// Attention's buffers share memory with the MLP's, since attention is done when the MLP begins.
///
/// More rows or samples never take fewer bytes.
struct RunnerRoom {
  std::int64_t turns = 0;    ///< [head_dim / 2] of double, for all iterations; first, so that it never moves
  std::int64_t library = 0;  ///< workspace of fast products, for all iterations
  std::int64_t arrivals = 0; ///< [most_arrivals], for all iterations: of ProductSegments and SampleParams
  std::int64_t kept = 0;     ///< [layers * kept_blocks]: entries of the tables that stay on the device
  std::int64_t experts = 0;  ///< [layers][3][experts]: where each expert's matrices are, for all iterations
  std::int64_t partials = 0; ///< [partial_count]: ProductSegments::partials

  std::int64_t given = 0;                ///< staged: tokens and positions
  std::int64_t layer = 0;                ///< staged: a layer's rows and attention tiles
  std::int64_t first_block = 0;          ///< [layers][first_stride]: where the sequences' tables begin, in `kept`
  std::int64_t own_blocks = 0;           ///< staged: entries of the tables that belong to one launch
  std::int64_t changes = 0;              ///< staged: the list of a long upload
  std::int64_t segments = 0;             ///< staged: copies of kept hidden states: at most one run per row
  std::int64_t biases = 0;               ///< a layer's biases of queries, keys and values, one after the other
  std::int64_t residual = 0, normed = 0; ///< [rows][hidden]
  std::int64_t first = 0;                ///< the first product's output: queries, keys and values, or gate and up; also
                                         ///< the attention's output, [rows][heads x head_dim]
  std::int64_t second = 0;               ///< queries, or the activations
  std::int64_t values = 0, maxima = 0, totals = 0; ///< of attention with more than one segment
  std::int64_t router = 0, chosen = 0, shares = 0, offsets = 0, slots = 0, gathered = 0;
  std::int64_t scattered = 0; ///< [rows][hidden]: the experts' results of a layer, which the next norm adds to the
                              ///< residual
  std::int64_t sampled = 0;   ///< staged: the sampled rows, and how they are sampled
  std::int64_t last = 0;      ///< [samples][hidden]
  std::int64_t logits = 0;    ///< [samples][vocabulary] of f32
  std::int64_t best = 0;      ///< of all parts of rows that several blocks sample: SampleParams::best
  std::int64_t bytes = 0;     ///< of all
  std::int64_t partial_count = 0;

  RunnerRoom() = default;
  RunnerRoom(const DecoderConfig& config, int element_bytes, const KernelRunnerLimits& limits, std::int64_t given_rows,
             std::int64_t samples) {
    const std::int64_t rows = limits.padded(given_rows);
    const ModelShape& shape = config.shape;
    const std::int64_t hidden = shape.hidden, queries = std::int64_t{shape.heads} * shape.head_dim,
                       heads = queries + std::int64_t{2} * shape.kv_heads * shape.head_dim;
    const bool has_experts = config.mlp == MlpKind::experts, gated = config.mlp != MlpKind::relu;
    const std::int64_t mlp = has_experts ? shape.moe_intermediate : shape.mlp;
    const std::int64_t passes = has_experts ? rows * shape.experts_per_token : rows; // of the MLP
    const std::int64_t number = element_bytes;

    turns = take(shape.head_dim / 2, sizeof(double));
    library = take(library_bytes(limits), 1);
    arrivals = take(most_arrivals, sizeof(int));
    kept = take(kept_entries(config, limits), sizeof(void*));
    experts = take(3 * shape.layers * expert_bytes(config), 1);
    given = take(2 * rows + staged_gaps, sizeof(int));
    layer = take(layer_bytes(config, limits, rows), 1);
    first_block = take(first_stride(rows) * shape.layers, sizeof(int));
    own_blocks = take(table_blocks(config, limits, rows) + 2, sizeof(void*));
    changes = take(most_changes + rows + shape.layers + 8, sizeof(CopySegment));
    segments = take(rows * static_cast<std::int64_t>(sizeof(CopySegment)) + staged_gaps, 1);
    biases = take(config.qkv_bias ? heads : 0, number);
    residual = take(rows * hidden, number);
    normed = take(rows * hidden, number);
    first = take(std::max(rows * heads, passes * (gated ? 2 : 1) * mlp), number);
    second = take(std::max(rows * queries, passes * mlp), number);
    partial_count = partial_numbers(config, limits, rows);
    partials = take(partial_count, sizeof(float));
    const std::int64_t partial = partial_rows(config, limits, rows) * shape.kv_heads;
    values = take(partial * shape.head_dim, sizeof(float));
    maxima = take(partial, sizeof(float));
    totals = take(partial, sizeof(float));
    if (has_experts) {
      router = take(rows * shape.experts, sizeof(float));
      chosen = take(passes, sizeof(int));
      shares = take(passes, sizeof(float));
      offsets = take(shape.experts + 1, sizeof(int));
      slots = take(passes, sizeof(int));
      gathered = take(passes * hidden, number);
      scattered = take(rows * hidden, number);
    }
    sampled = take(samples * static_cast<std::int64_t>(sizeof(SampleWay) + sizeof(int)) + staged_gaps, 1);
    last = take(samples * hidden, number);
    logits = take(samples * shape.vocabulary, sizeof(float));
    const std::int64_t parts = std::min<std::int64_t>(samples * sampling_most_parts, sampling_all_parts);
    best = take(parts * (1 + sampling_most_listed), sizeof(std::uint64_t));
  }

  /// Tiles of a product whose segments may have blocks of their own, and rows that several blocks sample. More of them
  /// fill any GPU.
  static constexpr int most_arrivals = 1024;

  /// Upper bound of the partial rows of attention of any plan for `rows` rows.
  [[nodiscard]] static std::int64_t partial_rows(const DecoderConfig& config, const KernelRunnerLimits& limits,
                                                 std::int64_t rows) {
    const std::int64_t segments = AttentionSegments::of(config.max_positions - 1) + 1;
    if (segments <= 1) return 0;
    const std::int64_t queries = rows * (config.shape.heads / config.shape.kv_heads);
    return queries + std::min<std::int64_t>(limits.split_rows, queries * segments);
  }

  [[nodiscard]] static std::int64_t library_bytes(const KernelRunnerLimits& limits) {
    return limits.products == Products::fast ? limits.library_room.count() : 0;
  }

  /// Upper bound of the sums of segments that a product of `rows` rows (padded) uses.
  [[nodiscard]] static std::int64_t partial_numbers(const DecoderConfig& config, const KernelRunnerLimits& limits,
                                                    std::int64_t rows) {
    const ModelShape& shape = config.shape;
    const std::int64_t hidden = shape.hidden, queries = std::int64_t{shape.heads} * shape.head_dim,
                       keys = std::int64_t{shape.kv_heads} * shape.head_dim;
    std::int64_t most = 0;
    const auto product = [&](std::int64_t outputs, std::int64_t inputs) {
      const std::int64_t each = segment_inputs(outputs, inputs, limits.least_segment);
      if (each > 0) most = std::max(most, up(rows, 128) * up(outputs, 128) * up(inputs, each) * 128 * 128);
    };
    product(queries + 2 * keys, hidden);
    product(hidden, queries);
    product(shape.vocabulary, hidden);
    if (config.mlp == MlpKind::experts) {
      product(shape.experts, hidden);
    } else {
      product((config.mlp == MlpKind::relu ? 1 : 2) * std::int64_t{shape.mlp}, hidden);
      product(hidden, shape.mlp);
    }
    return limits.products == Products::fast
               ? 0
               : std::min(most, limits.segment_room.count() / static_cast<std::int64_t>(sizeof(float)));
  }

  /// Entries of all tables that stay on the device.
  [[nodiscard]] static std::int64_t kept_entries(const DecoderConfig& config, const KernelRunnerLimits& limits) {
    return std::min(limits.kept_blocks, limits.table_blocks) * config.shape.layers;
  }
  /// One matrix's places for all experts of a layer.
  [[nodiscard]] static std::int64_t expert_bytes(const DecoderConfig& config) {
    const int experts = config.mlp == MlpKind::experts ? config.shape.experts : 0;
    return static_cast<std::int64_t>(StagedBlock::bytes_of<ProductWeights>(static_cast<std::size_t>(experts)));
  }
  /// Numbers from one layer's list of first blocks to the next: whole packets.
  [[nodiscard]] static std::int64_t first_stride(std::int64_t rows) { return up(rows, 4) * 4; }

  /// Tables whose new entries are uploaded before their layers are launched, in one upload; others follow with their
  /// layers.
  static constexpr std::int64_t most_changes = 4096;

  /// Entries of a layer's tables, at most.
  [[nodiscard]] static std::int64_t table_blocks(const DecoderConfig& config, const KernelRunnerLimits& limits,
                                                 std::int64_t rows) {
    return std::min(limits.table_blocks, rows * up(config.max_positions, limits.block_tokens.count()));
  }

  /// The most that a layer stages of its rows and tiles: with every row in a separate sequence. Rows in this function
  /// and the two before are padded.
  [[nodiscard]] static std::int64_t layer_bytes(const DecoderConfig& config, const KernelRunnerLimits& limits,
                                                std::int64_t rows) {
    const std::int64_t group = config.shape.heads / config.shape.kv_heads;
    const std::int64_t tiles = rows * up(group, 16); // unsplit: at least one tile per row, more with wide groups
    const std::int64_t split = config.max_positions > AttentionSegments::begin(1)
                                   ? std::min<std::int64_t>(limits.split_rows, partial_rows(config, limits, rows))
                                   : 0;
    return 2 * rows * static_cast<std::int64_t>(sizeof(int)) +
           2 * (tiles + split) * static_cast<std::int64_t>(sizeof(AttentionTile)) * // of two plans
               (limits.graph_rows > 0 ? 2 : 1) +                                    // rounded up to powers of two
           staged_gaps;
  }

 private:
  static constexpr std::int64_t staged_gaps = 16 * StagedBlock::alignment; // between the arrays of a block

  [[nodiscard]] static constexpr std::int64_t up(std::int64_t all, std::int64_t piece) {
    return (all + piece - 1) / piece;
  }
  std::int64_t take(std::int64_t count, std::size_t size) { return take(count, static_cast<std::int64_t>(size)); }
  std::int64_t take(std::int64_t count, int size) { return take(count, std::int64_t{size}); }
  std::int64_t take(std::int64_t count, std::int64_t size) {
    constexpr std::int64_t alignment = 256;
    const std::int64_t at = bytes;
    bytes += up(count * size, alignment) * alignment;
    return at;
  }
};

// WeightPieces: the memory pieces of matrices that are multiplied by the same rows.

/// The rows of some matrices, stacked. Matrices that are adjacent in memory are one piece, so that a layer's query, key
/// and value are one product, and so are gate and up: one launch, which reads x once. A matrix with a streamed share
/// has two pieces; one product takes two pieces, its `head` and its `tail`.
///
/// The sum of an output does not depend on which product computes it, so neither do its bits.
class WeightPieces {
 public:
  WeightPieces() = default;
  explicit WeightPieces(const Matrix& matrix) { add(matrix); }

  /// At most three matrices.
  void add(const Matrix& matrix) {
    SLUICE_ASSERT(inputs_ == 0 || inputs_ == matrix.columns, "matrices of as many columns");
    inputs_ = static_cast<int>(matrix.columns);
    row_bytes_ = matrix.row_bytes();
    add(matrix.head, std::min(matrix.split, matrix.rows));
    add(matrix.tail, matrix.rows - std::min(matrix.split, matrix.rows));
  }

  /// The number of products.
  [[nodiscard]] int products() const { return (count_ + 1) / 2; }
  [[nodiscard]] int inputs() const { return inputs_; }
  /// Of all products.
  [[nodiscard]] int outputs() const {
    int all = 0;
    for (int product = 0; product < products(); ++product) all += outputs(product);
    return all;
  }
  /// Rows of one product's matrix.
  [[nodiscard]] int outputs(int product) const { return piece(2 * product).rows + piece(2 * product + 1).rows; }
  [[nodiscard]] ProductWeights weights(int product) const {
    const Piece& head = piece(2 * product);
    return {head.at, piece(2 * product + 1).at, head.rows};
  }

 private:
  struct Piece {
    const std::byte* at = nullptr;
    int rows = 0;
  };
  [[nodiscard]] const Piece& piece(int at) const { return pieces_[static_cast<std::size_t>(at)]; }

  void add(const std::byte* at, std::int64_t rows) {
    if (rows == 0) return;
    if (count_ > 0) {
      Piece& last = pieces_[static_cast<std::size_t>(count_ - 1)];
      if (last.at + last.rows * row_bytes_ == at) {
        last.rows += static_cast<int>(rows);
        return;
      }
    }
    pieces_[static_cast<std::size_t>(count_++)] = {at, static_cast<int>(rows)};
  }

  std::array<Piece, 8> pieces_{}; // those behind `count_` are empty
  int count_ = 0;
  int inputs_ = 0;
  std::int64_t row_bytes_ = 0;
};

} // namespace sluice::kernels
