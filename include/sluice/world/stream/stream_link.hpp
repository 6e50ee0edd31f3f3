// SPDX-License-Identifier: Apache-2.0
// StreamLink: gives a link's streams their copies in batches, as late as keeps them busy.
#pragma once

#include "sluice/core/ring_queue.hpp"
#include "sluice/core/units.hpp"
#include "sluice/world/link/copy.hpp"
#include "sluice/world/machine/link_schedule.hpp"
#include "sluice/world/stream/arena.hpp"
#include "sluice/world/stream/memory_device.hpp"
#include "sluice/world/stream/stream_lane.hpp"
#include "sluice/world/stream/stream_memory.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>

namespace sluice {

// LinkBatches: the batches in which a link gives copies to its streams. FedStream: feeds a list of copies to a stream
// that way.

/// A lane of a link has at most `most` batches under way: one that the stream works on and those behind it. So the
/// stream stays busy while the host does something else, and the transfer rule still chooses late: at 55 GB/s three
/// batches are about 1 ms.
///
/// A batch is large because each has two tickets and its own calls. On an H200, an iteration took 1.12 (KV) and 1.09
/// (weights) times as long as its copies alone with 4 MiB and 64 copies, and 1.08 and 1.06 with these (docs/gpu.md).
/// Within a batch there is a ticket where another layer's copies begin, or `part` bytes later. With one ticket behind
/// the batch, a layer waited for copies of later layers too, up to 0.3 ms. With these tickets the iteration takes 1.05
/// and 1.04 times as long.
struct LinkBatches {
  static constexpr std::size_t most = 3;
  static constexpr std::int64_t bytes = 16 << 20; ///< a batch that has this many takes no more copies
  static constexpr std::int64_t copy = 4 << 20;   ///< of one copy, at most
  static constexpr int copies = 256;
  static constexpr std::int64_t part = 1 << 20;
};

/// Gives a stream a list of copies in the batches and at the times that StreamLink would, as copies of one layer: for
/// measuring how long a machine's copies take. Copies given all at once, without the host in between, take less time.
template <MemoryDevice Memory>
class FedStream {
 public:
  /// `copies`: one or more; they must outlive the transfer.
  FedStream(Memory& memory, StreamId stream, std::span<const Copy> copies)
      : memory_(&memory), stream_(stream), left_(copies) {}

  /// Retires completed batches, and begins batches while there is room. Returns false if there was neither.
  bool pump() {
    bool changed = false;
    while (!ended_.empty() && memory_->done(ended_.front())) {
      ended_.pop_front();
      changed = true;
    }
    while (ended_.size() < LinkBatches::most && !left_.empty()) {
      begin();
      changed = true;
    }
    return changed;
  }
  [[nodiscard]] bool over() const { return left_.empty() && ended_.empty(); }
  /// The stream's time for all copies, once they are over.
  [[nodiscard]] Seconds took() const {
    return Seconds{std::chrono::duration<double>(memory_->time(last_) - memory_->time(first_)).count()};
  }

 private:
  void begin() {
    const Ticket begun = memory_->record(stream_, Timing::timed);
    if (first_.number == 0) first_ = begun;
    std::int64_t bytes = 0;
    for (int i = 0; i < LinkBatches::copies && bytes < LinkBatches::bytes && !left_.empty(); ++i) {
      memory_->copy_async(stream_, left_.front());
      bytes += left_.front().bytes * left_.front().rows;
      left_ = left_.subspan(1);
    }
    last_ = memory_->record(stream_, Timing::timed);
    ended_.push_back(last_);
  }

  Memory* memory_;
  StreamId stream_;
  std::span<const Copy> left_;
  Ticket first_, last_;
  RingQueue<Ticket> ended_; ///< of the batches under way
};

/// Feeds all streams until they are over, as a machine with nothing else to do would.
template <MemoryDevice Memory>
void feed(Memory& memory, std::type_identity_t<std::span<FedStream<Memory>>> streams) {
  const auto over = [](const FedStream<Memory>& one) { return one.over(); };
  while (!std::all_of(streams.begin(), streams.end(), over)) {
    bool changed = false;
    for (FedStream<Memory>& one : streams) changed = one.pump() || changed;
    if (!changed) memory.rest();
  }
}

/// LinkBatches sets the size and number of batches; a batch ends when its ticket is done. Not synchronised: callers
/// hold the schedule's mutex.
template <MemoryDevice Memory, class Waits>
class StreamLink {
 public:
  using Lane = StreamLane<Memory, Waits>;

  StreamLink(Memory& memory, MachineCore& core, Arena& arena, const HostImages& images, Lane& to_device, Lane& to_host)
      : memory_(&memory), core_(&core), arena_(&arena), images_(&images), lanes_{&to_device, &to_host} {}

  /// Copies at once, before anything runs.
  void put(const PlacedCopy& placed) {
    memory_->copy_async(lane(Way::to_device).stream(), addressed(Way::to_device, placed));
    memory_->synchronize(lane(Way::to_device).launched());
  }

  /// Retires completed batches, and begins new ones while there is room, until nothing changes.
  void pump() {
    for (bool changed = true; changed;) {
      changed = false;
      for (const Way way : {Way::to_device, Way::to_host}) changed = retire(way) || changed;
      if (core_->setup.link.each_way) { // layers wait for arrivals, so that stream is filled first
        while (begin(Way::to_device)) changed = true;
        changed = begin(Way::to_host) || changed;
      } else { // one stream: the schedule chooses the way
        changed = begin(Way::to_device) || begin(Way::to_host) || changed;
      }
    }
  }
  [[nodiscard]] CopyTotals totals() const { return {totals_[0], totals_[1]}; }

 private:
  struct Batch {
    Ticket begun, ended;
    int copies = 0;
    std::int64_t bytes = 0;
    std::array<std::int64_t, LinkBatches::copies> ends{}; ///< `bytes` with this copy
    std::array<bool, LinkBatches::copies> failed{};
  };

  Lane& lane(Way way) { return core_->setup.link.each_way ? *lanes_[static_cast<std::size_t>(way)] : *lanes_[0]; }
  RingQueue<Batch>& batches(Way way) { return batches_[static_cast<std::size_t>(way)]; }
  /// The fewest bytes with a ticket of their own. A test's memory states less.
  static constexpr std::int64_t part_bytes = [] {
    if constexpr (requires { Memory::link_part; })
      return Memory::link_part;
    else
      return LinkBatches::part;
  }();
  [[nodiscard]] bool has_room(Way way) {
    return core_->setup.link.each_way ? batches(way).size() < LinkBatches::most
                                      : batches_[0].size() + batches_[1].size() < LinkBatches::most;
  }

  bool retire(Way way) {
    bool any = false;
    while (!batches(way).empty() && memory_->done(batches(way).front().ended)) {
      const Batch& batch = batches(way).front();
      const auto begun = memory_->time(batch.begun), ended = memory_->time(batch.ended);
      CopyTotals::OneWay& totals = totals_[static_cast<std::size_t>(way)];
      totals.busy += Seconds{std::chrono::duration<double>(ended - begun).count()};
      totals.bytes += Bytes{batch.bytes};
      // The device times whole batches; a stream copies in order, so each copy gets a part of the time by its bytes.
      auto from = begun;
      for (int i = 0; i < batch.copies; ++i) {
        const auto copy = static_cast<std::size_t>(i);
        const bool failed = batch.failed[copy];
        ++(failed ? totals.failed : totals.copies);
        const double part =
            batch.bytes == 0 ? 1.0 : static_cast<double>(batch.ends[copy]) / static_cast<double>(batch.bytes);
        const auto to = begun + std::chrono::duration_cast<decltype(ended - begun)>((ended - begun) * part);
        (void)core_->schedule.ended(way, failed ? CopyOutcome::failed : CopyOutcome::done, from, to);
        from = to;
      }
      batches(way).pop_front();
      any = true;
    }
    return any;
  }
  bool begin(Way way) {
    if (!has_room(way)) return false;
    std::optional<PlacedCopy> placed = core_->schedule.next(way);
    if (!placed) return false;
    Batch& batch = batches(way).add(); // in its place: a batch is large, and often has one copy
    batch.copies = 0;
    batch.bytes = 0;
    const int most = core_->setup.link.each_way ? LinkBatches::copies : 1; // a single lane changes ways copy by copy
    int layer = placed->layer;
    bool others = false;     // since the last ticket, another layer's copies follow the first one's
    std::int64_t marked = 0; // bytes before that ticket
    for (; placed; placed = core_->schedule.next(way)) {
      // A layer waits for the ticket behind its last copy, and need not wait for many copies of other layers.
      others = others || placed->layer != layer;
      layer = placed->layer;
      if (others && batch.bytes - marked >= part_bytes) {
        (void)lane(way).given();
        marked = batch.bytes;
        others = false;
      }
      const Copy copy = addressed(way, *placed);
      if (batch.copies == 0)
        batch.begun = memory_->record(lane(way).stream(), Timing::timed); // behind the uses that the copy waits for
      const auto at = static_cast<std::size_t>(batch.copies++);
      batch.failed[at] = !give(way, copy);
      if (!batch.failed[at]) batch.bytes += placed->total();
      batch.ends[at] = batch.bytes;
      if (batch.copies == most || batch.bytes >= LinkBatches::bytes) break;
    }
    batch.ended = lane(way).launched();
    return true;
  }

  /// Gives the stream a copy; a planned failure is tried once more. Returns false if that fails too.
  bool give(Way way, const Copy& copy) {
    if (!core_->setup.faults.any()) {
      memory_->copy_async(lane(way).stream(), copy);
      return true;
    }
    for (int attempt = 0; attempt < 2; ++attempt) {
      const Fault fault = core_->setup.faults.of(way, copy.tag, attempt);
      if (!fault.fails) {
        memory_->copy_async(lane(way).stream(), copy);
        return true;
      }
      Copy part = copy; // of each row, the bytes that the failed try moved
      part.bytes = static_cast<std::int64_t>(fault.moved * static_cast<double>(copy.bytes));
      if (part.bytes > 0) memory_->copy_async(lane(way).stream(), part);
      if (attempt == 0) ++totals_[static_cast<std::size_t>(way)].retries;
    }
    return false;
  }
  [[nodiscard]] Copy addressed(Way way, const PlacedCopy& placed) {
    using Content = StreamWait::Content;
    const Content content = placed.image != nullptr ? Content::weights : Content::kv;
    BlockPiece there{arena_->range(placed.device), placed.device_at};
    if (content == Content::weights)
      there = piece_of(there.blocks, there.at, placed.bytes, core_->store.shape().bytes().count());
    Copy copy;
    copy.bytes = placed.bytes;
    copy.rows = placed.rows;
    copy.from_stride = copy.to_stride = placed.stride;
    copy.tag = placed.tag;
    if (way == Way::to_device) {
      copy.to = lane(way).writes(there.blocks, content) + there.at;
      copy.from = content == Content::weights ? image(placed) : host(way, placed, false) + placed.host_at;
    } else {
      copy.from = lane(way).reads(there.blocks, content) + there.at;
      copy.to = const_cast<std::byte*>(host(way, placed, true)) + placed.host_at;
    }
    return copy;
  }
  /// Weights come from the host's arena if it has the layer's image.
  const std::byte* image(const PlacedCopy& placed) {
    const std::optional<BlockPiece> piece = images_->find(placed.layer, placed.host_at, placed.bytes);
    return piece ? lane(Way::to_device).reads(piece->blocks, StreamWait::Content::host) + piece->at : placed.image;
  }
  const std::byte* host(Way way, const PlacedCopy& placed, bool writes) {
    const BlockRange blocks{static_cast<std::size_t>(placed.host_block), static_cast<std::size_t>(placed.device.count)};
    return writes ? lane(way).writes(blocks, StreamWait::Content::host)
                  : lane(way).reads(blocks, StreamWait::Content::host);
  }

  Memory* memory_;
  MachineCore* core_;
  Arena* arena_;
  const HostImages* images_;
  std::array<Lane*, 2> lanes_;               ///< by way; both are the same if the link has one lane
  std::array<RingQueue<Batch>, 2> batches_;  ///< by way; under way
  std::array<CopyTotals::OneWay, 2> totals_; ///< by way
};

} // namespace sluice
