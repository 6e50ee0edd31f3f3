// SPDX-License-Identifier: Apache-2.0
// JobQueue and ThreadCrew: each job runs once, the first failure in order is the error, and no later job starts.
#include "../examples/tools/shared/crew.hpp"
#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <string>
#include <vector>

using namespace sluice;

TEST_CASE("threads run each job once, and report its end") {
  for (const int threads : {1, 2, 7}) {
    std::vector<std::atomic<int>> runs(100), ends(100);
    ThreadCrew crew;
    crew.threads(threads);
    Jobs jobs;
    jobs.count = 100;
    jobs.run = [&](std::size_t i) { return ++runs[i], Status{}; };
    jobs.ended = [&](std::size_t i) { ++ends[i]; };
    CHECK(crew.run(jobs).ok());
    for (std::size_t i = 0; i < 100; ++i) {
      CHECK(runs[i] == 1);
      CHECK(ends[i] == 1);
    }
    jobs.count = 0;
    CHECK(crew.run(jobs).ok());
  }
}

TEST_CASE("the first failure in order is the error, whatever the timing") {
  for (int round = 0; round < 50; ++round) {
    ThreadCrew crew;
    crew.threads(1 + round % 5);
    Jobs jobs;
    jobs.count = 60;
    jobs.run = [](std::size_t i) -> Status {
      if (i % 20 == 17) return Error{ErrorCode::bad_input, "job", std::to_string(i), ""};
      return {};
    };
    const Status status = crew.run(jobs);
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().what == "17");
  }
}

TEST_CASE("a queue gives staying jobs only to local callers, and no job after a failure") {
  JobQueue queue(10, [](std::size_t i) { return i % 3 == 0; });
  CHECK(queue.next(false) == 1);
  CHECK(queue.next(true) == 0);
  CHECK(queue.next(true) == 3);
  queue.failed(5, {ErrorCode::bad_input, "", "five", ""});
  CHECK(queue.next(true) == 2); // 6 and 9 come after the failed job
  queue.failed(8, {ErrorCode::bad_input, "", "eight", ""});
  CHECK(queue.status().error().what == "five");
  CHECK(queue.next(false) == 4);
  CHECK(queue.next(false) == 5);
  CHECK_FALSE(queue.next(false).has_value());
  JobQueue together(10);
  for (std::size_t i = 0; i < 10; ++i) CHECK(together.next(true) == i);
}

TEST_CASE("after an interrupt no job starts, running jobs are dropped, and finished ones count") {
  for (const int threads : {1, 3}) {
    std::vector<std::atomic<int>> begins(100), ends(100);
    ThreadCrew crew;
    crew.threads(threads);
    Jobs jobs;
    jobs.count = 100;
    jobs.run = [&](std::size_t i) {
      ++begins[i];
      if (i == 20) interrupt_as(2);
      if (i >= 20)
        for (;;) drop_if_interrupted(); // a long run
      return Status{};
    };
    jobs.ended = [&](std::size_t i) { ++ends[i]; };
    CHECK(crew.run(jobs).ok()); // a dropped job is no error
    CHECK(interrupted_code() == 130);
    interrupt_as(0);
    for (std::size_t i = 0; i < 100; ++i) {
      CHECK(ends[i] == (i < 20 ? 1 : 0));
      CHECK(begins[i] <= (i < 20 + static_cast<std::size_t>(threads) ? 1 : 0));
    }
  }
}
