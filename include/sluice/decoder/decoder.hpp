// SPDX-License-Identifier: Apache-2.0
// Decoder: what a backend asks to be computed, layer by layer, wherever K and V lie.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/decoder/config.hpp"
#include "sluice/decoder/weights.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice {

/// One sequence's rows of an iteration: consecutive tokens, in consecutive rows of the activations.
struct SequenceRows {
  int first_row = 0;
  int rows = 0;
  int position = 0; ///< of its first row
  /// Blocks of the layer being computed: block i holds K and V of tokens i * block_tokens and on; as many blocks as
  /// cover the sequence up to its last row. The array lies on the host, the blocks in the memory of whatever computes,
  /// which may be a device's, so that the host must not look. Each is `kv_block_floats(config, block_tokens)` numbers:
  /// K then V, each [KV head][token of the block][head size]; floats where a Decoder computes.
  std::byte* const* blocks = nullptr;
  /// Rows at positions below this find their K and V in the blocks and leave them as they are: bit for bit what the
  /// rows would compute (a prefix that is passed again for the sake of later layers).
  int stored_from = 0;
};

/// Numbers of one block of K and V of one layer.
[[nodiscard]] constexpr std::int64_t kv_block_floats(const ModelShape& shape, Tokens block_tokens) {
  return std::int64_t{2} * shape.kv_heads * shape.head_dim * block_tokens.count();
}

/// Computes a decoder's passes, one layer at a call, on some number of threads. The residual stream of an iteration
/// lies inside, in the order of its rows, so that no caller can mix two iterations up.
///
/// A row's result depends on its token, its position and the K and V of its own sequence alone: not on how many rows
/// there are, on their order, on the threads, on whether its prompt came in one piece, nor on where a block lies. Bit
/// for bit, so that an engine's results can be compared with any other's.
///
/// An abstract class and not a concept: one virtual call a layer is nothing beside a layer, and a program that composes
/// thirty engines compiles the kernels once.
class Decoder {
 public:
  Decoder() = default;
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  virtual ~Decoder() = default;

  /// Memory of the activations of iterations of up to `rows` rows, of which up to `samples` yield logits.
  [[nodiscard]] virtual Bytes workspace(std::int64_t rows, std::int64_t samples) const = 0;

  /// Begins an iteration: `tokens` and `positions`, one of each a row. Grows the workspace if it is too small.
  virtual void begin(std::span<const std::int32_t> tokens, std::span<const std::int32_t> positions) = 0;

  /// Computes one layer of the rows 0 .. `rows` - 1; and of the `stored_rows` behind them only K and V (the last layer
  /// for which a prefix is passed). `sequences` covers both kinds; a row that `sequences` leaves out stores nothing,
  /// and its results mean nothing for the rest of the iteration. K and V are stored before any row attends to them. A
  /// row attends to all tokens of its sequence up to its own.
  virtual void layer(const LayerWeights& weights, std::span<const SequenceRows> sequences, int rows,
                     int stored_rows) = 0;

  /// The hidden state of a row: what enters the layer that is computed next, `hidden` numbers. Who writes it has the
  /// row go on from there, as one whose hidden state was kept in an earlier iteration.
  [[nodiscard]] virtual std::span<float> hidden_state(int row) = 0;

  /// The logits of some rows after the last layer: `logits` is rows.size() x vocabulary, row-major.
  virtual void logits(std::span<const int> rows, std::span<float> logits) = 0;

  [[nodiscard]] virtual const DecoderConfig& config() const = 0;
};

} // namespace sluice
