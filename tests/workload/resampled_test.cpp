// SPDX-License-Identifier: Apache-2.0
// A resampled trace: which properties it keeps, and which it does not.
#include "sluice/workload/generator.hpp"
#include "sluice/workload/resampled.hpp"
#include "sluice/workload/seeds.hpp"
#include "sluice/workload/workload.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace sluice;

namespace {

/// A bursty trace whose requests are identified by their prompts.
std::vector<RequestSpec> trace(std::int64_t requests, std::uint64_t seed = 1) {
  Generator generator{
      *parse_generator("gamma:rate=2,cv=2,prompt=64,output=uniform(4,90),requests=" + std::to_string(requests)), seed};
  std::vector<RequestSpec> all = *read_all(generator);
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].prompt = Tokens{static_cast<std::int64_t>(i) + 1};
    all[i].slo.tbt = Seconds{0.01 * static_cast<double>(i + 1)};
  }
  return all;
}
std::vector<RequestSpec> drawn(const std::vector<RequestSpec>& of, Resampling how, std::uint64_t seed) {
  Resampled reader{of, how, seed};
  return *read_all(reader);
}
std::size_t place(const RequestSpec& request) { return static_cast<std::size_t>(request.prompt.count()) - 1; }

} // namespace

TEST_CASE("a resampled trace has as many requests, starts at 0, is in order, and depends only on the seed") {
  for (const std::int64_t size : {1, 2, 3, 17, 200})
    for (const Resampling how : {Resampling{}, Resampling{.block = 5}, Resampling{Resampling::Kind::arrivals}}) {
      const std::vector<RequestSpec> of = trace(size);
      for (std::uint64_t seed = 1; seed <= 5; ++seed) {
        const std::vector<RequestSpec> again = drawn(of, how, seed);
        CHECK(again.size() == of.size());
        CHECK(again.front().arrival == Seconds{0});
        CHECK(std::is_sorted(again.begin(), again.end(),
                             [](const auto& a, const auto& b) { return a.arrival < b.arrival; }));
        CHECK(again == drawn(of, how, seed));
        for (const RequestSpec& request : again) { // a request's lengths and SLO stay together
          CHECK(request.output == of[place(request)].output);
          CHECK(request.slo == of[place(request)].slo);
        }
        if (size > 3) CHECK(again != drawn(of, how, seed + 100));
      }
    }
}

TEST_CASE("blocks are consecutive requests of the circular trace, with their gaps") {
  const std::vector<RequestSpec> of = trace(60);
  for (const std::int64_t block : {1, 4, 7, 60}) {
    const std::vector<RequestSpec> again = drawn(of, {.block = block}, 9);
    for (std::size_t i = 1; i < again.size(); ++i) {
      if (i % static_cast<std::size_t>(block) != 0) CHECK(place(again[i]) == (place(again[i - 1]) + 1) % of.size());
      const std::size_t at = place(again[i]);
      const Seconds gap =
          at == 0 ? (of.back().arrival - of.front().arrival) / 59.0 : of[at].arrival - of[at - 1].arrival;
      CHECK((again[i].arrival - again[i - 1].arrival).count() == doctest::Approx(gap.count()).epsilon(1e-9));
    }
  }
}

TEST_CASE("by default a block has the cube root of the trace's length") {
  const std::vector<RequestSpec> of = trace(1'000);
  CHECK(drawn(of, {}, 3) == drawn(of, {.block = 10}, 3));
  CHECK(drawn(of, {}, 3) != drawn(of, {.block = 11}, 3));
}

TEST_CASE("a number of requests is drawn from the whole trace, not from its beginning") {
  const std::vector<RequestSpec> of = trace(400);
  for (const std::int64_t wanted : {1, 7, 50, 1'000}) {
    std::size_t last = 0;
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
      const std::vector<RequestSpec> again = drawn(of, {.block = 5, .requests = wanted}, seed);
      CHECK(again.size() == static_cast<std::size_t>(wanted));
      for (const RequestSpec& request : again) last = std::max(last, place(request));
    }
    CHECK(last > 300); // 60 blocks, each anywhere: all in the first 300 once in 3e7 trials, and the seeds are fixed
  }
  std::set<std::size_t> begins;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const std::vector<RequestSpec> again = drawn(of, {Resampling::Kind::arrivals, 0, 30}, seed);
    REQUIRE(again.size() == 30);
    for (std::size_t i = 1; i < again.size(); ++i) CHECK(place(again[i]) == place(again[0]) + i);
    begins.insert(place(again[0]));
  }
  CHECK(begins.size() > 10);
}

TEST_CASE("windows are parts of the trace as recorded, without a common request, spread over all of it") {
  const std::vector<RequestSpec> of = trace(103);
  for (const std::int64_t windows : {1, 2, 5, 10, 103})
    for (const std::int64_t requests : {0, 1, 10})
      for (const std::int64_t offset : {0, 40}) {
        if (windows > 103 - offset) continue;
        std::set<std::size_t> seen;
        for (std::int64_t window = 1; window <= windows; ++window) {
          const Resampling how{Resampling::Kind::windows, 0, requests, windows, offset};
          const std::vector<RequestSpec> part = drawn(of, how, static_cast<std::uint64_t>(window));
          REQUIRE(!part.empty());
          if (requests > 0) CHECK(part.size() <= static_cast<std::size_t>(requests));
          const std::size_t first = place(part.front());
          CHECK(first == static_cast<std::size_t>(offset + (103 - offset) * (window - 1) / windows));
          for (std::size_t i = 0; i < part.size(); ++i) {
            CHECK(place(part[i]) == first + i);
            CHECK((part[i].arrival - (of[first + i].arrival - of[first].arrival)).count() ==
                  doctest::Approx(0).epsilon(1e-9));
            CHECK(seen.insert(first + i).second);
          }
        }
        if (requests == 0) CHECK(seen.size() == static_cast<std::size_t>(103 - offset));
      }
}

TEST_CASE("a busy period has as many requests as a server that works through them serves without a pause") {
  const auto seconds = [](std::vector<double> values) {
    std::vector<Seconds> all;
    for (const double value : values) all.emplace_back(value);
    return all;
  };
  CHECK(busy_period_requests({}, {}) == 0);
  // Two periods, of one request and of three: a request is in one of (1 + 3 * 3) / 4 on average.
  CHECK(busy_period_requests(seconds({0, 5, 6, 7}), seconds({1, 2, 2, 2})) == doctest::Approx(2.5));
  CHECK(busy_period_requests(seconds({0, 1, 2, 3}), seconds({1, 1, 1, 1})) == doctest::Approx(1)); // it just ends
  CHECK(busy_period_requests(seconds({0, 1, 2, 3}), seconds({9, 1, 1, 1})) == doctest::Approx(4)); // overloaded
  // An independent reference: the server's work is followed in small steps.
  const std::vector<RequestSpec> of = trace(60);
  std::vector<Seconds> arrivals, service;
  for (const RequestSpec& one : of) {
    arrivals.push_back(one.arrival);
    service.emplace_back(0.004 * static_cast<double>(one.output.count()));
  }
  double squares = 0;
  for (std::size_t i = 0; i < of.size();) { // a period ends before the first request that arrives after its work
    std::size_t count = 1;
    double work = service[i].count();
    while (i + count < of.size() && arrivals[i + count].count() < arrivals[i].count() + work)
      work += service[i + count++].count();
    squares += static_cast<double>(count * count);
    i += count;
  }
  CHECK(busy_period_requests(arrivals, service) == doctest::Approx(squares / 60));
  CHECK(squares > 60);
}

TEST_CASE("over many seeds every request is drawn equally often") {
  const std::vector<RequestSpec> of = trace(40);
  std::map<std::size_t, int> times;
  constexpr int seeds = 2'000;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed)
    for (const RequestSpec& request : drawn(of, {.block = 4}, seed)) ++times[place(request)];
  for (std::size_t i = 0; i < of.size(); ++i) CHECK(times[i] == doctest::Approx(seeds).epsilon(0.08));
}

TEST_CASE("new arrivals keep the requests, and on average the trace's rate and burstiness") {
  const std::vector<RequestSpec> of = trace(400);
  const WorkloadTotals wanted = totals(of);
  double span = 0, cv = 0;
  constexpr int seeds = 300;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const std::vector<RequestSpec> again = drawn(of, {Resampling::Kind::arrivals}, seed);
    for (std::size_t i = 0; i < again.size(); ++i) CHECK(place(again[i]) == i);
    const WorkloadTotals sum = totals(again);
    span += sum.span.count() / seeds;
    cv += sum.gap_cv / seeds;
  }
  CHECK(span == doctest::Approx(wanted.span.count()).epsilon(0.03));
  CHECK(cv == doctest::Approx(wanted.gap_cv).epsilon(0.05));
  // All at once stays all at once, even gaps stay even.
  std::vector<RequestSpec> even = trace(5);
  for (std::size_t i = 0; i < even.size(); ++i) even[i].arrival = Seconds{2.0 * static_cast<double>(i)};
  CHECK(drawn(even, {Resampling::Kind::arrivals}, 1) == even);
  for (RequestSpec& request : even) request.arrival = Seconds{0};
  CHECK(drawn(even, {Resampling::Kind::arrivals}, 1) == even);
}

TEST_CASE("seeds are read as they are written, each once") {
  using Seeds = std::vector<std::uint64_t>;
  CHECK(*parse_seeds("7") == Seeds{7});
  CHECK(*parse_seeds("1..4") == Seeds{1, 2, 3, 4});
  CHECK(*parse_seeds("1,2,5") == Seeds{1, 2, 5});
  CHECK(*parse_seeds("9,1..3") == Seeds{9, 1, 2, 3});
  CHECK(*parse_seeds("3..3") == Seeds{3});
  CHECK(parse_seeds("1..10000")->size() == 10'000);
  for (const char* text : {"1..20", "1,2,5", "9,1..3", "0", "1,2", "4..7,9..11,13"})
    CHECK(seeds_text(*parse_seeds(text)) == text);
  for (const char* text : {"", ",", "1,", "x", "-1", "1..", "..3", "1...3", "1..2..3", " 1", "1.5", "1..x",
                           "99999999999999999999", "18446744073709551615"}) {
    CAPTURE(text);
    REQUIRE(!parse_seeds(text));
    CHECK(parse_seeds(text).error().line().find("--seeds: '") == 0);
    CHECK(parse_seeds(text).error().line().find("is no seed; expected whole numbers such as 1,2,5") !=
          std::string::npos);
  }
  CHECK(parse_seeds("5..1").error().what.find("runs backwards") != std::string::npos);
  CHECK(parse_seeds("1..3,2").error().what == "seed 2 is named twice");
  CHECK(parse_seeds("1..10001").error().what == "there are too many");
  CHECK(parse_seeds("0..9223372036854775807").error().what == "there are too many");
}
