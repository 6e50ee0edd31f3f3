// SPDX-License-Identifier: Apache-2.0
// TokenBucket: when a link of fixed rate has moved its copies, and how a thread waits for that.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <limits>

#ifdef __linux__
#include <sys/prctl.h>
#endif

namespace sluice {

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

} // namespace sluice
