// SPDX-License-Identifier: Apache-2.0
// CopyEngine: every copy moves its bytes and ends exactly once, in order; no lane sleeps while there is work; a failed
// copy is retried once.
#include "sluice/core/random.hpp"
#include "sluice/world/cpu/copy_engine.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

using namespace sluice;

namespace {

/// One queue for each direction, and the outcomes.
class Queues {
 public:
  struct Ended {
    Way way;
    std::uint64_t tag;
    CopyOutcome outcome;
  };

  void push(Way way, const Copy& copy) {
    const std::lock_guard lock{mutex_};
    queue(way).push_back(copy);
    ++pushed_;
  }
  std::optional<Copy> next(Way way) {
    const std::lock_guard lock{mutex_};
    std::deque<Copy>& all = queue(way);
    if (all.empty()) return std::nullopt;
    const Copy copy = all.front();
    all.pop_front();
    ++under_way_[static_cast<std::size_t>(way)];
    most_under_way_ = std::max(most_under_way_, under_way_[0] + under_way_[1]);
    return copy;
  }
  void ended(Way way, const Copy& copy, CopyOutcome outcome) {
    {
      const std::lock_guard lock{mutex_};
      --under_way_[static_cast<std::size_t>(way)];
      ended_.push_back({way, copy.tag, outcome});
    }
    changed_.notify_all();
  }
  /// Waits until one copy has ended.
  void await_one() {
    std::unique_lock lock{mutex_};
    REQUIRE(changed_.wait_for(lock, std::chrono::minutes{1}, [this] { return !ended_.empty(); }));
  }
  /// Waits until everything pushed has ended.
  void drain() {
    std::unique_lock lock{mutex_};
    REQUIRE(changed_.wait_for(lock, std::chrono::minutes{1}, [this] { return ended_.size() == pushed_; }));
  }
  std::vector<Ended> ended() {
    const std::lock_guard lock{mutex_};
    return ended_;
  }
  int most_under_way() {
    const std::lock_guard lock{mutex_};
    return most_under_way_;
  }

 private:
  std::deque<Copy>& queue(Way way) { return queues_[static_cast<std::size_t>(way)]; }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<std::deque<Copy>, 2> queues_;
  std::array<int, 2> under_way_{};
  std::size_t pushed_ = 0;
  int most_under_way_ = 0;
  std::vector<Ended> ended_;
};

std::vector<std::byte> noise(std::size_t size, std::uint64_t seed) {
  Random random{seed};
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

/// Work that arrives at the worst moment: after the lane found none, before it sleeps.
class Late {
 public:
  static constexpr int rounds = 50;
  CopyEngine<Late>* engine = nullptr;

  Late(const std::byte* from, std::byte* to) : copy_{from, to, 8} {}

  void start() {
    const std::lock_guard lock{mutex_};
    ready_ = true;
  }
  std::optional<Copy> next(Way way) {
    const std::lock_guard lock{mutex_};
    if (way == Way::to_host || done_ == rounds) return std::nullopt;
    if (std::exchange(ready_, false)) return copy_;
    if (done_ > 0) {
      ready_ = true;
      engine->wake();
    }
    return std::nullopt;
  }
  void ended(Way, const Copy&, CopyOutcome) {
    {
      const std::lock_guard lock{mutex_};
      ++done_;
    }
    changed_.notify_all();
  }
  void drain() {
    std::unique_lock lock{mutex_};
    REQUIRE(changed_.wait_for(lock, std::chrono::minutes{1}, [this] { return done_ == rounds; }));
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Copy copy_;
  bool ready_ = false;
  int done_ = 0;
};

/// Disjoint places in two memories, to copy between.
struct Memories {
  std::vector<std::byte> device, host;
  explicit Memories(std::size_t size) : device(noise(size, 1)), host(noise(size, 2)) {}
};

} // namespace

TEST_CASE("random copies, with rows and strides, write exactly their bytes") {
  for (const bool each_way : {false, true})
    for (const double rate : {0.0, 40e9}) { // a throttled copy is split into pieces
      constexpr std::size_t half = std::size_t{1} << 20;
      Memories memories{2 * half};
      std::vector<std::byte> device_after = memories.device, host_after = memories.host;
      Queues queues;
      Random random{each_way ? 3u : 4u};
      std::int64_t bytes[2] = {0, 0}, copies = 0;
      CopyEngine<Queues> engine{queues, {rate, rate, each_way, 0}};
      // The first half of both memories is for copies to the device, the second for copies to the host.
      std::size_t at = 0;
      for (std::uint64_t tag = 0;; ++tag) {
        Copy copy;
        copy.tag = tag;
        copy.bytes = static_cast<std::int64_t>(tag % 50 == 7 ? 300'000 : random.below(5000));
        copy.rows = static_cast<std::int64_t>(tag % 50 == 7 ? 1 : random.below(6));
        copy.from_stride = copy.bytes + static_cast<std::int64_t>(random.below(50));
        copy.to_stride = copy.bytes + static_cast<std::int64_t>(random.below(50));
        const auto span = static_cast<std::size_t>(copy.rows * std::max(copy.from_stride, copy.to_stride));
        if (at + span > half) break;
        const bool back = random.below(2) == 0;
        std::vector<std::byte>&source = back ? memories.device : memories.host,
        &destination = back ? memories.host : memories.device, &wanted = back ? host_after : device_after;
        const std::size_t place = at + (back ? half : 0);
        copy.from = source.data() + place;
        copy.to = destination.data() + place;
        for (std::int64_t row = 0; row < copy.rows; ++row)
          for (std::int64_t i = 0; i < copy.bytes; ++i)
            wanted[place + static_cast<std::size_t>(row * copy.to_stride + i)] =
                (back ? memories.device : memories.host)[place + static_cast<std::size_t>(row * copy.from_stride + i)];
        at += span;
        bytes[back ? 1 : 0] += copy.total();
        ++copies;
        queues.push(back ? Way::to_host : Way::to_device, copy);
        engine.wake();
      }
      queues.drain();
      CHECK(copies > 20);
      CHECK(memories.device == device_after);
      CHECK(memories.host == host_after);
      const CopyTotals totals = engine.totals();
      CHECK(totals.to_device.bytes == Bytes{bytes[0]});
      CHECK(totals.to_host.bytes == Bytes{bytes[1]});
      CHECK(totals.to_device.copies + totals.to_host.copies == copies);
      CHECK(totals.to_device.retries + totals.to_host.retries + totals.to_device.failed + totals.to_host.failed == 0);
      CHECK(totals.to_device.busy > Seconds{0});
      CHECK(queues.most_under_way() <= (each_way ? 2 : 1));
    }
}

TEST_CASE("each direction keeps the order of its source, and a single lane takes copies to the device first") {
  constexpr std::size_t size = 64;
  Memories memories{2 * size};
  for (const bool each_way : {false, true}) {
    Queues queues;
    for (std::uint64_t tag = 0; tag < 200; ++tag) {
      queues.push(Way::to_device, {memories.host.data(), memories.device.data(), size, 1, 0, 0, tag});
      queues.push(Way::to_host, {memories.device.data() + size, memories.host.data() + size, size, 1, 0, 0, tag});
    }
    CopyEngine<Queues> engine{queues, {0, 0, each_way, 0}}; // no wake-up needed: a new engine asks its source
    queues.drain();
    std::uint64_t expected[2] = {0, 0};
    const std::vector<Queues::Ended> all = queues.ended();
    for (std::size_t i = 0; i < all.size(); ++i) {
      const bool back = all[i].way == Way::to_host;
      REQUIRE(all[i].tag == expected[back ? 1 : 0]++);
      if (!each_way) REQUIRE(back == (i >= 200));
    }
    CHECK(expected[0] == 200);
    CHECK(expected[1] == 200);
  }
}

TEST_CASE("a copy takes the link's time from when it could begin, however long the link was idle before") {
  constexpr std::size_t size = 1 << 20;
  constexpr double rate = 1e9;
  Memories memories{size};
  for (const bool each_way : {false, true}) {
    Queues queues;
    CopyEngine<Queues> engine{queues, {rate, rate, each_way, 0}};
    const CopySince since = std::chrono::steady_clock::now() + std::chrono::milliseconds{5};
    queues.push(Way::to_device, {memories.host.data(), memories.device.data(), size, 1, 0, 0, 0, since});
    engine.wake();
    queues.drain();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - since;
    CHECK(took.count() >= 0.99 * size / rate);
  }
}

TEST_CASE("no wake-up is lost, whenever work is announced") {
  constexpr std::size_t size = 16;
  for (const bool each_way : {false, true}) {
    Memories memories{2 * size};
    Queues queues;
    CopyEngine<Queues> engine{queues, {0, 0, each_way, 0}};
    Random random{7};
    constexpr int rounds = 3000;
    for (int i = 0; i < rounds; ++i) {
      // One wake-up per task, while the lane may be anywhere between its check and its sleep.
      const Way way = random.below(2) == 0 ? Way::to_device : Way::to_host;
      if (way == Way::to_device)
        queues.push(way, {memories.host.data(), memories.device.data(), size});
      else
        queues.push(way, {memories.device.data() + size, memories.host.data() + size, size});
      if (random.below(2) == 0)
        engine.wake();
      else
        engine.wake(way);
      if (random.below(3) == 0) queues.drain();
      for (std::uint64_t turns = random.below(200); turns > 0; --turns) WallClock::pause();
    }
    queues.drain();
    CHECK(queues.ended().size() == rounds);
  }
}

TEST_CASE("work announced between a lane's check and its sleep is found") {
  for (const bool each_way : {false, true}) {
    Memories memories{8};
    Late source{memories.host.data(), memories.device.data()};
    CopyEngine<Late> engine{source, {0, 0, each_way, 0}};
    source.engine = &engine; // read only after the first copy, which `start` releases
    source.start();
    engine.wake();
    source.drain();
    CHECK(engine.totals().to_device.copies == Late::rounds);
  }
}

TEST_CASE("several threads push and wake at once, and every copy ends once") {
  constexpr std::size_t size = 16;
  Memories memories{2 * size};
  Queues queues;
  CopyEngine<Queues> engine{queues, {0, 0, true, 0}};
  constexpr std::uint64_t threads = 3, each = 1000;
  std::vector<std::thread> pushers;
  for (std::uint64_t t = 0; t < threads; ++t)
    pushers.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < each; ++i) {
        queues.push(Way::to_device, {memories.host.data(), memories.device.data(), size, 1, 0, 0, t * each + i});
        engine.wake(Way::to_device);
      }
    });
  for (std::thread& pusher : pushers) pusher.join();
  queues.drain();
  std::vector<int> seen(threads * each, 0);
  for (const Queues::Ended& one : queues.ended()) ++seen[one.tag];
  CHECK(std::count(seen.begin(), seen.end(), 1) == static_cast<std::ptrdiff_t>(threads * each));
}

TEST_CASE("an engine stops in every state, and finishes the copy under way") {
  constexpr std::size_t size = 1 << 16;
  Memories memories{2 * size};
  Random random{13};
  std::size_t left_over = 0, some = 0;
  for (int round = 0; round < 120; ++round) {
    const bool each_way = random.below(2) == 0;
    Queues queues;
    std::int64_t begun = 0;
    {
      // 1 kB/s: the copy under way would take a minute, the queued ones an hour.
      const double rate = random.below(2) == 0 ? 0 : 1e3;
      const double most_delay = random.below(2) == 0 ? 0 : 100.0;
      const double per_copy = random.below(2) == 0 ? 0 : 10.0;
      CopyEngine<Queues> engine{
          queues, {rate, rate, each_way, per_copy}, {.seed = 1, .most_delay = Seconds{most_delay}}};
      const std::uint64_t queued = random.below(50);
      for (std::uint64_t i = 0; i < queued; ++i)
        queues.push(Way::to_device, {memories.host.data(), memories.device.data(), size});
      const bool woken = random.below(2) == 0;
      if (woken) engine.wake();
      // The lane's thread may not be scheduled during the pauses below. Waiting for one copy here ensures that some
      // rounds stop the lane in the middle of its queue.
      if (woken && queued > 0 && rate == 0 && most_delay == 0 && per_copy == 0) queues.await_one();
      for (std::uint64_t turns = random.below(5'000); turns > 0; --turns) WallClock::pause();
    }
    std::size_t still = 0;
    while (queues.next(Way::to_device)) ++still, ++begun;
    left_over += still;
    some += queues.ended().size();
    for (const Queues::Ended& one : queues.ended()) REQUIRE(one.outcome == CopyOutcome::done);
    if (!queues.ended().empty())
      REQUIRE(std::equal(memories.host.begin(), memories.host.begin() + size, memories.device.begin()));
  }
  CHECK(left_over > 0);
  CHECK(some > 0);
}

TEST_CASE("a failed copy is tried once more from its start; a second failure is reported once") {
  constexpr std::size_t size = 4096;
  constexpr std::uint64_t copies = 100;
  Memories memories{copies * size};
  FaultPlan plan;
  plan.seed = 5;
  for (std::uint64_t tag = 0; tag < copies; tag += 3) plan.tags_failing_once.push_back(tag);
  for (std::uint64_t tag = 1; tag < copies; tag += 10) plan.tags_failing.push_back(tag);
  const auto contains = [](const std::vector<std::uint64_t>& tags, std::uint64_t tag) {
    return std::find(tags.begin(), tags.end(), tag) != tags.end();
  };
  for (const bool each_way : {false, true}) {
    std::fill(memories.device.begin(), memories.device.end(), std::byte{0});
    Queues queues;
    CopyEngine<Queues> engine{queues, {each_way ? 8e9 : 0, 0, each_way, 0}, plan};
    for (std::uint64_t tag = 0; tag < copies; ++tag)
      queues.push(Way::to_device,
                  {memories.host.data() + tag * size, memories.device.data() + tag * size, 512, 8, 512, 512, tag});
    engine.wake();
    queues.drain();
    std::int64_t failed = 0, retried = 0;
    for (const Queues::Ended& one : queues.ended()) {
      const bool fails = contains(plan.tags_failing, one.tag);
      REQUIRE(one.outcome == (fails ? CopyOutcome::failed : CopyOutcome::done));
      failed += fails;
      retried += fails || contains(plan.tags_failing_once, one.tag);
      const auto at = static_cast<std::ptrdiff_t>(one.tag * size);
      const bool there =
          std::equal(memories.host.begin() + at, memories.host.begin() + at + size, memories.device.begin() + at);
      REQUIRE(there == !fails);
    }
    CHECK(failed == 10);
    const CopyTotals totals = engine.totals();
    CHECK(totals.to_device.failed == failed);
    CHECK(totals.to_device.retries == retried);
    CHECK(totals.to_device.copies == static_cast<std::int64_t>(copies) - failed);
    CHECK(totals.to_device.bytes == Bytes{totals.to_device.copies * static_cast<std::int64_t>(size)});
  }
}

TEST_CASE("random faults, delays and slow links change no byte, and are the same in every run") {
  constexpr std::size_t size = 1024;
  constexpr std::uint64_t copies = 200;
  const FaultPlan plan{
      .seed = 21, .failing = 0.3, .most_delay = Seconds{20e-6}, .least_slowdown = 1, .most_slowdown = 3};
  std::vector<std::uint64_t> before;
  for (const double rate : {0.0, 10e9}) {
    Memories memories{copies * size};
    Queues queues;
    CopyEngine<Queues> engine{queues, {rate, rate, false, 0}, plan};
    for (std::uint64_t tag = 0; tag < copies; ++tag)
      queues.push(Way::to_host,
                  {memories.device.data() + tag * size, memories.host.data() + tag * size, size, 1, 0, 0, tag});
    engine.wake();
    queues.drain();
    std::vector<std::uint64_t> failed;
    for (const Queues::Ended& one : queues.ended()) {
      const auto at = static_cast<std::ptrdiff_t>(one.tag * size);
      if (one.outcome == CopyOutcome::failed)
        failed.push_back(one.tag);
      else
        REQUIRE(
            std::equal(memories.host.begin() + at, memories.host.begin() + at + size, memories.device.begin() + at));
    }
    CHECK(failed.size() > copies / 25);
    CHECK(failed.size() < copies / 5);
    CHECK((before.empty() || failed == before));
    before = failed;
  }
}
