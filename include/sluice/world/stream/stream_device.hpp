// SPDX-License-Identifier: Apache-2.0
// StreamDevice: a machine's device with memory and streams of its own, ordered only by tickets.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/ring_queue.hpp"
#include "sluice/core/units.hpp"
#include "sluice/model/decoder/model_runner.hpp"
#include "sluice/model/decoder/weights.hpp"
#include "sluice/world/link/copy.hpp"
#include "sluice/world/machine/device.hpp"
#include "sluice/world/stream/arena.hpp"
#include "sluice/world/stream/beside.hpp"
#include "sluice/world/stream/memory_device.hpp"
#include "sluice/world/stream/stream_lane.hpp"
#include "sluice/world/stream/stream_link.hpp"
#include "sluice/world/stream/stream_memory.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace sluice {

/// Layers are launched, not run: the host gives the device a layer as soon as the last copy that the layer needs has
/// begun, and continues. Each block's tickets order them (StreamLane). How far the host runs ahead is bounded by the
/// link's batches, and by the end of the iteration, where the host waits for the tokens.
///
/// If copies may fail, a copy counts only when it has ended: a layer launched behind a failed copy would compute with
/// missing data.
template <MemoryDevice Memory, class Waits = EveryWait>
class StreamDevice {
 public:
  static constexpr bool computes_at_once = false;
  static constexpr std::int64_t copy_bytes = LinkBatches::copy;

  /// The compute lane.
  class Lane {
   public:
    explicit Lane(StreamDevice& device) : device_(&device) {}
    [[nodiscard]] const std::byte* reads(const DevicePlace& place, std::int32_t table = BlockUses::no_table) {
      return stream().reads(device_->parts_->arena.range(place), content(place), table);
    }
    [[nodiscard]] std::byte* writes(const DevicePlace& place, std::int32_t table = BlockUses::no_table) {
      return stream().writes(device_->parts_->arena.range(place), content(place), table);
    }
    /// The address that `reads` and `writes` will give: for tables that are uploaded before their layers' turns.
    [[nodiscard]] std::byte* address(const DevicePlace& place) {
      return stream().address(device_->parts_->arena.range(place), content(place));
    }
    void again(std::int32_t table) { stream().again(table); }
    void given() { (void)stream().given(); }
    void begins(int layer) {
      began_ = {stream().arrival(), device_->memory_->record(StreamId::compute, Timing::timed), {}, layer};
    }
    void launched(int layer) {
      layers_.resize(std::max(layers_.size(), static_cast<std::size_t>(layer) + 1));
      began_.ended = stream().launched();
      began_.count = layer + 1 - began_.first;
      for (int one = began_.first; one <= layer; ++one, began_.arrival = {}) of(one) = began_;
      device_->computing_.push_back(layer);
    }
    void finish() {
      const Ticket all = device_->memory_->record(StreamId::compute);
      while (!device_->memory_->done(all)) {
        device_->memory_->rest();
        device_->wake();
      }
      device_->wake();
    }
    [[nodiscard]] LayerMoments times(int layer) {
      const Launched& one = of(layer);
      const LayerMoments::Time begun = device_->memory_->time(one.begun);
      const auto share = (device_->memory_->time(one.ended) - begun) / one.count;
      LayerMoments moments{begun + share * (layer - one.first), begun + share * (layer + 1 - one.first)};
      if (one.arrival.number > 0) moments.arrived = device_->memory_->time(one.arrival);
      return moments;
    }

   private:
    friend StreamDevice;
    /// Layers that were launched as one.
    struct Launched {
      Ticket arrival, begun, ended; ///< `arrival`: that the first of them waited for
      int first = 0, count = 0;
    };
    static StreamWait::Content content(const DevicePlace& place) {
      return place.kind == DevicePlace::Kind::kv_block ? StreamWait::Content::kv : StreamWait::Content::weights;
    }
    StreamLane<Memory, Waits>& stream() { return device_->parts_->compute; }
    Launched& of(int layer) { return layers_[static_cast<std::size_t>(layer)]; }

    StreamDevice* device_;
    Launched began_;
    std::vector<Launched> layers_; ///< of the iteration, by layer
  };

  /// `element_bytes`: size of an element of K and V.
  explicit StreamDevice(std::shared_ptr<Memory> memory, std::int64_t element_bytes, Waits waits = {})
      : memory_(std::move(memory)), element_bytes_(element_bytes), waits_(std::move(waits)), lane_(*this) {}
  StreamDevice(const StreamDevice&) = delete;
  StreamDevice& operator=(const StreamDevice&) = delete;

  [[nodiscard]] std::int64_t element_bytes() const { return element_bytes_; }
  [[nodiscard]] static CopiesCount copies_count(const MachineSetup& setup) {
    return setup.faults.any() ? CopiesCount::when_ended : CopiesCount::when_begun;
  }
  /// Weights take whole blocks of the arena.
  [[nodiscard]] static Bytes granularity(Bytes block) { return block; }

  [[nodiscard]] static Bytes beside(const ModelWeights& model, Bytes workspace) {
    return bytes_beside(model, workspace);
  }

  /// Errors: not enough memory, another machine on this memory, a stated link rate, faults that delay copies.
  [[nodiscard]] Status connect(MachineCore& core, ModelRunner& runner) {
    const LinkRates& link = core.setup.link;
    if (link.to_device_bytes_per_s > 0 || link.to_host_bytes_per_s > 0 || link.per_copy_s > 0)
      return Error{ErrorCode::unsupported, "link", "a rate is stated, and this device's link is as fast as it is",
                   "no rates (0)"};
    const FaultPlan& faults = core.setup.faults;
    if (faults.most_delay.count() > 0 || faults.least_slowdown != 1 || faults.most_slowdown != 1)
      return Error{ErrorCode::unsupported, "faults", "copies would be late or slow", "faults that fail or reorder"};
    if (core.beside > core.setup.device_memory)
      return Error{ErrorCode::out_of_memory, "device memory",
                   "the buffers of an iteration and the weights outside the layers do not fit", "more memory"};
    if constexpr (KeepsWeights<Memory>)
      if (memory_->in_use())
        return Error{ErrorCode::unsupported, "device memory", "another machine uses it", "one machine at a time"};
    const Bytes block = core.store.shape().bytes();
    const auto bytes = [&](std::size_t blocks) { return block * static_cast<std::int64_t>(blocks); };
    const HostImages images(core.store.host_blocks(), core.setup, core.weights.host(), block);
    if (Status status = memory_->reserve(bytes(core.store.device_blocks()), core.beside, bytes(images.arena_blocks()));
        !status)
      return status;
    runner.place(memory_beside(*memory_, core));
    parts_ = std::make_unique<Parts>(*memory_, core, images, waits_);
    if constexpr (KeepsWeights<Memory>) {
      memory_->in_use() = true;
      if (Bytes& outer = memory_->weights().outer; outer > outer_bytes(core)) outer = {}; // this workspace overlaps it
    }
    core.weights.find_places_by({[](void* device, const DevicePlace& place, std::int64_t wanted) {
                                   return static_cast<StreamDevice*>(device)->take(place, wanted);
                                 },
                                 [](void* device, const DevicePlace& place, std::int64_t kept) {
                                   static_cast<StreamDevice*>(device)->parts_->arena.keep(place, kept);
                                 },
                                 [](void* device, const DevicePlace& place, std::int64_t wanted) {
                                   return static_cast<StreamDevice*>(device)->reuse(place, wanted);
                                 },
                                 this});
    return {};
  }
  /// Lets work under way end: nothing may be written to memory that is returned.
  void stop() {
    if (parts_ == nullptr) return;
    for (const StreamId stream : all_streams) memory_->synchronize(memory_->record(stream));
    if constexpr (KeepsWeights<Memory>) {
      memory_->in_use() = false;
      if (!memory_->check())
        memory_->weights() = {};
      else if (parts_->loaded) // otherwise what an earlier machine kept is still there
        memory_->weights() = weights_to_keep();
    }
  }

  void load(const MachineCore& core) {
    stage(core.weights.host());
    if constexpr (KeepsWeights<Memory>) {
      DeviceWeights kept = std::exchange(memory_->weights(), {}); // this machine's KV may take their place
      if (kept.host.is_of(core.weights.host())) parts_->kept = std::move(kept);
    }
    if (parts_->kept.outer != outer_bytes(core)) load_beside(*memory_, core);
    parts_->loaded = true;
  }
  [[nodiscard]] Status adopt_weights(const MachineCore& /*core*/) { return {}; }
  void put(const PlacedCopy& placed) { parts_->link.put(placed); }
  void rest(std::unique_lock<std::mutex>& /*lock*/) {
    memory_->rest();
    wake();
  }
  /// Tells the schedule how far the device is, and gives the link its next copies.
  void wake() {
    tell_computed();
    parts_->link.pump();
  }
  [[nodiscard]] CopyTotals moved() const { return parts_->link.totals(); }
  [[nodiscard]] Lane& lane() { return lane_; }

 private:
  struct Parts {
    Parts(Memory& memory, MachineCore& of, const HostImages& staged, const Waits& waits)
        : core(&of),
          images(staged),
          device_uses(of.store.device_blocks()),
          host_uses(staged.arena_blocks()),
          arena(of),
          compute(memory, device_uses, host_uses, of.store.shape().bytes().count(), StreamId::compute, waits),
          to_device(memory, device_uses, host_uses, of.store.shape().bytes().count(), StreamId::to_device, waits),
          to_host(memory, device_uses, host_uses, of.store.shape().bytes().count(), StreamId::to_host, waits),
          link(memory, of, arena, images, to_device, to_host) {}

    MachineCore* core;
    HostImages images;
    BlockUses device_uses, host_uses;
    Arena arena;
    StreamLane<Memory, Waits> compute, to_device, to_host;
    StreamLink<Memory, Waits> link;
    DeviceWeights kept; ///< by an earlier machine; for `load`
    bool loaded = false;
  };

  [[nodiscard]] static Bytes outer_bytes(const MachineCore& core) {
    return core.beside - Bytes{detail::outer_weights_at(core.workspace)};
  }
  /// The weights that the next machine can reuse.
  [[nodiscard]] DeviceWeights weights_to_keep() {
    const MachineCore& core = *parts_->core;
    DeviceWeights kept{WeightsIdentity(core.weights.host()), {}, outer_bytes(core)};
    for (int layer = 0; layer < core.layers; ++layer) {
      const std::size_t first = parts_->arena.range(WeightStore::home_of(layer)).first;
      const auto behind = static_cast<std::int64_t>(core.store.device_blocks() - first);
      kept.layers.push_back(
          {behind * core.store.shape().bytes().count(), core.weights.kept(layer) - core.weights.missing(layer)});
    }
    return kept;
  }
  /// Gives a home the blocks in which an earlier machine kept its first `wanted` bytes. Blocks of another size fit if
  /// one of them begins where the layer does.
  [[nodiscard]] bool reuse(const DevicePlace& place, std::int64_t wanted) {
    if (parts_->kept.layers.empty()) return false;
    const DeviceWeights::Part& part = parts_->kept.layers[static_cast<std::size_t>(place.index)];
    const std::int64_t block = parts_->core->store.shape().bytes().count();
    const std::size_t all = parts_->core->store.device_blocks();
    const auto behind = static_cast<std::size_t>(part.before_end / block);
    if (part.bytes < wanted || part.before_end % block != 0 || behind > all) return false;
    return parts_->arena.reuse(place, {all - behind, static_cast<std::size_t>((wanted + block - 1) / block)});
  }
  /// Writes the images of streamable layers into the host's arena; afterwards nothing reads them elsewhere.
  void stage(const ModelWeights& weights) {
    StreamLane<Memory, Waits>& lane = parts_->to_device;
    for (int layer = 0; layer < weights.config.shape.layers; ++layer) {
      if (!parts_->images.layers().contains(layer)) continue;
      const std::vector<TensorPlace>& places = weights.layout_at(layer).places;
      for (std::size_t i = 0; i < places.size(); ++i) {
        const TensorPlace& tensor = places[i];
        const BlockPiece piece = *parts_->images.find(layer, tensor.offset, tensor.bytes());
        std::memcpy(lane.writes(piece.blocks, StreamWait::Content::host) + piece.at,
                    weights.layers[static_cast<std::size_t>(layer)][i], static_cast<std::size_t>(tensor.bytes()));
      }
      (void)lane.launched();
      weights.forget(layer);
    }
  }
  /// Gives a home or a slot its blocks. KV in the way moves on the stream that will bring the weights.
  WeightStore::Taken take(const DevicePlace& place, std::int64_t wanted) {
    using Content = StreamWait::Content;
    StreamLane<Memory, Waits>& lane = parts_->to_device;
    const std::int64_t block = parts_->core->store.shape().bytes().count();
    return parts_->arena.take(place, wanted, [&](std::size_t from, std::size_t to) {
      Copy copy;
      copy.from = lane.reads({from, 1}, Content::kv);
      copy.to = lane.writes({to, 1}, Content::kv);
      copy.bytes = block;
      memory_->copy_async(lane.stream(), copy);
      (void)lane.launched(); // one by one: the next may move to where this one was
    });
  }
  void tell_computed() {
    LinkSchedule& schedule = parts_->core->schedule;
    while (!computing_.empty()) {
      const int layer = computing_.front();
      if (memory_->done(lane_.of(layer).begun)) schedule.computes(lane_.of(layer).first);
      if (!memory_->done(lane_.of(layer).ended)) return;
      schedule.computed(layer);
      computing_.pop_front();
    }
  }

  std::shared_ptr<Memory> memory_;
  std::int64_t element_bytes_;
  Waits waits_;
  std::unique_ptr<Parts> parts_; ///< set by `connect`
  RingQueue<int> computing_;     ///< the last layers of launches that are not yet known to be computed
  Lane lane_;
};

} // namespace sluice
