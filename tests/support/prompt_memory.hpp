// SPDX-License-Identifier: Apache-2.0
// PromptMemory: a synchronous MemoryDevice.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/units.hpp"
#include "sluice/world/stream/memory_device.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

namespace sluice::testing {

/// Streams without pending work, in host memory. It allocates once, so that a test can count a machine's allocations,
/// and it counts the copies with an end in memory that it did not reserve.
class PromptMemory {
 public:
  using Time = std::chrono::steady_clock::time_point;

  [[nodiscard]] Status reserve(Bytes blocks, Bytes beside, Bytes host) {
    blocks_ = Arena(blocks);
    beside_ = Arena(beside);
    host_ = Arena(host);
    return {};
  }
  [[nodiscard]] std::byte* device_arena() { return blocks_.at.get(); }
  [[nodiscard]] std::byte* beside_arena() { return beside_.at.get(); }
  [[nodiscard]] std::byte* host_arena() { return host_.at.get(); }

  void copy_async(StreamId /*stream*/, const Copy& copy) {
    for (std::int64_t row = 0; row < copy.rows; ++row)
      std::memcpy(copy.to + row * copy.to_stride, copy.from + row * copy.from_stride,
                  static_cast<std::size_t>(copy.bytes));
    ++(blocks_.has(copy.from) || host_.has(copy.from) ? inside_ : outside_);
  }
  [[nodiscard]] Ticket record(StreamId stream, Timing /*timing*/ = Timing::untimed) {
    const std::uint64_t number = ++last_[index(stream)];
    times_[index(stream)][number % remembered] = std::chrono::steady_clock::now();
    return {stream, number};
  }
  void wait(StreamId /*stream*/, const Ticket& /*ticket*/) {}
  [[nodiscard]] bool done(const Ticket& /*ticket*/) const { return true; }
  void synchronize(const Ticket& /*ticket*/) {}
  /// For a recent ticket.
  [[nodiscard]] Time time(const Ticket& ticket) const {
    return times_[index(ticket.stream)][ticket.number % remembered];
  }
  void rest() {}

  [[nodiscard]] Bytes host_bytes() const { return Bytes{host_.bytes}; }
  /// Copies whose source is in reserved memory, and others.
  [[nodiscard]] std::int64_t inside() const { return inside_; }
  [[nodiscard]] std::int64_t outside() const { return outside_; }

 private:
  static constexpr std::size_t remembered = 4096;
  static constexpr std::align_val_t alignment{256};
  static std::size_t index(StreamId stream) { return static_cast<std::size_t>(stream); }
  struct Free {
    void operator()(std::byte* at) const { ::operator delete(at, alignment); }
  };
  struct Arena {
    Arena() = default;
    explicit Arena(Bytes wanted)
        : bytes(wanted.count()),
          at(static_cast<std::byte*>(::operator new(static_cast<std::size_t>(bytes), alignment))) {
      std::memset(at.get(), 0xff, static_cast<std::size_t>(bytes)); // NaN
    }
    [[nodiscard]] bool has(const std::byte* address) const { return address >= at.get() && address < at.get() + bytes; }
    std::int64_t bytes = 0;
    std::unique_ptr<std::byte, Free> at;
  };

  Arena blocks_, beside_, host_;
  std::array<std::uint64_t, stream_count> last_{};
  std::array<std::array<Time, remembered>, stream_count> times_{};
  std::int64_t inside_ = 0, outside_ = 0;
};

static_assert(MemoryDevice<PromptMemory>);

} // namespace sluice::testing
