// SPDX-License-Identifier: Apache-2.0
// DiskForecast: the time of reads to come, beside a list of who waits for which record.
#include "sluice/core/random.hpp"
#include "sluice/world/host_tier/record_writer.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <utility>
#include <vector>

using namespace sluice;

TEST_CASE("DiskForecast: a record that several wait for is read once, and those that wait already come first") {
  Random random(1);
  DiskForecast forecast;
  const auto key_of = [](std::uint64_t number) { return RecordKey{number, number % 3}; };
  std::vector<std::vector<RecordKey>> waiting; // the reference
  CHECK(forecast.time_of(std::vector{key_of(1)}) == Seconds{0});
  forecast.took(Seconds{0.5}, Seconds{0.5});
  std::size_t shared = 0;
  for (int step = 0; step < 2'000; ++step) {
    std::vector<RecordKey> keys;
    const std::uint64_t first = random.below(20);
    for (std::uint64_t i = 0; i < random.below(6); ++i) keys.push_back(key_of(first + i));
    std::set<std::pair<std::uint64_t, std::uint64_t>> all;
    std::size_t counted = keys.size();
    for (const RecordKey& key : keys) all.emplace(key.high, key.low);
    for (const auto& one : waiting) {
      counted += one.size();
      for (const RecordKey& key : one) all.emplace(key.high, key.low);
    }
    shared += counted - all.size();
    CHECK(forecast.time_of(keys) == Seconds{0.5 * static_cast<double>(all.size())});
    if (waiting.size() < 5 && random.below(2) == 0) {
      forecast.wait_for(keys);
      waiting.push_back(keys);
    } else if (!waiting.empty()) {
      std::vector<RecordKey>& one = waiting[random.below(waiting.size())];
      if (one.empty()) {
        std::swap(one, waiting.back());
        waiting.pop_back();
        continue;
      }
      forecast.done(one.front());
      one.erase(one.begin());
    }
  }
  CHECK(shared > 1'000);
}

TEST_CASE("DiskForecast: the mean of the first reads, and later of the latest") {
  DiskForecast forecast;
  const std::vector<RecordKey> one{{1, 1}};
  double sum = 0;
  for (int read = 1; read <= 16; ++read) {
    forecast.took(Seconds{static_cast<double>(read)}, Seconds{sum += read});
    CHECK(forecast.time_of(one).count() == doctest::Approx(sum / read));
  }
  for (int read = 0; read < 200; ++read) forecast.took(Seconds{0.25}, Seconds{sum += 0.25});
  CHECK(forecast.time_of(one).count() == doctest::Approx(0.25).epsilon(1e-3)); // a disk that was slow once
}

TEST_CASE("DiskForecast: after a new measurement the mean is that of its reads, whatever was before") {
  const std::vector<RecordKey> one{{1, 1}};
  for (const int before : {1, 7, 300}) {
    DiskForecast forecast;
    CHECK_FALSE(forecast.is_old(Seconds{1e9})); // nothing has been read yet
    double now = 0;
    for (int read = 0; read < before; ++read) forecast.took(Seconds{0.5}, Seconds{now += 0.5});
    const Seconds old = Seconds{now} + DiskForecast::old_after;
    CHECK_FALSE(forecast.is_old(old - Seconds{1e-3}));
    REQUIRE(forecast.is_old(old));
    forecast.measure_anew(old);
    CHECK_FALSE(forecast.is_old(old + Seconds{1}));               // it is under way
    CHECK(forecast.time_of(one).count() == doctest::Approx(0.5)); // until a read has ended
    double sum = 0;
    for (int read = 1; read <= 4; ++read) {
      forecast.took(Seconds{0.001 * read}, old + Seconds{1});
      sum += 0.001 * read;
      CHECK(forecast.time_of(one).count() == doctest::Approx(sum / read));
    }
  }
}

TEST_CASE("DiskForecast: a failure counts if it takes longer than a read, and is a measurement in any case") {
  const std::vector<RecordKey> one{{1, 1}};
  DiskForecast forecast;
  for (int read = 0; read < 100; ++read) forecast.took(Seconds{0.5}, Seconds{1});
  forecast.failed(Seconds{0.001}, Seconds{20});
  CHECK(forecast.time_of(one).count() == doctest::Approx(0.5));
  CHECK_FALSE(forecast.is_old(Seconds{29}));
  REQUIRE(forecast.is_old(Seconds{30}));
  forecast.failed(Seconds{30}, Seconds{60});
  CHECK(forecast.time_of(one).count() > 2);
  CHECK_FALSE(forecast.is_old(Seconds{69}));
  forecast.measure_anew(Seconds{70});
  forecast.failed(Seconds{30}, Seconds{100});
  CHECK(forecast.time_of(one).count() == doctest::Approx(30));
}
