// SPDX-License-Identifier: Apache-2.0
// TokenBucket, on a clock that moves only in waits: rates, lost time, time made up for, spinning.
#include "sluice/core/random.hpp"
#include "sluice/world/cpu/copy_engine.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

using namespace sluice;

namespace {

/// A clock: sleeps end late, a spin takes time, and some of it is stolen.
struct Time {
  std::int64_t now = 1'000'000'000;
  std::int64_t oversleep = 0;
  std::int64_t slept = 0, spun = 0, sleeps = 0;
};
struct FakeClock {
  Time* time;
  [[nodiscard]] std::int64_t now() const { return time->now; }
  void sleep_until(std::int64_t when) const {
    ++time->sleeps;
    if (when <= time->now) return;
    time->slept += when + time->oversleep - time->now;
    time->now = when + time->oversleep;
  }
  void pause() const {
    time->now += 40;
    time->spun += 40;
  }
};
using Bucket = TokenBucket<FakeClock>;

constexpr auto never = [] { return false; };

/// One copy of `bytes` at `rate`, whose bytes take `work` to move; returns its end.
std::int64_t carry(Bucket& bucket, Time& time, double bytes, double rate, std::int64_t work,
                   std::int64_t asked = Bucket::any_time) {
  bucket.begin(asked);
  time.now += work;
  bucket.take(bytes / rate);
  bucket.wait(never);
  return time.now;
}

} // namespace

TEST_CASE("a lone copy takes its bytes' time to the microsecond, whatever its size and rate") {
  for (const double rate : {0.25e9, 1e9, 2e9, 4e9})
    for (const double bytes : {16384.0, 65536.0, 1048576.0}) {
      Time time;
      time.oversleep = 15'000;
      Bucket bucket{FakeClock{&time}};
      time.now += 777'777'777; // nothing to do for long: that time is lost
      const std::int64_t asked = time.now;
      const std::int64_t end = carry(bucket, time, bytes, rate, 100, asked);
      const double late = static_cast<double>(end - asked) - bytes / rate * 1e9;
      CHECK(late >= -static_cast<double>(Bucket::early) - 1);
      CHECK(late <= 100);
    }
}

TEST_CASE("copies one after another keep their rate, however late sleeps end") {
  for (const std::int64_t oversleep : {0, 5'000, 60'000, 500'000})
    for (const double bytes : {16384.0, 65536.0, 1048576.0}) {
      constexpr double rate = 2e9;
      Time time;
      time.oversleep = oversleep;
      Bucket bucket{FakeClock{&time}};
      const std::int64_t began = time.now;
      constexpr int copies = 2000;
      std::int64_t end = began;
      for (int i = 0; i < copies; ++i)
        end = carry(bucket, time, bytes, rate, static_cast<std::int64_t>(bytes / 8), i == 0 ? began : Bucket::any_time);
      const double ratio = copies * bytes / rate * 1e9 / static_cast<double>(end - began);
      CAPTURE(oversleep);
      CAPTURE(bytes);
      CHECK(ratio <= 1.0001);
      CHECK(ratio >= 0.97); // includes the lateness of the last sleep
      CHECK(time.spun <= (end - began) / 4 + 50'000);
    }
}

TEST_CASE("no interval carries more than its rate plus one burst; time missed beyond the burst is lost") {
  Random random{5};
  constexpr double rate = 1e9;
  Time time;
  Bucket bucket{FakeClock{&time}};
  struct End {
    std::int64_t when;
    double bytes;
  };
  std::vector<End> ends;
  double total = 0;
  for (int i = 0; i < 1500; ++i) {
    if (random.below(10) == 0)
      time.now += static_cast<std::int64_t>(random.below(40'000'000)); // the thread did not run
    time.oversleep = static_cast<std::int64_t>(random.below(100'000));
    const double bytes = 1000.0 + static_cast<double>(random.below(300'000));
    total += bytes;
    ends.push_back({carry(bucket, time, bytes, rate, static_cast<std::int64_t>(bytes / 10)), total});
  }
  double worst = 0;
  for (std::size_t i = 0; i < ends.size(); ++i)
    for (std::size_t j = i + 1; j < ends.size(); ++j) {
      const double span_s = static_cast<double>(ends[j].when - ends[i].when) * 1e-9;
      worst = std::max(worst, ends[j].bytes - ends[i].bytes - rate * span_s);
    }
  const double burst_bytes = rate * 1e-9 * static_cast<double>(Bucket::default_burst + Bucket::early);
  CHECK(worst <= burst_bytes + 1);
  CHECK(worst > 0.5 * burst_bytes); // it was late, and did make up for it
}

TEST_CASE("time without work earns nothing, but the time from the request to the wake-up counts") {
  Time time;
  Bucket bucket{FakeClock{&time}};
  (void)carry(bucket, time, 1e6, 1e9, 0);
  time.now += 50'000'000;
  const std::int64_t asked = time.now;
  time.now += 70'000; // the thread took this long to wake
  const std::int64_t end = carry(bucket, time, 1e6, 1e9, 0, asked);
  CHECK(end - asked >= 1'000'000 - Bucket::early);
  CHECK(end - asked <= 1'000'100);
}

TEST_CASE("a delay takes its full time, whatever was missed before") {
  Time time;
  Bucket bucket{FakeClock{&time}};
  time.now += 10'000'000;
  bucket.begin();
  const std::int64_t before = time.now;
  bucket.hold(300e-6);
  bucket.wait(never);
  CHECK(time.now - before >= 300'000 - Bucket::early);
}

TEST_CASE("a wait ends as soon as it is stopped, and long waits check often") {
  Time time;
  Bucket bucket{FakeClock{&time}};
  bucket.begin();
  bucket.take(3600);
  const std::int64_t stop_at = time.now + 123'000'000;
  const auto stopped = [&] { return time.now >= stop_at; };
  const std::int64_t slept_before = time.slept;
  bucket.keep_pace(stopped);
  CHECK(time.now - stop_at <= Bucket::longest_sleep);
  bucket.wait(stopped);
  CHECK(time.now - stop_at <= Bucket::longest_sleep);
  CHECK(time.slept > slept_before);
}
