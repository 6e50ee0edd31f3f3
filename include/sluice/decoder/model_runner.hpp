// SPDX-License-Identifier: Apache-2.0
// ModelRunner: a decoder's passes on a device: launched layer by layer, sampled there, and waited for at the end.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/units.hpp"
#include "sluice/decoder/config.hpp"
#include "sluice/decoder/decoder.hpp"
#include "sluice/decoder/graph_counts.hpp"
#include "sluice/decoder/sampler.hpp"
#include "sluice/decoder/weights.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace sluice {

/// A row whose next token is wanted. The token is `sample(logits of the row, sampling, sequence, position)`.
struct SampleRow {
  int row = 0;
  Sampling sampling;
  std::uint64_t sequence = 0;
  std::int64_t position = 0; ///< of the token to be drawn
};

/// Rows of an iteration, and where their hidden states lie: one row after the other, `hidden` numbers each in the
/// runner's element, in the memory of whatever computes.
struct HiddenRows {
  int first_row = 0;
  int rows = 0;
  std::byte* states = nullptr;
};

/// Memory of a device that is its runner's alone.
struct RunnerMemory {
  std::span<std::byte> workspace; ///< of the size that `ModelRunner::workspace` says, at a multiple of 256 bytes
  OuterWeights weights;           ///< there before the first iteration, and never written again
};

/// What a Decoder computes, by a device that works on its own: a call enqueues and returns, on a CPU it may compute at
/// once. Addresses (of blocks, of matrices, of the workspace) are the device's; spans and arrays are the host's and are
/// free when the call returns.
///
/// An iteration is `begin`, `launch_layer` of each layer in ascending order, `launch_samples`, `tokens`. The last two
/// may be left out where no token is wanted. Which rows a layer computes, which only store K and V, and what a
/// sequence's `stored_from` leaves alone is said at Decoder::layer and SequenceRows; and so is what a row's result
/// depends on, bit for bit on one runner: on its own token, position, K and V alone.
///
/// An abstract class and not a concept, as Decoder is and for the same reason: one virtual call a layer is nothing
/// beside a layer.
class ModelRunner {
 public:
  ModelRunner() = default;
  ModelRunner(const ModelRunner&) = delete;
  ModelRunner& operator=(const ModelRunner&) = delete;
  virtual ~ModelRunner() = default;

  /// The device's memory for iterations of up to `rows` rows, of which up to `samples` yield a token.
  [[nodiscard]] virtual Bytes workspace(std::int64_t rows, std::int64_t samples) const = 0;

  /// Where the device has memory of its own: what of it is the runner's. Called once, before the first iteration. A
  /// runner that computes in the host's memory finds its own, and reads the host's weights.
  virtual void place(const RunnerMemory& /*memory*/) {}

  /// Begins an iteration: `tokens` and `positions`, one of each a row. What the iteration before was given has been
  /// read then; what it computes may be under way still.
  virtual void begin(std::span<const std::int32_t> tokens, std::span<const std::int32_t> positions) = 0;

  /// Before a layer is launched: what some rows have computed until now is forgotten, and they go on from hidden states
  /// that were kept of an earlier iteration, with the bits that they would have computed.
  virtual void restore(std::span<const HiddenRows> rows) = 0;

  /// Launches one layer of the rows 0 .. `rows` - 1; and of the `stored_rows` behind them only K and V. `kept`: of
  /// these rows, those whose hidden states, as they enter the layer, are written down. Rows that an earlier layer of
  /// the iteration did not compute, and that were not restored since, mean nothing: `sequences` leaves them out, or
  /// nobody asks for what they store. Weights, blocks and hidden states are read and written until what is recorded
  /// behind the launch is done.
  virtual void launch_layer(int layer, const LayerWeights& weights, std::span<const SequenceRows> sequences, int rows,
                            int stored_rows, std::span<const HiddenRows> kept) = 0;

  /// After the last layer: logits and tokens of some of its rows, none of them twice.
  virtual void launch_samples(std::span<const SampleRow> rows) = 0;

  /// Waits for the samples. One of each row that `launch_samples` was given, in that order; below 0 where the row's
  /// logits are not all finite. Valid until the next `launch_samples`.
  [[nodiscard]] virtual std::span<const std::int32_t> tokens() = 0;

  /// The logits of the samples' row `sample`, fetched to the host and waited for: for who listens, not for each step.
  /// First asked for before the next iteration begins; valid until its `launch_samples`.
  [[nodiscard]] virtual std::span<const float> logits(std::size_t sample) = 0;

  /// Ok, or why nothing that was computed since the last iteration is to be believed: the device has failed, for good.
  /// Tokens of such an iteration are numbers below 0 or of the vocabulary, which nobody is told. Asked once an
  /// iteration, after its tokens.
  [[nodiscard]] virtual Status status() { return {}; }

  /// How many layers were replayed until now, and whether the driver refused that; nothing of a runner that launches no
  /// kernels.
  [[nodiscard]] virtual std::optional<GraphCounts> graphs() const { return std::nullopt; }

  [[nodiscard]] virtual const DecoderConfig& config() const = 0;
};

} // namespace sluice
