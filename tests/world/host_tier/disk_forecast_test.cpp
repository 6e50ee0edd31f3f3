// SPDX-License-Identifier: Apache-2.0
// DiskForecast: the time of reads to come, beside a list of who waits for which record.
#include "sluice/core/random.hpp"
#include "sluice/world/host_tier/disk_forecast.hpp"

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
  CHECK_FALSE(forecast.knows_pace());
  forecast.took(Seconds{0.5});
  CHECK(forecast.knows_pace());
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
    forecast.took(Seconds{static_cast<double>(read)});
    sum += read;
    CHECK(forecast.time_of(one).count() == doctest::Approx(sum / read));
  }
  for (int read = 0; read < 200; ++read) forecast.took(Seconds{0.25});
  CHECK(forecast.time_of(one).count() == doctest::Approx(0.25).epsilon(1e-3)); // a disk that was slow once
}
