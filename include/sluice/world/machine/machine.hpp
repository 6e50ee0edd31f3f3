// SPDX-License-Identifier: Apache-2.0
// Machine: runs iterations with a model, two memories and a link.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/model/decoder/model_runner.hpp"
#include "sluice/model/decoder/weights.hpp"
#include "sluice/world/host_tier/host_tier_steps.hpp"
#include "sluice/world/host_tier/record_writer.hpp"
#include "sluice/world/host_tier/tier_searches.hpp"
#include "sluice/world/machine/block_pool.hpp"
#include "sluice/world/machine/block_steps.hpp"
#include "sluice/world/machine/device.hpp"
#include "sluice/world/machine/layers.hpp"
#include "sluice/world/machine/machine_core.hpp"
#include "sluice/world/machine/machine_setup.hpp"
#include "sluice/world/machine/token_requests.hpp"
#include "sluice/world/real/async_thread.hpp"
#include "sluice/world/real/token_world.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice {

/// The world of a real backend, on any device. Before each iteration the machine compares where every block is with
/// where the engine's rows want it, and moves the difference. (A simulation gets the moves from the engine; the machine
/// finds them itself.) Then it computes the layers in order, each after everything it needs has arrived.
///
/// MachineCore and its functions decide, in block numbers; the device turns numbers into addresses and copies into
/// transfers; the runner computes. One thread steps the machine; links and planning may have threads of their own. Do
/// not move a Machine: lanes hold its address.
template <MachineDevice Device>
class Machine final : public TokenWorld {
 public:
  /// Makes a machine, which keeps `weights`. Errors: no decoder has this configuration, layers give blocks back beside
  /// a host tier, an iteration's buffers do not fit, or the system refuses the memory.
  template <class... Args>
  static Expected<std::shared_ptr<Machine>> make(ModelWeights weights, std::unique_ptr<ModelRunner> runner,
                                                 const MachineSetup& setup, TokenListener listener = {},
                                                 Args&&... args) {
    if (Status status = check(weights.config, "the model"); !status) return status.error();
    if (setup.gives_back && setup.tier_blocks > LayerBlocks{0})
      return Error{ErrorCode::unsupported, "gives_back", "there is a host tier, which needs all blocks of a request",
                   "no tier_blocks, or layers that keep their blocks"};
    auto machine = std::shared_ptr<Machine>{
        new Machine(std::move(weights), std::move(runner), setup, std::move(listener), std::forward<Args>(args)...)};
    if (!machine->memory_.take(machine->core_.workspace))
      return Error{ErrorCode::out_of_memory, "device memory", "the buffers of an iteration do not fit",
                   "more memory, or smaller limits"};
    if (Status status = machine->device_.connect(machine->core_, *machine->runner_); !status) return status.error();
    if (setup.records != nullptr && machine->core_.tier.exists()) {
      if constexpr (Device::computes_at_once) {
        const HostBlock block = [&device = machine->device_](std::int32_t host) { return device.host_block(host); };
        machine->searches_.read_from(setup.records, block);
        machine->writer_.emplace(machine->core_, setup.records, block);
      } else {
        return Error{ErrorCode::unsupported, "a disk below the host tier", "this device does not support it",
                     "the CPU"};
      }
    }
    return machine;
  }
  ~Machine() override {
    {
      Lock lock{core_.schedule.mutex};
      if (writer_) // what is on its way to the host tier reaches the disk
        waits_.wait_until(lock, [this] { return settle(), core_.sequences.departed().empty(); });
      core_.schedule.halt();
    }
    device_.stop(); // before the state that the lanes work on
  }

  std::uint64_t seek(const TokenRequest& request, const WouldLoad& would_load = {}) override {
    Lock lock{core_.schedule.mutex};
    settle();
    return searches_.seek(lock, request, would_load);
  }
  bool sought(std::uint64_t search, const WouldLoad& would_load = {}) override {
    device_.wake(); // lets a link without a thread of its own continue
    Lock lock{core_.schedule.mutex};
    settle();
    return searches_.over(lock, search, would_load);
  }
  Tokens find(std::uint64_t search, const WouldLoad& would_load = {}) override {
    Lock lock{core_.schedule.mutex};
    // What `would_load` throws ends the search: a caller that gave only the request could not.
    TierSearches::EndsSearch ends{&searches_, search};
    do { // behind KV that has arrived, another request's may be on its way
      waits_.wait_until(lock, [&] { return settle(), !searches_.waits_for_departed(search); });
      if (searches_.waits_for_departed(search)) break; // nothing moves any more
    } while (!searches_.over(lock, search, would_load) && searches_.waits_for_departed(search));
    ends.of = nullptr;
    return searches_.find(lock, search);
  }
  using TokenWorld::find;
  void leave_search(std::uint64_t search) override {
    const std::lock_guard lock{core_.schedule.mutex};
    searches_.leave(search);
  }
  void enter(RequestId id, TokenRequest request) override {
    {
      const std::lock_guard lock{core_.schedule.mutex};
      searches_.keep_for(id);
    }
    requests_.enter(id, std::move(request));
  }
  [[nodiscard]] std::span<const std::int32_t> tokens(RequestId id) const override { return requests_.tokens(id); }
  [[nodiscard]] std::span<const std::int32_t> generated(RequestId id, Tokens first, Tokens count) const override {
    return requests_.generated(id, first, count);
  }
  /// The request has ended, or is cancelled: the host tier gets its KV, and the device keeps what the engine shares.
  void forget(RequestId id) override {
    if (core_.tier.exists() || core_.released.used()) {
      {
        const std::lock_guard lock{core_.schedule.mutex};
        (void)core_.tier.take_kept(id);
        core_.sequences.for_each([&](Slot, KvSequence& sequence) {
          if (sequence.id == id) leave(sequence);
        });
        core_.schedule.freed();
      }
      device_.wake();
    }
    requests_.forget(id);
  }

  [[nodiscard]] const ModelWeights& weights() const override { return core_.weights.host(); }
  [[nodiscard]] const DeviceMemory& device_memory() const override { return memory_; }
  [[nodiscard]] CopyTotals moved() const override { return device_.moved(); }
  [[nodiscard]] std::optional<GraphCounts> graphs() const override { return runner_->graphs(); }
  [[nodiscard]] LayerBlocks host_peak() const override { return core_.store.host_peak(); }
  [[nodiscard]] HostTierCounts host_tier() const override {
    const std::lock_guard lock{core_.schedule.mutex};
    HostTierCounts counts = core_.tier.counts();
    counts.to_device = core_.schedule.moved(Way::to_device);
    counts.to_host = core_.schedule.moved(Way::to_host);
    if (writer_) {
      const RecordStore::Totals disk = core_.setup.records->totals();
      counts.disk = {disk.capacity, disk.bytes, writer_->writing(), disk.written, disk.evicted, disk.faults};
    }
    return counts;
  }
  /// Whether KV of ended requests was on its way to the host tier since the last call, or blocks of the tier are on
  /// theirs to the disk.
  [[nodiscard]] bool keeps_moving() {
    device_.wake(); // lets a link without a thread of its own continue
    const std::lock_guard lock{core_.schedule.mutex};
    const bool moves = !core_.sequences.departed().empty() || (writer_ && writer_->writing() > 0);
    settle();
    return moves;
  }
  /// Whether records are read, or noted as used.
  [[nodiscard]] bool keeps_reading() const {
    const std::lock_guard lock{core_.schedule.mutex};
    return searches_.works();
  }
  [[nodiscard]] const ScheduleLooks& schedule_looks() const { return core_.schedule.looks(); }

  [[nodiscard]] Seconds now() const override { return since_began(Clock::now()); }
  void idle_until(Seconds when) override {
    (void)keeps_moving();
    const Seconds left = when - now();
    if (left <= Seconds{0}) return;
    if (core_.setup.skips_idle)
      skipped_ += left;
    else
      std::this_thread::sleep_for(std::chrono::duration<double>(left.count()));
  }
  void idle_until(Seconds when, Doorbell& bell) override {
    // While KV of ended requests moves, the engine looks again soon, and not with the next request: blocks that have
    // reached the host tier are counted, and written to the disk. The thread that reads the disk rings, too.
    const Seconds most{keeps_moving() ? 0.01 : std::numeric_limits<double>::infinity()};
    const bool over = ring_when_sought(&bell);
    if (const Seconds left = std::min(when - now(), most); !over && left > Seconds{0}) {
      if (!core_.setup.skips_idle || std::isinf(left.count()))
        bell.wait_for(std::chrono::duration<double>(left.count()));
      else if (!bell.hear())
        skipped_ += left;
    }
    (void)ring_when_sought(nullptr);
  }

  /// Loads all weights, or as many layers as fit; the first iteration moves whatever its plan wants otherwise.
  [[nodiscard]] Status load() override {
    if (loaded_) return {};
    const Expected<WeightsPlan> plan = core_.weights.fitting();
    return plan ? load_by(*plan) : Status{plan.error()};
  }
  /// The weights are on the device: the first iteration does not wait for them.
  [[nodiscard]] bool ready() const { return loaded_; }

  [[nodiscard]] bool attends_on_host() const override {
    return HostAddresses<std::remove_reference_t<decltype(std::declval<Device&>().lane())>> && runner_->has_host_lane();
  }
  void launch(const Iteration& iteration, TransferOrder order) override {
    if (!loaded_) {
      [[maybe_unused]] const Status status = load_by(iteration.view.plan->weights);
      SLUICE_ASSERT(status, "the engine counts the memory of weights that do not stream");
    }
    start_ = now();
    waits_.begin();
    outcomes_.clear();
    {
      Lock lock{core_.schedule.mutex};
      core_.schedule.forget_needs();
      settle();
      reconcile(core_, iteration, requests_, [this](KvSequence& sequence) { leave(sequence); });
      if (std::exchange(waits_for_writes_, false)) waits_.await_written(lock);
      gather(core_, iteration,
             [this](const ScheduledRequest& scheduled) { return requests_.tokens(scheduled.row->id); });
      adopt_weights(lock, iteration.view.plan->weights);
      waits_.make_room(lock);
      needs_.collect(core_);
      needs_.begin(core_.schedule, order);
    }
    if (std::any_of(core_.batch.requests().begin(), core_.batch.requests().end(),
                    [](const ScheduledRequest& scheduled) { return scheduled.hosted; }))
      runner_->open_host_lane(); // not for engines that never host
    device_.wake();
  }
  IterationCost wait(const Iteration& /*iteration*/) override {
    runner_->begin(core_.batch.tokens(), core_.batch.positions());
    {
      Lock lock{core_.schedule.mutex};
      if (core_.batch.tokens().empty()) waits_.await_loaded(lock); // nobody computes until one has its KV
      requests_.collect_samples(core_);
      if constexpr (!Device::computes_at_once) rows_.announce(core_, device_.lane(), *runner_);
      runner_->expect(requests_.samples());
      if constexpr (!Device::computes_at_once) together_ = !needs_.moves_kv() && core_.schedule.at_rest();
    }
    times_.assign(static_cast<std::size_t>(core_.layers), LayerTimes{});
    host_waits_.assign(static_cast<std::size_t>(core_.layers), 0);
    for (int layer = 0; layer < core_.layers; ++layer) launch_layer(layer);
    choose_tokens();
    if (const Status status = runner_->status(); status)
      report_lost();
    else
      report_failed(status.error());
    const double stalled = collect_times();
    return {now() - start_, Seconds{stalled}};
  }

  [[nodiscard]] double leaving_blocks() override {
    const std::lock_guard lock{core_.schedule.mutex};
    return static_cast<double>(core_.schedule.leaving());
  }
  [[nodiscard]] std::span<const RequestOutcome> outcomes() const override { return outcomes_; }
  [[nodiscard]] std::span<const LayerTimes> layer_times() const override { return times_; }
  [[nodiscard]] std::span<const LinkTimes> link_times() const override { return link_times_; }
  [[nodiscard]] std::span<const double> computed_layers() const override { return computed_; }
  /// The tokens stay until `forget(id)`: the user may want those generated so far.
  void cancelled(Slot slot, std::int64_t /*submitted*/) override {
    {
      const std::lock_guard lock{core_.schedule.mutex};
      if (KvSequence* sequence = core_.sequences.find(slot)) leave(*sequence);
      core_.schedule.freed();
    }
    device_.wake(); // room has become free
  }
  [[nodiscard]] std::optional<Replacement> host_tier_evicts() const override {
    return core_.tier.exists() ? std::optional{core_.setup.tier_evicts} : std::nullopt;
  }
  [[nodiscard]] bool has_disk() const override { return writer_.has_value(); }
  void keep(std::span<const KeptKv> kept) override {
    if (!core_.tier.exists()) return;
    const std::lock_guard lock{core_.schedule.mutex};
    for (const KeptKv& one : kept) {
      KvSequence* const sequence = core_.sequences.find(one.slot);
      if (sequence == nullptr || sequence->id != one.id) continue; // it has no KV
      sequence->kept = one;
      waits_for_writes_ = waits_for_writes_ || one.waited;
      sequence->pinned_until = one.pins_for > Seconds{0} ? now() + one.pins_for : Seconds{0};
    }
  }
  void released(Seconds /*until*/) override {}
  [[nodiscard]] bool has_loaded(Slot slot) const override {
    const std::lock_guard lock{core_.schedule.mutex};
    const KvSequence* const sequence = core_.sequences.find(slot);
    return sequence == nullptr || sluice::has_loaded(core_, *sequence);
  }
  [[nodiscard]] BlockNames block_names() override {
    return {this, [](void* of, RequestId id, std::size_t count, std::vector<BlockKey>& keys) {
              auto& own = *static_cast<Machine*>(of);
              // Each token of a scored prompt needs the logits before it: it finds nothing, as in the host tier.
              if (const TokenRequest* const request = own.requests_.find(id); request == nullptr || request->scores)
                return;
              const std::span<const RecordKey> named = own.requests_.keys(id, count, own.core_.block_tokens);
              for (std::size_t i = keys.size(); i < named.size(); ++i) keys.push_back(block_key(named[i]));
            }};
  }
  void async(void (*work)(void*), void* what) override { async_.start(work, what); }
  [[nodiscard]] bool async_done() override { return async_.done(); }
  void join_async() override { async_.join(); }

 private:
  using Lock = std::unique_lock<std::mutex>;
  using Clock = std::chrono::steady_clock;

  template <class... Args>
  Machine(ModelWeights weights, std::unique_ptr<ModelRunner> runner, const MachineSetup& setup, TokenListener listener,
          Args&&... args)
      : memory_(setup.device_memory),
        device_(std::forward<Args>(args)...),
        runner_(std::move(runner)),
        core_(std::move(weights), setup,
              kv_block_shape(runner_->config().shape, setup.limits.block_tokens, device_.element_bytes()), memory_,
              runner_->workspace(setup.rows(), setup.limits.batch), device_),
        requests_(std::move(listener)),
        waits_(core_, device_),
        began_(Clock::now()) {}

  [[nodiscard]] Seconds since_began(Clock::time_point when) const {
    return Seconds{std::chrono::duration<double>(when - began_).count()} + skipped_;
  }
  [[nodiscard]] double in_iteration(Clock::time_point when) const { return (since_began(when) - start_).count(); }

  // The caller of these two holds the schedule's mutex.

  /// A request leaves its slot. If its tokens are still known, the host tier gets its KV.
  void leave(KvSequence& sequence) {
    if (core_.released.used()) publish(core_, sequence, requests_);
    const TokenRequest* const request = core_.tier.exists() ? requests_.find(sequence.id) : nullptr;
    if (request == nullptr)
      core_.sequences.leave(sequence);
    else
      depart(core_, sequence, request->tokens, request->salt, now());
  }
  /// Blocks that have reached the host tier belong to it, and go to the disk.
  void settle() {
    if (core_.tier.exists()) core_.tier.unpin_expired(now());
    if (core_.sequences.departed().empty()) return;
    sluice::settle(core_, now(), [this](SettledBlock block) {
      if (writer_) writer_->add(std::move(block));
    });
  }
  bool ring_when_sought(Doorbell* bell) {
    const std::lock_guard lock{core_.schedule.mutex};
    return searches_.ring_when_over(bell);
  }
  /// The clock stands still meanwhile: a server loads before it serves.
  [[nodiscard]] Status load_by(const WeightsPlan& plan) {
    const Seconds before = now();
    device_.load(core_);
    Status status = core_.weights.load(plan, [this](const PlacedCopy& copy) { device_.put(copy); });
    if (status) status = device_.adopt_weights(core_);
    loaded_ = status.ok();
    skipped_ -= now() - before;
    return status;
  }
  void adopt_weights(Lock& lock, const WeightsPlan& plan) {
    if (!core_.weights.differs(plan)) return;
    waits_.halt_weights(lock);
    core_.weights.adopt(plan);
    [[maybe_unused]] const Status status = device_.adopt_weights(core_);
    SLUICE_ASSERT(status, "address space for slots");
  }

  void launch_layer(int layer) {
    auto& lane = device_.lane();
    Lock lock{core_.schedule.mutex};
    const Seconds waited = waits_.stalled();
    restore_hidden(lock, layer);
    waits_.await_layer(lock, layer);
    times_[static_cast<std::size_t>(layer)].stall_s = (waits_.stalled() - waited).count();
    if constexpr (Device::computes_at_once) core_.schedule.computes(layer);
    open_layer(core_, layer);
    if (core_.weights.ready(layer)) point_at_weights(layer); // otherwise all requests are lost, and nothing is computed
    rows_.collect(core_, layer, lane);
    rows_.collect_kept(core_, layer, lane);
    if constexpr (Device::computes_at_once) { // the link continues meanwhile; on other devices a launch is short
      lock.unlock();
      device_.wake();
    }
    if (layer == 0 || !together_) lane.begins(layer);
    if (!rows_.rows().empty())
      runner_->launch_layer(layer, weights_, rows_.rows(), core_.batch.rows(layer), core_.batch.stored_rows(layer),
                            rows_.hidden());
    if constexpr (Device::computes_at_once)
      host_waits_[static_cast<std::size_t>(layer)] = rows_.rows().empty() ? 0 : runner_->waited_for_host().count();
    if (const bool last = layer + 1 == core_.layers; last || !together_) {
      SLUICE_ASSERT(!together_ || core_.schedule.at_rest(), "no copy of blocks whose use has no ticket yet");
      runner_->give();
      lane.launched(layer);
    }
    if constexpr (Device::computes_at_once) lock.lock();
    close_layer(core_, layer);
    core_.weights.computed(layer);
    core_.schedule.launched(layer);
    if constexpr (Device::computes_at_once) core_.schedule.computed(layer);
    lock.unlock();
    device_.wake();
  }
  /// Restores the prefixes that start again at the layer, before the blocks for their KV are taken.
  void restore_hidden(Lock& lock, int layer) {
    auto& lane = device_.lane();
    while (waits_.await_hidden(lock, layer)) {
      rows_.collect_restored(core_, layer, lane);
      if constexpr (Device::computes_at_once) lock.unlock();
      runner_->restore(rows_.hidden());
      lane.given();
      if constexpr (Device::computes_at_once) lock.lock();
      rows_.leave_restored(core_);
    }
  }
  void point_at_weights(int layer) {
    auto& lane = device_.lane();
    const WeightStore& weights = core_.weights;
    const std::optional<DevicePlace> slot = weights.slot_place(layer);
    weights_.point_at(weights.host().layout_at(layer), lane.reads(WeightStore::home_of(layer)),
                      slot ? lane.reads(*slot) : nullptr, weights.kept(layer));
  }

  /// A request that is lost by now is reported after this iteration; one that is lost during sampling, after the next.
  void choose_tokens() {
    {
      const Lock lock{core_.schedule.mutex};
      losing_.clear();
      core_.sequences.for_each([this](Slot slot, const KvSequence& sequence) {
        if (sequence.lost) losing_.push_back(slot);
      });
      requests_.computed(core_);
      if (!losing_.empty()) requests_.collect_samples(core_); // without theirs
    }
    const bool any = !requests_.samples().empty();
    if (any) runner_->launch_samples(requests_.samples());
    device_.lane().finish(); // the link continues while the device computes
    if (any) requests_.take(*runner_, outcomes_);
    requests_.score(*runner_, static_cast<std::size_t>(core_.setup.limits.batch));
  }
  /// Reports the requests that were lost when tokens were chosen, running or not.
  void report_lost() {
    const Lock lock{core_.schedule.mutex};
    core_.schedule.forgive_weights();
    for (const Slot slot : losing_) {
      KvSequence& sequence = *core_.sequences.find(slot);
      outcomes_.push_back({slot, true, sequence.reason, sequence.recompute});
      core_.sequences.leave(sequence);
    }
  }
  /// A failed device has lost everything: all requests that have KV end with the device's message, whatever their
  /// tokens were.
  void report_failed(const Error& error) {
    failure_ = error.line();
    outcomes_.clear();
    const Lock lock{core_.schedule.mutex};
    core_.sequences.for_each([this](Slot slot, KvSequence& sequence) {
      outcomes_.push_back({slot, true, failure_});
      core_.sequences.leave(sequence);
    });
  }
  /// Collects the iteration's times of layers and transfers. Returns the seconds that the computation waited for the
  /// link and for the host's attention.
  double collect_times() {
    double stalled = 0, waited_for_host = 0;
    computed_.clear();
    for (int layer = 0; layer < core_.layers; ++layer) {
      LayerTimes& times = times_[static_cast<std::size_t>(layer)];
      const LayerMoments moments = device_.lane().times(layer);
      times.start_s = in_iteration(moments.begun);
      times.end_s = in_iteration(moments.ended);
      // A device that runs behind its launches waits by itself, between two layers, for the last copy it needs.
      if constexpr (!Device::computes_at_once) {
        const double before = layer == 0 ? 0 : times_[static_cast<std::size_t>(layer) - 1].end_s;
        const bool waited = moments.arrived != LayerMoments::Time::min();
        times.stall_s = waited ? std::max(0.0, in_iteration(moments.arrived) - before) : 0;
      }
      times.cause = times.stall_s > 0 ? StallCause::link : StallCause::none;
      // The device waited in the middle of the layer; the timeline has all waits before it, as a simulation does.
      if (const double waited = host_waits_[static_cast<std::size_t>(layer)]; waited > 0) {
        if (waited > times.stall_s) times.cause = StallCause::host;
        times.start_s += waited;
        times.stall_s += waited;
        waited_for_host += waited;
      }
      stalled += times.stall_s;
      computed_.push_back(times.end_s - times.start_s);
    }
    {
      const Lock lock{core_.schedule.mutex};
      core_.schedule.take_spans(spans_);
    }
    link_times_.clear();
    for (const LinkSpan& span : spans_)
      link_times_.push_back({span.slot, span.weights, span.position, in_iteration(span.start), in_iteration(span.end)});
    return Device::computes_at_once ? waits_.stalled().count() + waited_for_host : stalled;
  }

  DeviceMemory memory_;
  Device device_;
  std::unique_ptr<ModelRunner> runner_; ///< destroyed before the device, in whose memory it computes
  MachineCore core_;
  TokenRequests requests_;
  LinkWaits<Device> waits_;
  BlockNeeds needs_;
  LayerRows rows_;
  LayerWeights weights_; ///< of the layer being launched
  bool loaded_ = false;
  bool waits_for_writes_ = false; ///< the next iteration begins when the host tier has what the last one computed
  /// Nothing moves during the iteration: a device that runs behind its launches gets all layers as one, with one
  /// ticket.
  bool together_ = false;

  std::vector<LayerTimes> times_; // of the last iteration
  std::vector<double> computed_;
  std::vector<double> host_waits_; ///< by layer: seconds that it waited for the host's attention
  std::vector<LinkTimes> link_times_;
  std::vector<LinkSpan> spans_;
  std::vector<RequestOutcome> outcomes_;
  std::string failure_;      ///< the device's message
  std::vector<Slot> losing_; ///< slots whose loss this iteration reports
  Seconds start_{0};

  std::optional<RecordWriter> writer_; ///< reads the host's memory: destroyed before the device
  TierSearches searches_{core_};       ///< writes there: the same

  AsyncThread async_;
  Clock::time_point began_;
  Seconds skipped_{0};
};

} // namespace sluice
