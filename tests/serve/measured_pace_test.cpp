// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/measured_pace.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <optional>

using namespace sluice;

namespace {

IterationRecord record(std::int64_t step, std::int64_t tokens, std::int64_t running, double seconds) {
  IterationRecord made;
  made.step = step;
  made.tokens = Tokens{tokens};
  made.running = running;
  made.duration = Seconds{seconds};
  return made;
}

} // namespace

TEST_CASE("MeasuredPace learns only from iterations that ran as predicted") {
  MeasuredPace pace;
  CHECK(pace.slowdown() == 1);
  pace.ran(record(1, 10, 2, 5)); // not predicted
  CHECK(pace.slowdown() == 1);
  for (const IterationRecord& other : {record(3, 10, 2, 5), record(2, 11, 2, 5), record(2, 10, 3, 5)}) {
    pace.foresee(ForeseenStep{2, 10, 2, Seconds{1}}); // a request came or left meanwhile
    pace.ran(other);
    pace.ran(record(2, 10, 2, 5)); // a prediction is for one iteration
    CHECK(pace.slowdown() == 1);
  }
  pace.foresee(ForeseenStep{2, 10, 2, Seconds{1}});
  pace.foresee(std::nullopt);
  pace.ran(record(2, 10, 2, 5));
  CHECK(pace.slowdown() == 1);

  pace.foresee(ForeseenStep{4, 10, 2, Seconds{2}});
  pace.ran(record(4, 10, 2, 3));
  CHECK(pace.slowdown() == doctest::Approx(1.5)); // the first sample counts fully
  pace.foresee(ForeseenStep{5, 10, 2, Seconds{2}});
  pace.ran(record(5, 10, 2, 2));
  CHECK(pace.slowdown() == doctest::Approx(1.25));
  for (int step = 6; step < 200; ++step) { // old samples are forgotten
    pace.foresee(ForeseenStep{step, 10, 2, Seconds{1}});
    pace.ran(record(step, 10, 2, 0.5));
  }
  CHECK(pace.slowdown() == doctest::Approx(0.5).epsilon(0.01));
}

TEST_CASE("MeasuredPace adds the time between two iterations of a busy engine") {
  MeasuredPace pace;
  pace.stepped(0.02, -1); // it was idle before
  CHECK(pace.slowdown() == 1);
  for (int step = 0; step < 1000; ++step) pace.stepped(0.02, step % 4 == 0 ? 0.004 : 0); // a forecast now and then
  CHECK(pace.slowdown() == doctest::Approx(1.05).epsilon(0.001));
  pace.foresee(ForeseenStep{1, 10, 2, Seconds{1}});
  pace.ran(record(1, 10, 2, 1.2));
  CHECK(pace.slowdown() == doctest::Approx(1.2 * 1.05).epsilon(0.001));
  for (int step = 0; step < 3000; ++step) pace.stepped(0.02, 0);
  CHECK(pace.slowdown() == doctest::Approx(1.2).epsilon(0.001));
}
