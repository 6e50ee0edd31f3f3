// SPDX-License-Identifier: Apache-2.0
// ThreadPool: runs every part once, never runs a part of an old job, and stops cleanly.
#include "sluice/model/decoder/thread_pool.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <thread>
#include <vector>

using namespace sluice;

TEST_CASE("every part of every job runs once, on a thread of the pool, before the job returns") {
  for (const int threads : {1, 2, 4}) {
    ThreadPool pool{threads};
    CHECK(pool.threads() == threads);
    int wrong = 0;
    for (int job = 0; job < 400; ++job) {
      const int parts = job % 7;
      std::vector<int> done(static_cast<std::size_t>(parts), 0); // of this job only: a late worker would be detected
      pool.run(parts, [&](int part, int thread) {
        done[static_cast<std::size_t>(part)] += thread >= 0 && thread < threads ? 1 : 100;
      });
      for (const int times : done) wrong += times == 1 ? 0 : 1;
      if (job % 100 == 99) std::this_thread::sleep_for(std::chrono::milliseconds{2}); // they fall asleep
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("a pool that never had a job ends, and so does a sleeping pool") {
  { const ThreadPool pool{3}; }
  const ThreadPool pool{3};
  std::this_thread::sleep_for(std::chrono::milliseconds{5});
}

TEST_CASE("scratch memory belongs to one thread") {
  ThreadPool pool{3};
  std::vector<long> sums(3, 0);
  for (int job = 0; job < 50; ++job)
    pool.run(20, [&](int part, int thread) { sums[static_cast<std::size_t>(thread)] += part; });
  CHECK(sums[0] + sums[1] + sums[2] == 50 * 190);
}
