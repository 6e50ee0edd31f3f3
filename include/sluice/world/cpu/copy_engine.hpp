// SPDX-License-Identifier: Apache-2.0
// CopyEngine: threads that move bytes between the two memories at the configured speed of the link.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/units.hpp"
#include "sluice/world/cpu/move_bytes.hpp"
#include "sluice/world/cpu/token_bucket.hpp"
#include "sluice/world/link/copy.hpp"
#include "sluice/world/link/fault.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <concepts>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace sluice {

/// Where a lane gets its work. Lanes' threads call both members, so they must synchronise themselves, and be ready
/// before the engine is constructed.
///
/// 1. `next(way)`: what to move now, or nothing. A lane that serves both ways asks for `to_device` first; a source that
///    prefers the other way returns nothing first. Copies are moved in the order in which the source returned them.
/// 2. `ended(way, copy, outcome)`: called once per copy, by the thread that moved it, after its last byte. Nothing is
///    written to the destination afterwards, and a thread that learns of the end through the source sees the bytes.
template <class S>
concept CopySource = requires(S& source, Way way, const Copy& copy, CopyOutcome outcome) {
  { source.next(way) } -> std::same_as<std::optional<Copy>>;
  { source.ended(way, copy, outcome) } -> std::same_as<void>;
};

/// One thread per lane of the link. An idle lane asks its source; if it gets nothing, it sleeps until `wake()`. A
/// failed copy is tried once more from its first byte. The destructor finishes the copies under way at full speed, asks
/// for no more, and joins.
///
/// `Source` may be incomplete here, so that a source can have its engine as a member. Make it the last member: its
/// threads run as soon as it is constructed.
template <class Source>
class CopyEngine {
 public:
  CopyEngine(Source& source, LinkRates rates, FaultPlan faults = {})
      : source_(source),
        faults_(std::move(faults)),
        faulty_(faults_.any()),
        lanes_(rates.each_way ? 2 : 1),
        paces_{pace_of(rates.to_device_bytes_per_s, rates.per_copy_s),
               pace_of(rates.to_host_bytes_per_s, rates.per_copy_s)} {
    static_assert(CopySource<Source>, "sluice: a CopyEngine's source needs `std::optional<Copy> next(Way)` and `void "
                                      "ended(Way, const Copy&, CopyOutcome)`");
    if (rates.each_way) {
      lane_[0].thread = std::thread{[this] { serve<Way::to_device>(lane_[0]); }};
      lane_[1].thread = std::thread{[this] { serve<Way::to_host>(lane_[1]); }};
    } else {
      lane_[0].thread = std::thread{[this] { serve<Way::to_device, Way::to_host>(lane_[0]); }};
    }
  }
  CopyEngine(const CopyEngine&) = delete;
  CopyEngine& operator=(const CopyEngine&) = delete;
  ~CopyEngine() {
    stop_.store(true);
    wake();
    for (std::size_t i = 0; i < lanes_; ++i) lane_[i].thread.join();
  }

  /// Wakes every sleeping lane: the source may have something to move. Takes some nanoseconds if none sleeps.
  void wake() {
    for (std::size_t i = 0; i < lanes_; ++i) wake(lane_[i]);
  }
  /// The same for the lane that serves `way`.
  void wake(Way way) { wake(lane_[lanes_ == 1 ? 0 : static_cast<std::size_t>(way)]); }

  /// The totals so far. A copy is counted before its source is notified of its end.
  [[nodiscard]] CopyTotals totals() const { return {told(Way::to_device), told(Way::to_host)}; }

 private:
  /// How fast one way of the link is.
  struct Pace {
    double seconds_per_byte = 0;
    double per_copy_s = 0;
    std::int64_t piece = 0; ///< bytes moved between two looks at the clock
    [[nodiscard]] bool throttled() const { return seconds_per_byte > 0 || per_copy_s > 0; }
  };
  struct Lane {
    std::atomic<std::uint32_t> calls{0}; ///< of wake()
    std::atomic<bool> asleep{false};     ///< set by the lane, cleared by its waker; changes under the mutex
    std::mutex mutex;
    std::condition_variable woken;
    std::int64_t woken_at = 0; ///< under the mutex
    std::thread thread;
  };
  struct Counts {
    std::atomic<std::int64_t> bytes{0}, busy_ns{0}, copies{0}, retries{0}, failed{0};
  };

  static Pace pace_of(double rate, double per_copy_s) {
    SLUICE_ASSERT(rate >= 0 && per_copy_s >= 0, "a link's rate and cost per copy");
    Pace pace;
    pace.per_copy_s = per_copy_s;
    pace.piece = std::numeric_limits<std::int64_t>::max();
    if (rate > 0 && std::isfinite(rate)) {
      pace.seconds_per_byte = 1 / rate;
      pace.piece = static_cast<std::int64_t>(std::clamp(rate * 200e-6, 16e3, 256e3));
    }
    return pace;
  }

  void wake(Lane& lane) {
    // Either this call sees that the lane sleeps, or the lane, which sets `asleep` first, sees this call.
    lane.calls.fetch_add(1);
    if (!lane.asleep.load()) return;
    {
      const std::lock_guard lock{lane.mutex};
      if (!lane.asleep.load()) return; // another thread has woken it
      lane.woken_at = WallClock::now();
      lane.asleep.store(false);
    }
    lane.woken.notify_one();
  }
  /// Sleeps until the first wake-up after number `seen`; returns when that came.
  std::int64_t sleep(Lane& lane, std::uint32_t seen) {
    std::unique_lock lock{lane.mutex};
    lane.asleep.store(true);
    if (lane.calls.load() != seen) {
      lane.asleep.store(false);
      return WallClock::now();
    }
    lane.woken.wait(lock, [&lane] { return !lane.asleep.load(); });
    return lane.woken_at;
  }

  template <Way... ways>
  void serve(Lane& lane) {
    WallClock::sharpen();
    TokenBucket<> bucket;
    std::int64_t asked = bucket.due();
    for (;;) {
      const std::uint32_t seen = lane.calls.load();
      if (stop_.load()) return;
      if ((serve_one(ways, bucket, asked) || ...))
        asked = TokenBucket<>::any_time;
      else
        asked = sleep(lane, seen);
    }
  }
  bool serve_one(Way way, TokenBucket<>& bucket, std::int64_t asked) {
    const std::optional<Copy> copy = source_.next(way);
    if (!copy) return false;
    SLUICE_ASSERT(copy->bytes >= 0 && copy->rows >= 0, "a copy's size");
    Counts& counts = counts_[static_cast<std::size_t>(way)];
    const std::int64_t began = WallClock::now();
    // A lane whose thread was late makes up for that, but a link without delay would have waited until the copy could
    // begin.
    if (faulty_ || paces_[static_cast<std::size_t>(way)].throttled())
      bucket.begin(std::max<std::int64_t>(asked, copy->since.time_since_epoch().count()));
    bool done = attempt(way, *copy, 0, bucket);
    if (!done) {
      counts.retries.fetch_add(1, std::memory_order_relaxed);
      done = attempt(way, *copy, 1, bucket);
    }
    if (done) {
      counts.bytes.fetch_add(copy->total(), std::memory_order_relaxed);
      counts.copies.fetch_add(1, std::memory_order_relaxed);
    } else {
      counts.failed.fetch_add(1, std::memory_order_relaxed);
    }
    counts.busy_ns.fetch_add(WallClock::now() - began, std::memory_order_relaxed);
    source_.ended(way, *copy, done ? CopyOutcome::done : CopyOutcome::failed);
    return true;
  }

  /// Tries the copy once; returns whether it succeeded.
  bool attempt(Way way, const Copy& copy, int number, TokenBucket<>& bucket) {
    Fault fault;
    if (faulty_) fault = faults_.of(way, copy.tag, number);
    const auto stopped = [this] { return stop_.load(std::memory_order_relaxed); };
    if (fault.delay.count() > 0) {
      bucket.hold(fault.delay.count());
      bucket.wait(stopped);
    }
    const auto bytes =
        fault.fails ? static_cast<std::int64_t>(fault.moved * static_cast<double>(copy.total())) : copy.total();
    Pace pace = paces_[static_cast<std::size_t>(way)];
    pace.seconds_per_byte *= fault.slowdown;
    const std::int64_t began = fault.slowdown > 1 && pace.seconds_per_byte == 0 ? WallClock::now() : 0;
    bucket.take(pace.per_copy_s);
    move(copy, bytes, pace, bucket, stopped);
    if (began != 0) bucket.hold(static_cast<double>(WallClock::now() - began) * 1e-9 * (fault.slowdown - 1));
    if (began != 0 || pace.throttled()) bucket.wait(stopped);
    return !fault.fails;
  }

  /// Moves the first `bytes` of a copy at the link's pace, without waiting after the last piece.
  template <class Stopped>
  static void move(const Copy& copy, std::int64_t bytes, const Pace& pace, TokenBucket<>& bucket,
                   const Stopped& stopped) {
    std::int64_t unpaid = 0;
    const std::byte* from = copy.from;
    std::byte* to = copy.to;
    while (bytes > 0) {
      const std::int64_t row = std::min(bytes, copy.bytes);
      for (std::int64_t at = 0; at < row;) {
        const std::int64_t piece = std::min(row - at, pace.piece - unpaid);
        move_bytes(to + at, from + at, piece, row - at - piece);
        at += piece;
        unpaid += piece;
        if (unpaid < pace.piece) continue;
        bucket.take(static_cast<double>(unpaid) * pace.seconds_per_byte);
        unpaid = 0;
        bucket.keep_pace(stopped);
      }
      bytes -= row;
      if (bytes > 0) from += copy.from_stride, to += copy.to_stride;
    }
    bucket.take(static_cast<double>(unpaid) * pace.seconds_per_byte);
  }

  [[nodiscard]] CopyTotals::OneWay told(Way way) const {
    const Counts& counts = counts_[static_cast<std::size_t>(way)];
    const auto value = [](const std::atomic<std::int64_t>& count) { return count.load(std::memory_order_relaxed); };
    return {Bytes{value(counts.bytes)}, Seconds{1e-9 * static_cast<double>(value(counts.busy_ns))},
            value(counts.copies), value(counts.retries), value(counts.failed)};
  }

  Source& source_;
  FaultPlan faults_;
  bool faulty_;
  std::size_t lanes_;
  std::array<Pace, 2> paces_;    ///< by way
  std::array<Counts, 2> counts_; ///< by way; each has one writer
  std::array<Lane, 2> lane_;     ///< the link uses the first `lanes_`
  std::atomic<bool> stop_{false};
};

} // namespace sluice
