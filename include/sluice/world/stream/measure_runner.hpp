// SPDX-License-Identifier: Apache-2.0
// RunnerTimer, CopyTimer: how long launches and copies take on a device with memory of its own.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/core/units.hpp"
#include "sluice/model/decoder/decoder.hpp"
#include "sluice/model/decoder/model_runner.hpp"
#include "sluice/model/decoder/weights.hpp"
#include "sluice/world/link/copy.hpp"
#include "sluice/world/stream/beside.hpp"
#include "sluice/world/stream/memory_device.hpp"
#include "sluice/world/stream/stream_link.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

// RunnerTimer: how long one iteration's launches take on a device with memory of its own.

/// How much a RunnerTimer reserves.
struct TimerRoom {
  Tokens block_tokens{16};
  std::int64_t element_bytes = 2; ///< of K, V and the weights
  int rows = 256;                 ///< of the largest batch
  int samples = 16;       ///< of the largest batch in which every row yields a token; larger batches yield this many
  Bytes weights{1 << 30}; ///< of the layers that the timer holds: whole ones, at least one
  Bytes kv{1 << 30};
};

/// Runs batches through a runner as a machine would: launches layer after layer without waiting, and times them by the
/// device's own tickets. A layer's time is therefore its time in a row of layers, including the host's launch where the
/// device is faster. With more than one layer the first is not timed: the device idles before it while the host plans,
/// once per iteration and not once per layer.
///
/// The layers' weights lie one after another, and K and V of every layer elsewhere, so that caches hold what they hold
/// in serving. For a large model the timer holds only the first layers, `TimerRoom::weights` of them, which must be
/// more than a cache holds. K and V that nothing has computed contain numbers of the weights: fresh memory is mostly
/// zeros, which cost a multiplication less power, or is not a number.
///
/// A pass in which the runner launched layers for the first time, or recorded graphs, is not representative: it is
/// repeated until everything that can be replayed is replayed (GraphCounts).
template <MemoryDevice Memory>
class RunnerTimer final : public BatchTimer {
 public:
  /// `memory`: not reserved yet. `weights`: whole images of layers, as a machine would copy them. Errors: layers are of
  /// several kinds, which one time does not describe; the device has not enough memory.
  [[nodiscard]] static Expected<std::unique_ptr<RunnerTimer>> make(std::shared_ptr<Memory> memory,
                                                                   std::unique_ptr<ModelRunner> runner,
                                                                   const ModelWeights& weights, const TimerRoom& room) {
    if (const std::size_t kinds = layers_by_kind(weights.config).size(); kinds > 1)
      return Error{ErrorCode::unsupported, "the model", "its layers are of " + std::to_string(kinds) + " kinds",
                   "layers that are all alike, of which the first stand for all"};
    std::unique_ptr<RunnerTimer> timer(new RunnerTimer(std::move(memory), std::move(runner), weights, room));
    if (Status status = timer->load(weights); !status) return status.error();
    return timer;
  }

  [[nodiscard]] bool fits(const TimedBatch& batch) const override {
    return batch.longest_sequence() <= config().max_positions && batch.all_rows() <= room_.rows &&
           blocks_of(batch) <= blocks_ && batch.stored * hidden_bytes() <= blocks_ * block_bytes_;
  }

  [[nodiscard]] BatchTimes time(const TimedBatch& batch) override {
    SLUICE_ASSERT(batch.rows() > 0 && fits(batch), "a batch with rows, that fits");
    for (int untimed = 0;; ++untimed) {
      const GraphCounts before = runner_->graphs().value_or(GraphCounts{});
      const BatchTimes times = pass(batch);
      const GraphCounts after = runner_->graphs().value_or(GraphCounts{});
      const bool settled = after.made == before.made && (after.launched == before.launched || !after.refused.empty());
      if (settled || untimed == most_untimed) return times;
    }
  }

  [[nodiscard]] int layers() const { return static_cast<int>(layers_.size()); }

 private:
  static constexpr int most_untimed =
      2; ///< one that launches, and one that makes graphs: a third finds no room for any

  [[nodiscard]] BatchTimes pass(const TimedBatch& batch) {
    write_rows(batch);
    const Ticket begun = memory_->record(StreamId::compute, Timing::timed);
    runner_->begin(tokens_, positions_);
    runner_->expect(samples_);
    const Ticket embedded = memory_->record(StreamId::compute, Timing::timed);
    Ticket before = embedded;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      point_at_blocks(batch);
      restore(batch);
      runner_->launch_layer(static_cast<int>(i), layers_[i], sequences_, batch.rows(), batch.stored, {});
      if (i > 0 || layers_.size() == 1) continue;
      runner_->give();
      before = memory_->record(StreamId::compute, Timing::timed);
    }
    runner_->give();
    const Ticket computed = memory_->record(StreamId::compute, Timing::timed);
    runner_->launch_samples(samples_);
    const Ticket sampled = memory_->record(StreamId::compute, Timing::timed);
    (void)runner_->tokens();
    const auto there = std::chrono::steady_clock::now();
    memory_->synchronize(sampled);
    const auto seconds = [](auto time) { return Seconds{std::max(0.0, std::chrono::duration<double>(time).count())}; };
    const auto between = [&](const Ticket& from, const Ticket& to) {
      return seconds(memory_->time(to) - memory_->time(from));
    };
    BatchTimes times;
    times.begin = between(begun, embedded);
    times.layer = between(before, computed) / static_cast<double>(std::max<std::size_t>(1, layers_.size() - 1));
    times.head = between(computed, sampled);
    times.sampler = seconds(there - memory_->time(sampled)); // until the host has the tokens
    return times;
  }

  RunnerTimer(std::shared_ptr<Memory> memory, std::unique_ptr<ModelRunner> runner, const ModelWeights& weights,
              const TimerRoom& room)
      : memory_(std::move(memory)), runner_(std::move(runner)), room_(room) {
    const ModelShape& shape = weights.config.shape;
    layer_bytes_ = (weights.layout.bytes.count() + beside_alignment - 1) / beside_alignment * beside_alignment;
    held_ = std::clamp<std::int64_t>(room.weights.count() / layer_bytes_, 1, shape.layers);
    block_bytes_ = kv_block_shape(shape, room.block_tokens, room.element_bytes).bytes().count();
    blocks_ = std::max<std::int64_t>(1, room.kv.count() / block_bytes_);
  }

  Status load(const ModelWeights& weights) {
    const Bytes workspace = runner_->workspace(room_.rows, room_.samples);
    const Bytes kv{blocks_ * block_bytes_};
    if (Status status = memory_->reserve(Bytes{held_ * layer_bytes_} + kv, bytes_beside(weights, workspace), Bytes{0});
        !status)
      return status;
    std::byte* const beside = memory_->beside_arena();
    std::byte* const outer = beside + detail::outer_weights_at(workspace);
    runner_->place({{beside, static_cast<std::size_t>(workspace.count())}, weights.moved_to(outer, beside_alignment)});
    copy_outer(*memory_, StreamId::compute, weights, outer);
    std::byte* const first = memory_->device_arena();
    const LayerLayout& layout = weights.layout_at(0); // of every layer
    for (std::int64_t layer = 0; layer < held_; ++layer) {
      const auto& tensors = weights.layers[static_cast<std::size_t>(layer)];
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        const TensorPlace& place = layout.places[i];
        copy(tensors[i], first + layer * layer_bytes_ + place.offset, place.bytes());
      }
      layers_.emplace_back(layout, first + layer * layer_bytes_, nullptr, layout.bytes.count());
    }
    kv_ = first + held_ * layer_bytes_;
    // The largest tensor is a projection: numbers throughout.
    const auto largest = std::max_element(layout.places.begin(), layout.places.end(),
                                          [](const auto& a, const auto& b) { return a.bytes() < b.bytes(); });
    for (std::int64_t at = 0; at < kv.count(); at += largest->bytes())
      copy(first + largest->offset, kv_ + at, std::min(largest->bytes(), kv.count() - at));
    memory_->synchronize(memory_->record(StreamId::compute));
    return {};
  }
  void copy(const std::byte* from, std::byte* to, std::int64_t bytes) {
    Copy one;
    one.from = from;
    one.to = to;
    one.bytes = bytes;
    memory_->copy_async(StreamId::compute, one);
  }

  [[nodiscard]] const DecoderConfig& config() const { return runner_->config(); }
  [[nodiscard]] std::int64_t blocks_for_tokens(int tokens) const {
    return blocks_for(Tokens{tokens}, room_.block_tokens).count();
  }
  /// Blocks of one layer: its sequences share none.
  [[nodiscard]] std::int64_t blocks_of(const TimedBatch& batch) const {
    const std::int64_t stored = batch.stored > 0 ? blocks_for_tokens(batch.stored) : 0;
    if (!batch.attends) return batch.rows() + stored;
    std::int64_t blocks = stored + (batch.chunk > 0 ? blocks_for_tokens(batch.past + batch.chunk) : 0);
    for (int i = 0; i < batch.decodes; ++i) blocks += blocks_for_tokens(batch.context_of(i) + 1);
    return blocks;
  }

  void write_rows(const TimedBatch& batch) {
    tokens_.clear();
    positions_.clear();
    samples_.clear();
    for (int row = 0; row < batch.all_rows(); ++row) {
      const int place = row < batch.chunk ? batch.past + row : batch.context_of(row - batch.chunk);
      tokens_.push_back(measured_token(row, config().shape.vocabulary));
      positions_.push_back(row >= batch.rows() ? row - batch.rows() : batch.attends ? place : 0);
    }
    const int first = batch.chunk > 0 ? batch.chunk - 1 : 0;
    for (int row = first; row < batch.rows() && static_cast<int>(samples_.size()) < room_.samples; ++row)
      samples_.push_back({row, {}, 0, positions_[static_cast<std::size_t>(row)] + 1});
  }
  /// Assigns the next blocks, in turn.
  void point_at_blocks(const TimedBatch& batch) {
    sequences_.clear();
    pointers_.clear();
    const std::int64_t count = blocks_of(batch);
    for (std::int64_t i = 0; i < count; ++i, next_ = (next_ + 1) % blocks_)
      pointers_.push_back(kv_ + next_ * block_bytes_);
    std::size_t at = 0;
    const auto add = [&](int first_row, int rows, int position) {
      sequences_.push_back({first_row, rows, position, pointers_.data() + at, position});
      at += static_cast<std::size_t>(blocks_for_tokens(position + rows));
    };
    if (!batch.attends) { // each row is a sequence of its own, so that it computes with valid numbers
      for (int row = 0; row < batch.rows(); ++row) add(row, 1, 0);
    } else {
      if (batch.chunk > 0) add(0, batch.chunk, batch.past);
      for (int i = 0; i < batch.decodes; ++i) add(batch.chunk + i, 1, batch.context_of(i));
    }
    if (batch.stored > 0) add(batch.rows(), batch.stored, 0);
  }

  /// The stored rows take hidden states, block by block, from memory that holds K and V.
  void restore(const TimedBatch& batch) {
    if (batch.stored == 0) return;
    hidden_.clear();
    const int each = static_cast<int>(room_.block_tokens.count());
    for (int row = 0; row < batch.stored; row += each)
      hidden_.push_back({batch.rows() + row, std::min(each, batch.stored - row), kv_ + row * hidden_bytes()});
    runner_->restore(hidden_);
  }
  [[nodiscard]] std::int64_t hidden_bytes() const { return config().shape.hidden * room_.element_bytes; }

  std::shared_ptr<Memory> memory_;
  std::unique_ptr<ModelRunner> runner_; // destroyed before the memory, after waiting
  TimerRoom room_;
  std::int64_t layer_bytes_ = 0, held_ = 0, block_bytes_ = 0, blocks_ = 0, next_ = 0;
  std::byte* kv_ = nullptr;
  std::vector<LayerWeights> layers_;
  std::vector<std::int32_t> tokens_, positions_;
  std::vector<SampleRow> samples_;
  std::vector<std::byte*> pointers_;
  std::vector<SequenceRows> sequences_;
  std::vector<HiddenRows> hidden_;
};

// CopyTimer, StreamCopyTimer: how long copies between a device's memory and the host's take, one way and both at once.

/// Seconds per copy, among many of its size, each way; 0 for a way that was not requested.
struct CopySeconds {
  double to_device = 0;
  double to_host = 0;
};

/// An abstract class, as BatchTimer is.
class CopyTimer {
 public:
  CopyTimer() = default;
  CopyTimer(const CopyTimer&) = delete;
  CopyTimer& operator=(const CopyTimer&) = delete;
  virtual ~CopyTimer() = default;

  /// The size of the largest copy.
  [[nodiscard]] virtual std::int64_t most_bytes() const = 0;
  /// A single measurement that takes some milliseconds; the caller repeats it.
  [[nodiscard]] virtual CopySeconds time(std::int64_t bytes, bool to_device, bool to_host) = 0;
};

/// Gives copies to streams as a machine's link does, in batches with up to four under way (FedStream), and times them
/// by the streams' own tickets: the host's time until the next batch is part of a copy's time, as in a machine. Each
/// way has memory of its own on both sides.
template <MemoryDevice Memory>
class StreamCopyTimer final : public CopyTimer {
 public:
  /// `memory`: not reserved yet. `arena`: bytes for each way, on each side.
  [[nodiscard]] static Expected<std::unique_ptr<StreamCopyTimer>> make(std::shared_ptr<Memory> memory, Bytes arena) {
    std::unique_ptr<StreamCopyTimer> timer(new StreamCopyTimer(std::move(memory), arena.count()));
    if (Status status = timer->memory_->reserve(arena * 2, Bytes{0}, arena * 2); !status) return status.error();
    for (const bool to_device : {true, false}) // touches every page once: untouched pages do not exist yet
      (void)timer->time(timer->arena_, to_device, !to_device);
    return timer;
  }

  [[nodiscard]] std::int64_t most_bytes() const override { return arena_; }
  [[nodiscard]] CopySeconds time(std::int64_t bytes, bool to_device, bool to_host) override {
    const std::int64_t slots = std::max<std::int64_t>(1, arena_ / bytes);
    const std::int64_t count = std::clamp<std::int64_t>(arena_ / bytes, 4, most_copies);
    copies_in_.clear();
    copies_out_.clear();
    for (std::int64_t i = 0; i < count; ++i) {
      std::byte* const host = memory_->host_arena() + i % slots * bytes;
      std::byte* const device = memory_->device_arena() + i % slots * bytes;
      if (to_device) copies_in_.push_back(copy(host, device, bytes));
      if (to_host) copies_out_.push_back(copy(device + arena_, host + arena_, bytes));
    }
    std::array<FedStream<Memory>, 2> ways{FedStream{*memory_, StreamId::to_device, copies_in_},
                                          FedStream{*memory_, StreamId::to_host, copies_out_}};
    feed(*memory_, ways);
    const auto one = [&](const FedStream<Memory>& way) {
      return std::max(way.took().count(), 1e-9) / static_cast<double>(count);
    };
    return {to_device ? one(ways[0]) : 0, to_host ? one(ways[1]) : 0};
  }

 private:
  static constexpr std::int64_t most_copies = 1024; // of the smallest

  StreamCopyTimer(std::shared_ptr<Memory> memory, std::int64_t arena) : memory_(std::move(memory)), arena_(arena) {}
  [[nodiscard]] static Copy copy(const std::byte* from, std::byte* to, std::int64_t bytes) {
    Copy one;
    one.from = from;
    one.to = to;
    one.bytes = bytes;
    return one;
  }

  std::shared_ptr<Memory> memory_;
  std::int64_t arena_;
  std::vector<Copy> copies_in_, copies_out_; // of the measurement
};

} // namespace sluice
