// SPDX-License-Identifier: Apache-2.0
// Decoder: computes a model layer by layer, on K and V in blocks anywhere.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/model/decoder/config.hpp"
#include "sluice/model/decoder/weights.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice {

/// One sequence's rows of an iteration: consecutive tokens, in consecutive rows of the activations.
struct SequenceRows {
  int first_row = 0;
  int rows = 0;
  int position = 0; ///< of its first row
  /// Blocks of the layer being computed: block i holds K and V of the tokens from i * block_tokens on; there are enough
  /// blocks for the sequence up to its last row. The array lies on the host, the blocks in the computing device's
  /// memory, so the host must not read them. Each block has `kv_block_floats(config, block_tokens)` numbers: K then V,
  /// each [KV head][token of the block][head size], or with latent attention [token of the block][latent, rotated part
  /// of K]; a Decoder's are floats. In a layer of `shape.delta` a block holds instead the state behind its last
  /// computed token (`DeltaRule::numbers`); the layer reads the state before its first row, and writes each block's
  /// last one.
  std::byte* const* blocks = nullptr;
  /// Rows at positions below this find their K and V in the blocks and leave them unchanged; the rows would compute the
  /// same bits (a prefix that passes again for the sake of later layers).
  int stored_from = 0;
  /// The table of blocks, by a number that the layer's later launches use for it too; -1: it belongs to this launch.
  /// The runner already has the addresses of its first `known` blocks.
  std::int32_t table = -1;
  int known = 0;
  /// Its one row is attended by the host, over blocks in the host's memory (NEO): only for a decoder or runner whose
  /// `open_host_lane` returned true.
  bool on_host = false;
};

/// How many numbers one block of one layer has, a multiple of `block_tokens`: those of K and V, or of a state if that
/// is larger. Blocks have one size.
[[nodiscard]] constexpr std::int64_t kv_block_floats(const ModelShape& shape, Tokens block_tokens) {
  const std::int64_t kv = std::int64_t{shape.kv_vectors()} * shape.kv_width() * block_tokens.count();
  const std::int64_t each = (shape.delta.numbers() + block_tokens.count() - 1) / block_tokens.count();
  return shape.has_states() ? std::max(kv, each * block_tokens.count()) : kv;
}

/// The token of a row of a measured batch. Neighbours differ, because rows of one token pass through the same experts.
[[nodiscard]] constexpr std::int32_t measured_token(std::int64_t row, int vocabulary) {
  return static_cast<std::int32_t>(row * 7919 % vocabulary);
}

/// How long the host attended rows of a layer.
struct HostLaneTimes {
  Seconds took{0};   ///< from the moment at which it got their queries until the layer had the results
  Seconds waited{0}; ///< the part in which the layer had nothing else to compute
};

/// Computes a decoder's passes, one layer per call, on some number of threads. The decoder holds an iteration's
/// residual stream, in the order of its rows, so that no caller can mix up two iterations.
///
/// A row's result depends only on its token, its position, and the K and V of its own sequence: not on the number of
/// rows, their order, the threads, the chunking of its prompt, or the addresses of blocks. This holds bit for bit, so
/// that an engine's results can be compared with any other's.
///
/// An abstract class and not a concept: one virtual call costs nothing compared with a layer, and a program that
/// composes thirty engines compiles the kernels once.
class Decoder {
 public:
  Decoder() = default;
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  virtual ~Decoder() = default;

  /// Memory of the activations, for iterations of up to `rows` rows, of which up to `samples` yield logits.
  [[nodiscard]] virtual Bytes workspace(std::int64_t rows, std::int64_t samples) const = 0;

  /// Begins an iteration, with one token and one position per row. Grows the workspace if it is too small.
  virtual void begin(std::span<const std::int32_t> tokens, std::span<const std::int32_t> positions) = 0;

  /// Computes one layer of the rows 0 .. `rows` - 1; of the `stored_rows` behind them it computes only K and V (the
  /// last layer that a prefix passes). `sequences` covers both kinds; a row that `sequences` leaves out stores nothing,
  /// and its results are undefined for the rest of the iteration. K and V are stored before any row attends to them. A
  /// row attends to the tokens of its sequence up to its own, or to the last `config().window(layer)` of them; it reads
  /// no other.
  virtual void layer(int layer, const LayerWeights& weights, std::span<const SequenceRows> sequences, int rows,
                     int stored_rows) = 0;

  /// A row's hidden state: the input of the next layer, `hidden` numbers. A caller that writes it makes the row
  /// continue from there, like a row whose hidden state was kept in an earlier iteration.
  [[nodiscard]] virtual std::span<float> hidden_state(int row) = 0;

  /// Whether the decoder can attend rows with `SequenceRows::on_host`, by a thread that `open_host_lane` starts.
  [[nodiscard]] virtual bool has_host_lane() const { return false; }
  /// Starts that thread, if it does not run yet; no row may be marked before. Throws std::thread's error if the system
  /// starts no more threads.
  virtual void open_host_lane() {}
  /// Of the last layer; zeros if that thread attended nothing.
  [[nodiscard]] virtual HostLaneTimes host_lane_times() const { return {}; }

  /// The logits of some rows after the last layer: `logits` is rows.size() x vocabulary, row-major.
  virtual void logits(std::span<const int> rows, std::span<float> logits) = 0;

  [[nodiscard]] virtual const DecoderConfig& config() const = 0;
};

} // namespace sluice
