// SPDX-License-Identifier: Apache-2.0
// CopyEngine: threads that move bytes between the two memories at the configured speed of the link.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/units.hpp"
#include "sluice/world/link/copy.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <concepts>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <limits>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#ifdef __linux__
#include <sys/prctl.h>
#endif

namespace sluice {

// move_bytes: a memcpy for data that is in no cache.

/// Copies `bytes` between memories that do not overlap, and prefetches both a kibibyte ahead: the loop waits for memory
/// once, not at every page. From memory to memory 6.1 GB/s where memcpy reaches 4.7 (2.5 GHz Xeon, one thread; the same
/// while another thread reads); in the second-level cache 31 and 27, in the first 31 and 35. `follow`: bytes behind
/// these that are copied next and may be prefetched; bytes beyond may belong to others and are not prefetched.
///
/// Rejected: non-temporal stores (4.1 GB/s; 4.9 with the source prefetched, the limit of the store buffers) and `rep
/// movsb` (4.8).
inline void move_bytes(std::byte* to, const std::byte* from, std::int64_t bytes, std::int64_t follow = 0) {
  constexpr std::int64_t line = 64;
  constexpr std::int64_t step = 2 * line;
  constexpr std::int64_t ahead = 1024;
  std::int64_t at = 0;
  for (; at + step <= bytes && at + step + ahead <= bytes + follow; at += step) {
    // As statements of this loop: g++ considers a separate function without effect, and drops it before inlining.
    __builtin_prefetch(from + at + ahead);
    __builtin_prefetch(from + at + ahead + line);
    __builtin_prefetch(to + at + ahead, 1);
    __builtin_prefetch(to + at + ahead + line, 1);
    std::memcpy(to + at, from + at, static_cast<std::size_t>(step));
  }
  std::memcpy(to + at, from + at, static_cast<std::size_t>(bytes - at));
}

// TokenBucket: when a link of fixed rate has moved its copies, and how a thread waits for that.

/// The machine's monotonic clock in nanoseconds; a TokenBucket waits by it.
struct WallClock {
  [[nodiscard]] static std::int64_t now() {
    std::timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
  }
  /// Sleeps until `when` or some microseconds later; a signal ends the sleep early.
  static void sleep_until(std::int64_t when) {
    const std::timespec time{static_cast<std::time_t>(when / 1'000'000'000), static_cast<long>(when % 1'000'000'000)};
    (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr);
  }
  /// One turn of a spin loop.
  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  /// Makes this thread's sleeps end on time: Linux otherwise adds 50 us to each, more than a block's time.
  static void sharpen() {
#ifdef __linux__
    (void)prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
#endif
  }
};

/// A bucket that holds link time instead of bytes, so that the rate may differ from copy to copy: `due()` is the end of
/// the time taken so far. A lane that is late because its thread did not run may make up for at most `burst` of the
/// missed time; time without anything to move is lost. A real link is never late, so `burst` covers some of the
/// scheduler's slices: with 2 ms, threads that compete for cores cost a lane a tenth of its rate.
///
/// Copies end on time because the last microseconds are spun, at most a quarter of all time: a lone copy ends to the
/// microsecond; a stream of small copies, which would otherwise spin without end beside the computing threads, sleeps
/// and makes up for the oversleeping. `Clock` is WallClock, or a test's own.
template <class Clock = WallClock>
class TokenBucket {
 public:
  static constexpr std::int64_t any_time = std::numeric_limits<std::int64_t>::min(); ///< "directly after the last"
  static constexpr std::int64_t default_burst = 10'000'000;
  static constexpr std::int64_t early = 1'000;         ///< an end this near counts as reached
  static constexpr std::int64_t longest_spin = 25'000; ///< about how late a sleep may end
  static constexpr std::int64_t longest_sleep = 5'000'000;

  explicit TokenBucket(Clock clock = {}, std::int64_t burst_ns = default_burst) : clock_(clock), burst_(burst_ns) {
    due_ = spin_told_ = clock_.now();
  }

  /// A copy begins; it could have moved since `asked`, or since the last copy ended.
  void begin(std::int64_t asked = any_time) { due_ = std::max({due_, asked, clock_.now() - burst_}); }
  /// The copy takes `seconds` of the link.
  void take(double seconds) { due_ += std::llround(seconds * 1e9); }
  /// Nothing moves for `seconds` from now, whatever time was missed before.
  void hold(double seconds) {
    due_ = std::max(due_, clock_.now());
    take(seconds);
  }
  /// The end of all time taken.
  [[nodiscard]] std::int64_t due() const { return due_; }

  /// In the middle of a copy: sleeps until about `due()`. Every wait ends when `stopped()` is true.
  template <class Stopped>
  void keep_pace(const Stopped& stopped) {
    if (due_ - clock_.now() > longest_spin) sleep_until(due_, stopped);
  }
  /// At the end of a copy: returns at `due()`, or at once if that has passed.
  template <class Stopped>
  void wait(const Stopped& stopped) {
    std::int64_t now = clock_.now();
    if (due_ - now <= early) return;
    earn_spin(now);
    if (due_ - now > spin_) {
      sleep_until(due_ - (spin_ == most_spin ? longest_spin : 0), stopped);
      now = clock_.now();
    }
    const std::int64_t began = now;
    while (due_ - now > early && !stopped()) {
      clock_.pause();
      now = clock_.now();
    }
    spin_ -= now - began;
  }

 private:
  static constexpr std::int64_t most_spin = 2 * longest_spin;
  static constexpr std::int64_t spin_share = 4; ///< at most this fraction (1/4) of all time is spun

  void earn_spin(std::int64_t now) {
    spin_ = std::min(most_spin, spin_ + (now - spin_told_) / spin_share);
    spin_told_ = now;
  }
  template <class Stopped>
  void sleep_until(std::int64_t when, const Stopped& stopped) {
    for (std::int64_t now = clock_.now(); now < when && !stopped(); now = clock_.now())
      clock_.sleep_until(std::min(when, now + longest_sleep));
  }

  Clock clock_;
  std::int64_t burst_;
  std::int64_t due_ = 0;
  std::int64_t spin_ = most_spin; ///< nanoseconds that may be spun now
  std::int64_t spin_told_ = 0;    ///< time up to which `spin_` was earned
};

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
