// SPDX-License-Identifier: Apache-2.0
// ModelRunner: a decoder's passes on a device: layers are launched, tokens sampled there, and waited for at the end.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/units.hpp"
#include "sluice/model/decoder/config.hpp"
#include "sluice/model/decoder/decoder.hpp"
#include "sluice/model/decoder/sampler.hpp"
#include "sluice/model/decoder/weights.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace sluice {

/// A row whose next token is sampled. The token is `sample(logits of the row, sampling, sequence, position)`, after
/// `apply_rules` where there are rules. Only a DecoderRunner applies them; others must be given none.
struct SampleRow {
  int row = 0;
  Sampling sampling;
  std::uint64_t sequence = 0;
  std::int64_t position = 0; ///< position of the token to be sampled
  const LogitRules* rules = nullptr;
  std::span<const std::int32_t> tokens{}; ///< of the sequence, for the rules
  std::size_t prompt = 0;                 ///< how many of them are the prompt
};

/// Rows of an iteration and the address of their hidden states: one row after the other, `hidden` numbers each in the
/// runner's element type, in the computing device's memory.
struct HiddenRows {
  int first_row = 0;
  int rows = 0;
  std::byte* states = nullptr;
};

/// A layer's table of blocks (SequenceRows::table) that has grown.
struct GrownTable {
  int layer = 0;
  std::int32_t table = 0;
  int known = 0;                         ///< the runner already has the addresses of this many blocks
  int blocks = 0;                        ///< the table's
  std::byte* const* addresses = nullptr; ///< [blocks]
};

/// Device memory that belongs only to the runner.
struct RunnerMemory {
  std::span<std::byte> workspace; ///< as large as `ModelRunner::workspace` says, aligned to 256 bytes
  OuterWeights weights;           ///< loaded before the first iteration, never written again
};

/// How a runner launched what may be replayed as graphs: layers of small iterations that all rows pass, in sequences of
/// the layers launched between two calls of `ModelRunner::give`; and the samples behind such layers. Other layers, and
/// samples behind them, are not counted.
struct GraphCounts {
  std::int64_t made = 0;     ///< graphs
  std::int64_t replayed = 0; ///< sequences launched as a graph, the first launch of each graph included
  std::int64_t launched = 0; ///< sequences launched kernel by kernel
  std::string refused;       ///< why the driver refused a graph, after which the runner asks for none; empty: never
};

/// What a Decoder computes, on a device that works asynchronously: a call enqueues work and returns; on a CPU it may
/// compute at once. Addresses (of blocks, matrices, the workspace) are the device's; spans and arrays are the host's,
/// and may be reused when the call returns.
///
/// An iteration is `begin`, `launch_layer` for each layer in ascending order, `launch_samples`, `tokens`. The last two
/// may be left out if no token is wanted. Decoder::layer and SequenceRows say which rows a layer computes, which rows
/// only store K and V, and what `stored_from` leaves unchanged. As for a Decoder, a row's result on one runner depends,
/// bit for bit, only on its own token, position, K and V.
///
/// An abstract class and not a concept, for Decoder's reason: one virtual call costs nothing compared with a layer.
class ModelRunner {
 public:
  ModelRunner() = default;
  ModelRunner(const ModelRunner&) = delete;
  ModelRunner& operator=(const ModelRunner&) = delete;
  virtual ~ModelRunner() = default;

  /// The device memory for iterations of up to `rows` rows, of which up to `samples` yield a token.
  [[nodiscard]] virtual Bytes workspace(std::int64_t rows, std::int64_t samples) const = 0;

  /// Tells the runner its part of a device's own memory. Called once, before the first iteration. A runner that
  /// computes in host memory ignores it: it allocates its own, and reads the host's weights.
  virtual void place(const RunnerMemory& /*memory*/) {}

  /// Begins an iteration, with one token and one position per row. The inputs of the previous iteration have been read
  /// by then; its computation may still be under way.
  virtual void begin(std::span<const std::int32_t> tokens, std::span<const std::int32_t> positions) = 0;

  /// May be called after `begin`: tables that have grown since their last launch, and that layers of this iteration
  /// will be launched with. A runner that keeps tables on its device can upload all changes at once, before the first
  /// layer. Later calls count these blocks as known; a runner that ignores some finds them in the launch's table.
  virtual void announce(std::span<const GrownTable> /*tables*/) {}

  /// May be called after `begin`: the rows that `launch_samples` will probably be given, so that a runner can upload
  /// how they are sampled with its other inputs. Others may be given.
  virtual void expect(std::span<const SampleRow> /*rows*/) {}

  /// Call before a layer is launched: some rows drop what they have computed so far and continue from hidden states
  /// kept in an earlier iteration, with the bits that they would have computed.
  virtual void restore(std::span<const HiddenRows> rows) = 0;

  /// Launches one layer of the rows 0 .. `rows` - 1; of the `stored_rows` behind them only K and V. `kept`: rows among
  /// these whose hidden states are written down as they enter the layer. Rows that an earlier layer of the iteration
  /// did not compute, and that were not restored since, are undefined: `sequences` leaves them out, or nothing reads
  /// what they store. Weights, blocks and hidden states are read and written until a ticket recorded behind the launch
  /// is done.
  virtual void launch_layer(int layer, const LayerWeights& weights, std::span<const SequenceRows> sequences, int rows,
                            int stored_rows, std::span<const HiddenRows> kept) = 0;

  /// Whether the runner can attend rows with `SequenceRows::on_host` beside the device, by a lane that `open_host_lane`
  /// starts.
  [[nodiscard]] virtual bool has_host_lane() const { return false; }
  /// Starts that lane, if it does not run yet; no row may be marked before. Throws std::thread's error if the system
  /// starts no more threads.
  virtual void open_host_lane() {}
  /// How long the computation of the last layer waited for that lane; asked of a runner that computes at once.
  [[nodiscard]] virtual Seconds waited_for_host() const { return Seconds{0}; }

  /// Gives the device all layers launched so far: a runner may hold them back, to give it many at once. Call it before
  /// a ticket is recorded behind them. `launch_samples` gives them too.
  virtual void give() {}

  /// After the last layer: computes logits and tokens of some of its rows, none of them twice.
  virtual void launch_samples(std::span<const SampleRow> rows) = 0;

  /// Waits for the samples: one token per row given to `launch_samples`, in that order; negative if the row's logits
  /// are not all finite. Valid until the next `launch_samples`.
  [[nodiscard]] virtual std::span<const std::int32_t> tokens() = 0;

  /// The logits of the samples' row `sample`, fetched to the host: for listeners, not for every step. Call it before
  /// the next iteration begins; valid until that iteration's `launch_samples`.
  [[nodiscard]] virtual std::span<const float> logits(std::size_t sample) = 0;

  /// Ok, or why nothing computed since the last iteration can be trusted: the device has failed for good. The tokens of
  /// such an iteration are negative or in the vocabulary, and are not reported. Called once per iteration, after its
  /// tokens.
  [[nodiscard]] virtual Status status() { return {}; }

  /// What was replayed so far, and whether the driver refused; nothing for a runner that launches no
  /// kernels.
  [[nodiscard]] virtual std::optional<GraphCounts> graphs() const { return std::nullopt; }

  [[nodiscard]] virtual const DecoderConfig& config() const = 0;
};

// BatchTimer: how long one iteration's passes take on a given device.

/// The rows of a timed iteration: one chunk of a prompt, and decodes.
struct TimedBatch {
  int chunk = 0;   ///< rows
  int past = 0;    ///< tokens of its sequence before the chunk
  int decodes = 0; ///< rows, each a sequence of its own
  int context = 0; ///< tokens before each decode's row
  /// If false, rows pass projections, norms and MLP, and each row attends only to itself.
  bool attends = true;
  int longest = 0; ///< tokens before the first decode's row instead of `context`, if above 0
  /// Rows behind those, the first tokens of one more sequence, of which a layer computes only K and V. A device with
  /// memory of its own reads their hidden states from it, which is timed too.
  int stored = 0;

  /// Tokens before the row of decode `i`.
  [[nodiscard]] int context_of(int i) const { return i == 0 && longest > 0 ? longest : context; }
  /// The most tokens of a sequence, its fresh ones included.
  [[nodiscard]] int longest_sequence() const {
    const int decode = decodes > 0 ? std::max(context, longest) + 1 : 0;
    return std::max({past + chunk, decode, stored});
  }
  [[nodiscard]] int rows() const { return chunk + decodes; }
  [[nodiscard]] int all_rows() const { return rows() + stored; }
  [[nodiscard]] int sequences() const { return decodes + (chunk > 0 ? 1 : 0); }
  friend bool operator==(const TimedBatch&, const TimedBatch&) = default;
};

/// How long a batch took.
struct BatchTimes {
  Seconds begin{0}; ///< embedding
  Seconds layer{0}; ///< mean of the layers that follow another layer: an iteration is their sum, slow ones included
  Seconds head{0};  ///< last norm and logits of every sequence's last row
  Seconds sampler{0};
};

/// An abstract class: programs choose their device at run time, and a measurement takes milliseconds per call.
class BatchTimer {
 public:
  BatchTimer() = default;
  BatchTimer(const BatchTimer&) = delete;
  BatchTimer& operator=(const BatchTimer&) = delete;
  virtual ~BatchTimer() = default;

  /// Whether there is enough memory, and enough positions, for the batch.
  [[nodiscard]] virtual bool fits(const TimedBatch& batch) const = 0;
  /// Times one pass of a batch that fits and has at least one row. A single measurement; the caller repeats it.
  [[nodiscard]] virtual BatchTimes time(const TimedBatch& batch) = 0;
};

// ForwardingRunner: a ModelRunner that forwards every call, as a base for runners that change some of them.

/// A derived class overrides only what it does differently. Its constructor chooses the runner behind it, which may be
/// one of its members.
class ForwardingRunner : public ModelRunner {
 public:
  [[nodiscard]] Bytes workspace(std::int64_t rows, std::int64_t samples) const override {
    return inner_->workspace(rows, samples);
  }
  void place(const RunnerMemory& memory) override { inner_->place(memory); }
  void begin(std::span<const std::int32_t> tokens, std::span<const std::int32_t> positions) override {
    inner_->begin(tokens, positions);
  }
  void announce(std::span<const GrownTable> tables) override { inner_->announce(tables); }
  void expect(std::span<const SampleRow> rows) override { inner_->expect(rows); }
  void restore(std::span<const HiddenRows> rows) override { inner_->restore(rows); }
  void launch_layer(int layer, const LayerWeights& weights, std::span<const SequenceRows> sequences, int rows,
                    int stored_rows, std::span<const HiddenRows> kept) override {
    inner_->launch_layer(layer, weights, sequences, rows, stored_rows, kept);
  }
  [[nodiscard]] bool has_host_lane() const override { return inner_->has_host_lane(); }
  void open_host_lane() override { inner_->open_host_lane(); }
  [[nodiscard]] Seconds waited_for_host() const override { return inner_->waited_for_host(); }
  void give() override { inner_->give(); }
  void launch_samples(std::span<const SampleRow> rows) override { inner_->launch_samples(rows); }
  [[nodiscard]] std::span<const std::int32_t> tokens() override { return inner_->tokens(); }
  [[nodiscard]] std::span<const float> logits(std::size_t sample) override { return inner_->logits(sample); }
  [[nodiscard]] Status status() override { return inner_->status(); }
  [[nodiscard]] std::optional<GraphCounts> graphs() const override { return inner_->graphs(); }
  [[nodiscard]] const DecoderConfig& config() const override { return inner_->config(); }

 protected:
  void forward_to(ModelRunner& inner) { inner_ = &inner; }

 private:
  ModelRunner* inner_ = nullptr;
};

} // namespace sluice
