// SPDX-License-Identifier: Apache-2.0
// LinkBatches: in what batches a link gives its streams copies; FedStream: a list of copies given to a stream so.
#pragma once

#include "sluice/backend/machine/copy.hpp"
#include "sluice/backend/machine/memory_device.hpp"
#include "sluice/core/ring_queue.hpp"
#include "sluice/core/units.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace sluice {

/// A lane of a link has at most `most` batches under way: one that the stream works on and one behind it, so that the
/// stream is busy while the host looks away, and the transfer rule still chooses late.
struct LinkBatches {
  static constexpr std::size_t most = 2;
  static constexpr std::int64_t bytes = 1 << 20; ///< a batch takes no more copies from here on
  static constexpr int copies = 32;
};

/// Gives a stream a list of copies in the batches, with the tickets and no earlier than StreamLink gives them a
/// machine's: for who measures what a machine's copies take. Copies given all at once, without the host between them,
/// take less.
template <MemoryDevice Memory>
class FedStream {
 public:
  /// `copies`: one or more, which stay until all of them are done.
  FedStream(Memory& memory, StreamId stream, std::span<const Copy> copies)
      : memory_(&memory), stream_(stream), left_(copies) {}

  /// Ends what is done, and begins what there is room for. False: there was neither.
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
  /// Of all copies, once it is over: by the stream.
  [[nodiscard]] Seconds took() const {
    return Seconds{std::chrono::duration<double>(memory_->time(last_) - memory_->time(first_)).count()};
  }

 private:
  void begin() {
    const Ticket begun = memory_->record(stream_);
    if (first_.number == 0) first_ = begun;
    std::int64_t bytes = 0;
    for (int i = 0; i < LinkBatches::copies && bytes < LinkBatches::bytes && !left_.empty(); ++i) {
      memory_->copy_async(stream_, left_.front());
      bytes += left_.front().bytes * left_.front().rows;
      left_ = left_.subspan(1);
    }
    last_ = memory_->record(stream_);
    ended_.push_back(last_);
  }

  Memory* memory_;
  StreamId stream_;
  std::span<const Copy> left_;
  Ticket first_, last_;
  RingQueue<Ticket> ended_; ///< of the batches under way
};

/// Feeds all of them until they are over, as a machine does that has nothing else to do.
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
