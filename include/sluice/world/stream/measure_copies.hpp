// SPDX-License-Identifier: Apache-2.0
// CopyTimer, StreamCopyTimer: how long copies between a device's memory and the host's take, one way and both at once.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/units.hpp"
#include "sluice/world/link/copy.hpp"
#include "sluice/world/stream/fed_stream.hpp"
#include "sluice/world/stream/memory_device.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace sluice {

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
