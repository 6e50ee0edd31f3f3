// SPDX-License-Identifier: Apache-2.0
// LinkBatches: the batches in which a link gives copies to its streams. FedStream: feeds a list of copies to a stream
// that way.
#pragma once

#include "sluice/core/ring_queue.hpp"
#include "sluice/core/units.hpp"
#include "sluice/world/link/copy.hpp"
#include "sluice/world/stream/memory_device.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace sluice {

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

} // namespace sluice
