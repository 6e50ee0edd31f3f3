// SPDX-License-Identifier: Apache-2.0
// ThreadPool: a few threads, including the caller's, that share the parts of one job after another.
#pragma once

#include "sluice/core/assert.hpp"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace sluice {

/// Runs `job(part, thread)` for every part 0 .. parts - 1, on the caller and on `threads` - 1 threads of its own. A
/// part goes to the thread that asks first, so that a thread delayed by the system delays one part and not a fixed
/// share of the job: a part's result must not depend on its thread. Between jobs the threads spin for some microseconds
/// (a layer has several jobs), then sleep.
///
/// One caller at a time. A job must not throw, and must not run another job.
///
/// Rejected: a static share for each thread. On a machine with other work a job took as long as its slowest thread, and
/// on a quiet machine static shares are no faster: a part is some tens of microseconds of work, and taking one costs
/// some tens of nanoseconds.
class ThreadPool {
 public:
  /// Throws std::thread's error if the system starts no more threads; those already started have ended by then.
  explicit ThreadPool(int threads) {
    SLUICE_ASSERT(threads >= 1, "the caller is one of the threads");
    struct Unwinding {
      ThreadPool* pool;
      ~Unwinding() {
        if (pool != nullptr) pool->end();
      }
    } unwinding{this};
    for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { work(i); });
    unwinding.pool = nullptr;
  }
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool() { end(); }

  /// The number of threads, including the caller's.
  [[nodiscard]] int threads() const { return static_cast<int>(workers_.size()) + 1; }

  /// `thread` is 0 .. threads() - 1, for a job's scratch memory. Returns when all parts are done; the parts' writes are
  /// then visible to the caller, and the caller's earlier writes are visible to the parts.
  template <class Job>
  void run(int parts, const Job& job) {
    static_assert(std::is_invocable_v<const Job&, int, int>, "a job takes a part's number and its thread's");
    if (parts <= 1 || workers_.empty()) {
      for (int part = 0; part < parts; ++part) job(part, 0);
      return;
    }
    call_.store([](const void* it, int part, int thread) { (*static_cast<const Job*>(it))(part, thread); },
                std::memory_order_relaxed);
    job_.store(&job, std::memory_order_relaxed);
    parts_.store(parts, std::memory_order_relaxed);
    done_.store(0, std::memory_order_relaxed);
    ++round_;
    open_.store(pack(round_, parts)); // sequentially consistent: see sleep()
    if (asleep_.load() > 0) wake();
    take(round_, 0);
    for (int spins = 0; done_.load(std::memory_order_acquire) != parts; ++spins) {
      if (spins < spin_limit)
        relax();
      else
        std::this_thread::yield(); // a worker that lost its core has a part: let it use this core
    }
  }

  /// One turn of a loop that spins.
  static void relax() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

 private:
  using Call = void (*)(const void*, int, int);

  void end() {
    stop_.store(true);
    wake();
    for (std::thread& worker : workers_) worker.join();
  }
  static constexpr int spin_limit = 512; // some 30 us if a pause takes 140 cycles

  static std::uint64_t pack(std::uint32_t round, int left) {
    return (std::uint64_t{round} << 32) | static_cast<std::uint32_t>(left);
  }
  /// Takes parts of one round until none is left. A worker that comes late, when the next round is open, sees another
  /// round's number and returns; so a thread that gets a part has read that round's job, which stays until the part is
  /// done.
  void take(std::uint32_t round, int thread) {
    std::uint64_t open = open_.load(std::memory_order_acquire);
    while (static_cast<std::uint32_t>(open >> 32) == round && static_cast<std::uint32_t>(open) != 0) {
      const Call call = call_.load(std::memory_order_relaxed);
      const void* job = job_.load(std::memory_order_relaxed);
      const int parts = parts_.load(std::memory_order_relaxed);
      if (!open_.compare_exchange_weak(open, open - 1, std::memory_order_acq_rel, std::memory_order_acquire)) continue;
      call(job, parts - static_cast<int>(static_cast<std::uint32_t>(open)), thread);
      done_.fetch_add(1, std::memory_order_acq_rel);
      open = open_.load(std::memory_order_acquire);
    }
  }

  [[nodiscard]] bool idle() const { return static_cast<std::uint32_t>(open_.load()) == 0 && !stop_.load(); }

  void work(int thread) {
    for (;;) {
      for (int spins = 0; idle() && spins < spin_limit; ++spins) relax();
      if (idle()) sleep();
      if (stop_.load()) return;
      take(static_cast<std::uint32_t>(open_.load(std::memory_order_acquire) >> 32), thread);
    }
  }
  /// A worker announces that it sleeps before it looks for a round a last time; the caller opens a round before it
  /// looks which workers sleep. At least one of the two sees the other.
  void sleep() {
    std::unique_lock lock{mutex_};
    asleep_.fetch_add(1);
    wakes_.wait(lock, [this] { return !idle(); });
    asleep_.fetch_sub(1);
  }
  void wake() {
    { const std::lock_guard lock{mutex_}; }
    wakes_.notify_all();
  }

  std::uint32_t round_ = 0;            // the caller's
  std::atomic<std::uint64_t> open_{0}; // round, and how many of its parts no thread has taken
  std::atomic<int> done_{0};
  std::atomic<Call> call_{nullptr};
  std::atomic<const void*> job_{nullptr};
  std::atomic<int> parts_{0};
  std::atomic<int> asleep_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable wakes_;
  std::vector<std::thread> workers_;
};

} // namespace sluice
