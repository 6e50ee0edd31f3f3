// SPDX-License-Identifier: Apache-2.0
// CpuMachine: a decoder, two memories and a link, and what an iteration does with them.
#pragma once

#include "sluice/backend/cpu/async_thread.hpp"
#include "sluice/backend/cpu/copy_engine.hpp"
#include "sluice/backend/cpu/cpu.hpp"
#include "sluice/backend/cpu/device_memory.hpp"
#include "sluice/backend/cpu/kv_sequences.hpp"
#include "sluice/backend/cpu/kv_store.hpp"
#include "sluice/backend/cpu/link_schedule.hpp"
#include "sluice/backend/cpu/weight_store.hpp"
#include "sluice/backend/doorbell.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/decoder/decoder.hpp"
#include "sluice/decoder/sampler.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sluice {

/// What a machine is made with, apart from weights and a decoder.
struct CpuSetup {
  Bytes device_memory{0}; ///< weights, slots, KV and buffers, all together
  LayerBlocks host_blocks{0};
  Limits limits;
  /// The most tokens that one iteration passes again because their KV is nowhere (a placement with
  /// PrefixStates::passed), on top of the batch's: the buffers have rows for them.
  Tokens rebuilt{0};
  LinkRates link;
  FaultPlan faults{};
  bool skips_idle = false; ///< time with nothing to run passes at once

  /// The most rows of an iteration: the batch's and the rebuilt.
  [[nodiscard]] std::int64_t rows() const { return (limits.batch_tokens + rebuilt).count(); }
};

/// What a request is made of apart from its lengths: the engine plans with lengths alone.
struct CpuRequest {
  std::vector<std::int32_t> tokens; ///< the prompt; generated tokens are appended
  Sampling sampling{};
  std::uint64_t sequence = 0; ///< names the random numbers that its samples are drawn by
  bool ends = true;           ///< at any of the decoder's end tokens, before its length runs out
  std::size_t prompt = 0;     ///< how many of `tokens`: `CpuMachine::enter` sets it
};

/// Callbacks for tokens as they are sampled, before Delivery has seen them: for what looks into the decoder. Users get
/// theirs when Delivery releases them (observer/releases.hpp). The thread that steps the engine calls these.
struct CpuListener {
  std::function<void(RequestId, std::int32_t token)> token;
  /// The logits that a token was chosen from, and its position in the sequence.
  std::function<void(RequestId, std::int64_t position, std::span<const float>)> logits;
};

/// Memory that an iteration computes in, at its largest: activations, and the logits of a full batch.
[[nodiscard]] inline Bytes iteration_buffers(const Decoder& decoder, const CpuSetup& setup) {
  const std::int64_t logits = std::int64_t{setup.limits.batch} * decoder.config().shape.vocabulary;
  return decoder.workspace(setup.rows(), setup.limits.batch) + Bytes{logits * std::int64_t{sizeof(float)}};
}

/// The memory that a machine leaves for KV when all weights and the buffers of its limits are on the device, in layer
/// blocks; below 0 where the weights alone are larger.
[[nodiscard]] inline LayerBlocks device_kv_blocks(const ModelWeights& weights, const Decoder& decoder,
                                                  const CpuSetup& setup) {
  const std::int64_t block = kv_block_floats(weights.config.shape, setup.limits.block_tokens) * 4;
  const std::int64_t beside = (weights.outer_bytes() + weights.layout.bytes * weights.config.shape.layers).count() +
                              iteration_buffers(decoder, setup).count();
  const std::int64_t left = setup.device_memory.count() - beside;
  return LayerBlocks{left >= 0 ? left / block : -((block - 1 - left) / block)};
}

/// The world of `Cpu`. Before each iteration the machine compares where every block is with where the engine's rows
/// want it, and moves what differs; a simulation is told what moves, the machine finds it. Then it computes the layers
/// in order, each when all that it needs has arrived.
///
/// One thread steps the machine; copies and planning have their own. Do not move it: lanes have its address.
class CpuMachine final : public CpuWorld {
 public:
  /// Makes a machine, which keeps `weights`.
  static Expected<std::shared_ptr<CpuMachine>> make(ModelWeights weights, std::unique_ptr<Decoder> decoder,
                                                    const CpuSetup& setup, CpuListener listener = {}) {
    const ModelShape& shape = weights.config.shape;
    const KvBlockShape block{std::int64_t{2} * shape.kv_heads, std::int64_t{4} * shape.head_dim,
                             setup.limits.block_tokens.count()};
    auto memory = std::make_unique<DeviceMemory>(setup.device_memory);
    Expected<KvStore> store = KvStore::make(block, *memory, setup.host_blocks);
    if (!store) return store.error();
    if (!memory->take(iteration_buffers(*decoder, setup)))
      return Error{ErrorCode::out_of_memory, "device memory", "the buffers of an iteration do not fit",
                   "more memory, or smaller limits"};
    return std::shared_ptr<CpuMachine>{new CpuMachine(std::move(weights), std::move(decoder), setup, std::move(memory),
                                                      std::move(*store), std::move(listener))};
  }
  ~CpuMachine() override {
    {
      const std::lock_guard lock{schedule_.mutex};
      schedule_.halt();
    }
    copies_.reset(); // before what the lanes' threads work on
  }

  /// Tells the machine a request's tokens: before the first iteration in which the engine may run it.
  void enter(RequestId id, CpuRequest request) {
    request.prompt = request.tokens.size();
    requests_[index(id)] = std::move(request);
  }
  /// The prompt, and the tokens generated so far.
  [[nodiscard]] std::span<const std::int32_t> tokens(RequestId id) const { return requests_.at(index(id)).tokens; }
  /// Of the tokens that a request has generated, `count` from `first` on: those that Delivery has released, say. They
  /// stay at least until the next iteration.
  [[nodiscard]] std::span<const std::int32_t> generated(RequestId id, Tokens first, Tokens count) const {
    const CpuRequest& request = requests_.at(index(id));
    return std::span{request.tokens}.subspan(request.prompt + static_cast<std::size_t>(first.count()),
                                             static_cast<std::size_t>(count.count()));
  }
  void forget(RequestId id) { requests_.erase(index(id)); }

  [[nodiscard]] const ModelWeights& weights() const { return weights_.host(); }
  [[nodiscard]] const DeviceMemory& device_memory() const { return *memory_; }
  [[nodiscard]] CopyTotals moved() const { return copies_->totals(); }
  [[nodiscard]] LayerBlocks host_peak() const { return store_.host_peak(); }

  [[nodiscard]] Seconds now() const override {
    return Seconds{std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count()} + skipped_;
  }
  void idle_until(Seconds when) override {
    const Seconds left = when - now();
    if (left <= Seconds{0}) return;
    if (setup_.skips_idle)
      skipped_ += left;
    else
      std::this_thread::sleep_for(std::chrono::duration<double>(left.count()));
  }

  void idle_until(Seconds when, Doorbell& bell) override {
    const Seconds left = when - now();
    if (left <= Seconds{0}) return;
    if (!setup_.skips_idle || std::isinf(left.count()))
      bell.wait_for(std::chrono::duration<double>(left.count()));
    else if (!bell.hear())
      skipped_ += left;
  }

  /// By a plan under which all weights are resident, or as many layers as fit: the first iteration's plan may be
  /// another, and then moves what differs.
  [[nodiscard]] Status load() override {
    if (loaded_) return {};
    const Expected<WeightsPlan> plan = weights_.fitting();
    return plan ? load_by(*plan) : Status{plan.error()};
  }
  [[nodiscard]] bool ready() const override { return loaded_; }

  void launch(const Iteration& iteration, TransferOrder order) override;
  IterationCost wait(const Iteration& iteration) override;

  [[nodiscard]] double leaving_blocks() override {
    const std::lock_guard lock{schedule_.mutex};
    return static_cast<double>(schedule_.leaving());
  }
  [[nodiscard]] std::span<const RequestOutcome> outcomes() const override { return outcomes_; }
  [[nodiscard]] std::span<const LayerTimes> layer_times() const override { return times_; }
  [[nodiscard]] std::span<const LinkTimes> link_times() const override { return link_times_; }
  /// Its tokens stay until `forget(id)`: the user may want those that there are.
  void cancelled(Slot slot, std::int64_t /*submitted*/) override {
    {
      const std::lock_guard lock{schedule_.mutex};
      if (KvSequence* sequence = sequences_.find(slot)) sequences_.leave(*sequence);
      schedule_.freed();
    }
    copies_->wake(); // what waits for room has some
  }
  void released(Seconds /*until*/) override {}
  void async(void (*work)(void*), void* what) override { async_.start(work, what); }
  [[nodiscard]] bool async_done() override { return async_.done(); }
  void join_async() override { async_.join(); }

 private:
  using Lock = std::unique_lock<std::mutex>;
  static constexpr std::string_view no_room = "its KV finds no room on the device";
  static constexpr std::string_view no_rows = "the buffers have no rows for its tokens that are passed again";
  enum class Place : std::uint8_t { device, host, nowhere };

  /// What one claim has computed in this iteration.
  struct Part {
    Slot slot{};
    const RequestRow* row = nullptr;
    std::int64_t held = 0;    ///< tokens that have KV
    std::int64_t fresh = 0;   ///< tokens that get it
    std::int64_t head = 0;    ///< its oldest blocks, those that the sets of its holding speak of
    std::int64_t blocks = 0;  ///< after this iteration
    std::int64_t rebuilt = 0; ///< oldest tokens that are passed once more
    int last_rebuilt = -1;    ///< the last layer for which they are
    int first_row = 0, rebuilt_row = 0;
    bool samples = false;
    bool whole = false; ///< was preempted, and comes back as a whole before the first layer
    [[nodiscard]] std::int64_t total() const { return held + fresh; }
    /// Whether the layer reads all of the claim's KV.
    [[nodiscard]] bool uses(int layer) const { return fresh > 0 || layer <= last_rebuilt; }
  };

  CpuMachine(ModelWeights weights, std::unique_ptr<Decoder> decoder, const CpuSetup& setup,
             std::unique_ptr<DeviceMemory> memory, KvStore store, CpuListener listener)
      : setup_(setup),
        decoder_(std::move(decoder)),
        layers_(weights.config.shape.layers),
        memory_(std::move(memory)),
        store_(std::move(store)),
        sequences_(store_, layers_),
        weights_(std::move(weights), *memory_),
        schedule_(store_, sequences_, weights_, layers_, setup.link.each_way, setup.faults),
        listener_(std::move(listener)),
        block_tokens_(setup.limits.block_tokens.count()),
        copies_(std::make_unique<CopyEngine<LinkSchedule>>(schedule_, setup.link, setup.faults)),
        began_(std::chrono::steady_clock::now()) {
    // By the engine's address: lanes still run while `copies_` is being reset.
    schedule_.wake_inward = [engine = copies_.get()] { engine->wake(Way::to_device); };
  }

  /// The clock stands still meanwhile: a server loads before it serves.
  [[nodiscard]] Status load_by(const WeightsPlan& plan) {
    const Seconds before = now();
    Status status = weights_.load(plan);
    loaded_ = status.ok();
    skipped_ -= now() - before;
    return status;
  }

  // Before an iteration (cpu/machine_settle.hpp): everything to its place, or on its way -----------------------------
  void settle(const Iteration& iteration);
  void settle_cells(const RequestRow& row, KvSequence& sequence, bool computes);
  void to_device(const RequestRow& row, KvSequence& sequence, int layer, std::int64_t block);
  void evict(KvSequence& sequence, int layer, std::int64_t block);
  void leave(KvCell& cell);
  void lose(Slot slot, std::string_view reason);
  void adopt_weights(Lock& lock, const WeightsPlan& plan);
  void gather(const Iteration& iteration);
  void find_rebuilt(Part& part, KvSequence& sequence);
  void lay_out_rows();
  void make_room(Lock& lock);
  void drop_prefetched();
  bool release_lost(int layer);
  [[nodiscard]] bool take_block(Lock& lock, KvCell& cell, int layer);
  void need_blocks();
  void need_layer(const Part& part, KvSequence& sequence, int layer, int& previous);
  void need_weights();
  /// Calls `visit(part, sequence, layer, block, cell)` for every block of the batch's requests, new ones included.
  template <class Visit>
  void each_cell(Visit&& visit) {
    for (const Part& part : parts_) {
      KvSequence& sequence = *sequences_.find(part.slot);
      for (int layer = 0; layer < layers_; ++layer) {
        auto& cells = sequence.cells[static_cast<std::size_t>(layer)];
        for (std::int64_t block = 0; block < part.blocks; ++block)
          visit(part, sequence, layer, block, cells[static_cast<std::size_t>(block)]);
      }
    }
  }
  [[nodiscard]] Place place(const RequestRow& row, std::int64_t head, int layer, std::int64_t block) const {
    if (block >= head) return Place::device;
    return row.holding.host.contains(layer)      ? Place::host
           : row.holding.nowhere.contains(layer) ? Place::nowhere
                                                 : Place::device;
  }
  [[nodiscard]] std::int64_t blocks_of(std::int64_t tokens) const {
    return (tokens + block_tokens_ - 1) / block_tokens_;
  }

  // The layers (cpu/machine_layers.hpp) ------------------------------------------------------------------------------
  void compute_layer(int layer);
  void await_layer(Lock& lock, int layer);
  void open_blocks(int layer);
  void point_at_blocks(int layer);
  void close_blocks(int layer);
  void close_block(const Part& part, KvSequence& sequence, int layer, std::int64_t block);
  void give_up(int layer);
  void sample();
  void tell_lost();
  void tell_link();

  CpuSetup setup_;
  std::unique_ptr<Decoder> decoder_;
  int layers_;
  std::unique_ptr<DeviceMemory> memory_;
  KvStore store_;
  KvSequences sequences_;
  WeightStore weights_;
  LinkSchedule schedule_;
  CpuListener listener_;
  std::int64_t block_tokens_;
  std::unordered_map<std::uint32_t, CpuRequest> requests_;
  bool loaded_ = false;

  // The iteration.
  std::vector<Part> parts_;
  std::vector<std::int32_t> row_tokens_, row_positions_;
  int fresh_rows_ = 0;
  std::vector<std::size_t> rebuilding_; ///< parts, whose last rebuilt layer is the latest first
  std::vector<KvNeed> needs_;
  std::vector<WeightNeed> weight_needs_;
  std::vector<std::vector<std::byte*>> pointers_; ///< by part: its blocks of the layer that is computed
  std::vector<SequenceRows> sequence_rows_;
  std::vector<float> logits_;
  std::vector<LayerTimes> times_;
  std::vector<LinkTimes> link_times_;
  std::vector<LinkSpan> spans_;
  std::vector<RequestOutcome> outcomes_;
  std::vector<Slot> losing_; ///< slots whose loss is told in this iteration
  double stall_s_ = 0;
  Seconds start_{0};

  std::unique_ptr<CopyEngine<LinkSchedule>> copies_;
  AsyncThread async_;
  std::chrono::steady_clock::time_point began_;
  Seconds skipped_{0};
};

inline void CpuMachine::launch(const Iteration& iteration, TransferOrder order) {
  if (!loaded_) {
    [[maybe_unused]] const Status status = load_by(iteration.view.plan->weights);
    SLUICE_ASSERT(status, "who made the engine counted the memory of weights that do not stream");
  }
  start_ = now();
  stall_s_ = 0;
  outcomes_.clear();
  {
    Lock lock{schedule_.mutex};
    schedule_.forget_needs();
    settle(iteration);
    gather(iteration);
    adopt_weights(lock, iteration.view.plan->weights);
    make_room(lock);
    need_blocks();
    need_weights();
    schedule_.begin(order, needs_, weight_needs_);
  }
  copies_->wake();
}

inline IterationCost CpuMachine::wait(const Iteration& /*iteration*/) {
  decoder_->begin(row_tokens_, row_positions_);
  times_.assign(static_cast<std::size_t>(layers_), LayerTimes{});
  for (int layer = 0; layer < layers_; ++layer) compute_layer(layer);
  sample();
  tell_lost();
  tell_link();
  const Seconds duration = now() - start_;
  return {duration, Seconds{stall_s_}};
}

} // namespace sluice

#include "sluice/backend/cpu/machine_layers.hpp" // IWYU pragma: keep
#include "sluice/backend/cpu/machine_settle.hpp" // IWYU pragma: keep
