// SPDX-License-Identifier: Apache-2.0
// EmulatedGpu: a MemoryDevice of streams and events with drawn order; its memory starts as noise.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/core/random.hpp"
#include "sluice/world/stream/memory_device.hpp"

#include "emulate/streams.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <new>
#include <optional>
#include <vector>

namespace sluice::testing {

/// The emulator's device as a machine uses it. Operations run only while the host is idle, queries or waits, in drawn
/// order: copies and layers are late on purpose. All memory starts as NaN, so a read before the write shows in the
/// logits. For a second machine all but the weights that the first kept becomes NaN again.
class EmulatedGpu {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::int64_t link_part = 200; ///< a few copies

  explicit EmulatedGpu(std::uint64_t seed) : random_(seed), device_(static_cast<int>(stream_count), seed) {}

  [[nodiscard]] Status reserve(Bytes blocks, Bytes beside, Bytes host) {
    blocks_bytes_ = blocks;
    const std::int64_t outer = weights_.outer.count();
    if (beside_arena_.renew(beside, {{outer, outer}})) weights_.outer = Bytes{0};
    if (device_arena_.renew(blocks, weights_.layers)) weights_.layers.clear();
    (void)host_arena_.renew(host, {});
    return {};
  }
  [[nodiscard]] std::byte* device_arena() { return device_arena_.begin; }
  [[nodiscard]] Bytes device_arena_bytes() const { return blocks_bytes_; }
  [[nodiscard]] std::byte* beside_arena() { return beside_arena_.begin; }
  [[nodiscard]] std::byte* host_arena() { return host_arena_.begin; }
  [[nodiscard]] DeviceWeights& weights() { return weights_; }
  [[nodiscard]] bool& in_use() { return in_use_; }
  [[nodiscard]] const Status& check() const { return status_; }
  void fail() { status_ = Error{ErrorCode::unsupported, "emulated", "work has failed", ""}; }

  void copy_async(StreamId stream, const Copy& copy) {
    given_[static_cast<std::size_t>(stream)] += Bytes{copy.total()};
    for (std::int64_t row = 0; row < copy.rows; ++row)
      device_.copy(number(stream), copy.to + row * copy.to_stride, copy.from + row * copy.from_stride,
                   static_cast<std::size_t>(copy.bytes));
  }
  [[nodiscard]] Ticket record(StreamId stream, Timing timing = Timing::untimed) {
    Marks& marks = marks_[static_cast<std::size_t>(stream)];
    auto mark = std::make_shared<Mark>();
    mark->timing = timing;
    device_.launch(number(stream), [mark] { mark->time = std::chrono::steady_clock::now(); });
    mark->event = device_.record(number(stream));
    marks.recent.push_back(std::move(mark));
    if (marks.recent.size() > kept) {
      (void)done({stream, marks.first}); // a machine asks for no times that are so old
      if (marks.recent.front()->event->done) {
        marks.recent.pop_front();
        ++marks.first;
      }
    }
    return {stream, marks.first + marks.recent.size() - 1};
  }
  void wait(StreamId stream, const Ticket& ticket) {
    if (const Mark* mark = find(ticket)) device_.wait(number(stream), mark->event);
  }
  [[nodiscard]] bool done(const Ticket& ticket) {
    const Mark* mark = find(ticket);
    return mark == nullptr || device_.query(mark->event);
  }
  void synchronize(const Ticket& ticket) {
    if (const Mark* mark = find(ticket)) device_.synchronize(mark->event);
  }
  [[nodiscard]] Time time(const Ticket& ticket) const {
    const Mark* mark = find(ticket);
    SLUICE_ASSERT(mark == nullptr || mark->timing == Timing::timed, "only a timed ticket has a time");
    return mark == nullptr ? Time{} : mark->time;
  }
  /// Bytes of all copies that a stream was given.
  [[nodiscard]] Bytes given(StreamId stream) const { return given_[static_cast<std::size_t>(stream)]; }
  /// The stream runs only while the host waits and no other stream can run.
  void hold_back(StreamId stream) { device_.hold_back(number(stream)); }
  void rest() { device_.run_some(1 + static_cast<int>(random_.below(8))); }

  /// For code that computes on it.
  [[nodiscard]] emulate::Device& device() { return device_; }
  static int number(StreamId stream) { return static_cast<int>(stream); }

 private:
  static constexpr std::size_t kept = 4096; ///< remembered tickets of a stream
  struct Mark {
    Time time;
    Timing timing = Timing::untimed;
    emulate::Device::Ticket event;
  };
  struct Marks {
    std::uint64_t first = 1;
    std::deque<std::shared_ptr<Mark>> recent;
  };
  struct Free {
    void operator()(std::byte* at) const { ::operator delete(at, alignment); }
  };
  static constexpr std::align_val_t alignment{256};

  struct Arena {
    std::unique_ptr<std::byte, Free> memory;
    std::size_t size = 0;
    std::byte* begin = nullptr;

    [[nodiscard]] std::byte* at(const DeviceWeights::Part& part) const { return memory.get() + size - part.before_end; }
    /// Returns whether the memory is new. Otherwise only `parts` keep their bytes.
    bool renew(Bytes wanted, const std::vector<DeviceWeights::Part>& parts) {
      const auto bytes = static_cast<std::size_t>(wanted.count());
      const std::optional<std::size_t> first = begin_in(size, bytes);
      std::vector<std::vector<std::byte>> saved;
      if (first)
        for (const DeviceWeights::Part& part : parts) saved.emplace_back(at(part), at(part) + part.bytes);
      else
        memory.reset(static_cast<std::byte*>(::operator new(size = bytes, alignment)));
      if (size > 0) std::memset(memory.get(), 0xff, size);
      for (std::size_t i = 0; i < saved.size(); ++i) std::copy(saved[i].begin(), saved[i].end(), at(parts[i]));
      begin = memory.get() + first.value_or(0);
      return !first;
    }
  };
  [[nodiscard]] const Mark* find(const Ticket& ticket) const {
    const Marks& marks = marks_[static_cast<std::size_t>(ticket.stream)];
    return ticket.number < marks.first ? nullptr : marks.recent[ticket.number - marks.first].get();
  }

  Random random_;
  DeviceWeights weights_;
  bool in_use_ = false;
  Status status_;
  Bytes blocks_bytes_{0};
  Arena device_arena_, beside_arena_, host_arena_; // must outlive the device, whose streams may still use them
  emulate::Device device_;
  std::array<Marks, stream_count> marks_;
  std::array<Bytes, stream_count> given_{};
};

static_assert(MemoryDevice<EmulatedGpu>);

} // namespace sluice::testing
