// SPDX-License-Identifier: Apache-2.0
#include "sluice/workload/generator.hpp"
#include "sluice/workload/workload.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

using namespace sluice;

namespace {

std::vector<RequestSpec> generate(const GeneratorSpec& spec, std::uint64_t seed) {
  Generator generator(spec, seed);
  const auto requests = read_all(generator);
  REQUIRE(requests);
  return *requests;
}
std::vector<RequestSpec> generate(const std::string& text, std::uint64_t seed) {
  const auto spec = parse_generator(text);
  if (!spec) FAIL(spec.error().line());
  return generate(*spec, seed);
}

struct Moments {
  double mean = 0.0;
  double cv = 0.0;
};
template <class Draw>
Moments moments_of(int draws, Draw draw) {
  double sum = 0.0;
  double squares = 0.0;
  for (int i = 0; i < draws; ++i) {
    const double value = draw();
    sum += value;
    squares += value * value;
  }
  const double mean = sum / draws;
  return {mean, std::sqrt(squares / draws - mean * mean) / mean};
}

} // namespace

TEST_CASE("gaps have the specified mean and CV") {
  constexpr int draws = 200'000;
  const double root = std::sqrt(static_cast<double>(draws));
  for (const ArrivalKind kind : {ArrivalKind::poisson, ArrivalKind::gamma, ArrivalKind::lognormal}) {
    for (const double cv : {0.25, 0.7, 1.0, 1.4, 2.0}) {
      if (kind == ArrivalKind::poisson && cv != 1.0) continue;
      const ArrivalProcess arrivals{kind, 3.0, cv};
      Random random(11);
      const Moments moments = moments_of(draws, [&] { return draw_gap(random, arrivals); });
      CAPTURE(static_cast<int>(kind));
      CAPTURE(cv);
      // Five standard errors of the mean; of the CV a bound from the heaviest tail here (lognormal, CV 2: its fourth
      // moment is (1 + cv^2)^6, so the sample's deviation scatters by some 20 % of itself per hundred thousand draws).
      CHECK(std::fabs(moments.mean - 1.0 / 3.0) <= 5.0 * cv / 3.0 / root);
      CHECK(moments.cv == doctest::Approx(cv).epsilon(kind == ArrivalKind::lognormal && cv > 1.0 ? 0.15 : 0.02));
    }
  }
  Random random(1);
  CHECK(draw_gap(random, {ArrivalKind::even, 4.0, 1.0}) == 0.25);
}

TEST_CASE("gamma draws have the distribution's third moment and its tail") {
  // Skewness of a gamma is 2 / sqrt(shape): mean and variance alone would not distinguish it from a lognormal.
  for (const double shape : {0.3, 1.0, 4.0}) {
    constexpr int draws = 400'000;
    Random random(5);
    double sum = 0.0, squares = 0.0, cubes = 0.0, above = 0.0;
    for (int i = 0; i < draws; ++i) {
      const double value = draw_gamma(random, shape) - shape;
      sum += value;
      squares += value * value;
      cubes += value * value * value;
      above += value > 0.0;
    }
    const double variance = squares / draws - (sum / draws) * (sum / draws);
    CAPTURE(shape);
    CHECK(variance == doctest::Approx(shape).epsilon(0.03));
    CHECK(cubes / draws / std::pow(variance, 1.5) == doctest::Approx(2.0 / std::sqrt(shape)).epsilon(0.06));
    if (shape == 1.0) CHECK(above / draws == doctest::Approx(std::exp(-1.0)).epsilon(0.01)); // an exponential
  }
}

TEST_CASE("normal draws are symmetric and of unit variance, exponential ones memoryless") {
  constexpr int draws = 400'000;
  Random random(3);
  double sum = 0.0, squares = 0.0, within = 0.0;
  for (int i = 0; i < draws; ++i) {
    const double value = draw_normal(random);
    sum += value;
    squares += value * value;
    within += std::fabs(value) < 1.0;
  }
  CHECK(std::fabs(sum / draws) < 5.0 / std::sqrt(static_cast<double>(draws)));
  CHECK(squares / draws == doctest::Approx(1.0).epsilon(0.01));
  CHECK(within / draws == doctest::Approx(std::erf(1.0 / std::sqrt(2.0))).epsilon(0.005));
  double beyond_one = 0.0, beyond_two = 0.0;
  for (int i = 0; i < draws; ++i) {
    const double value = draw_exponential(random);
    beyond_one += value > 1.0;
    beyond_two += value > 2.0;
  }
  CHECK(beyond_two / beyond_one == doctest::Approx(beyond_one / draws).epsilon(0.02));
}

TEST_CASE("lengths have the specified mean, spread and range") {
  constexpr int draws = 100'000;
  const Tokens longest{131'072};
  for (const double cv : {0.3, 1.0}) {
    Random random(7);
    const LengthDistribution lengths = LognormalLength{1000.0, cv};
    const Moments moments =
        moments_of(draws, [&] { return static_cast<double>(draw_length(random, lengths, longest).count()); });
    CHECK(moments.mean == doctest::Approx(1000.0).epsilon(0.02));
    CHECK(moments.cv == doctest::Approx(cv).epsilon(0.05));
  }
  Random random(7);
  const LengthDistribution bins = BinnedLength{{{1.0, {Tokens{1}, Tokens{2}}}, {3.0, {Tokens{10}, Tokens{10}}}}};
  int low = 0, ones = 0;
  for (int i = 0; i < draws; ++i) {
    const std::int64_t length = draw_length(random, bins, longest).count();
    REQUIRE((length == 1 || length == 2 || length == 10));
    low += length < 10;
    ones += length == 1;
  }
  CHECK(static_cast<double>(low) / draws == doctest::Approx(0.25).epsilon(0.03));
  CHECK(static_cast<double>(ones) / low == doctest::Approx(0.5).epsilon(0.03));
}

TEST_CASE("no length exceeds its range, however the distribution is truncated") {
  for (const double mean : {1.0, 8.0, 100.0}) {
    Random random(9);
    const LengthDistribution lengths = LognormalLength{mean, 10.0};
    for (int i = 0; i < 10'000; ++i) {
      const Tokens length = draw_length(random, lengths, Tokens{100});
      REQUIRE(length >= Tokens{1});
      REQUIRE(length <= Tokens{100});
    }
  }
}

TEST_CASE("a workload is sorted, starts at zero, and depends only on the seed") {
  for (const char* text : {"demo", "sharegpt", "leval", "sharegpt:cv=2,requests=1000",
                           "lognormal:rate=3,cv=0.5,requests=500,prompt=7,output=uniform(3,9)"}) {
    const auto requests = generate(text, 42);
    CAPTURE(text);
    CHECK(requests.front().arrival == Seconds{0});
    CHECK(std::is_sorted(requests.begin(), requests.end(),
                         [](const RequestSpec& a, const RequestSpec& b) { return a.arrival < b.arrival; }));
    CHECK(requests == generate(text, 42));
    CHECK(requests != generate(text, 43));
  }
}

TEST_CASE("a seed gives these requests on every platform") {
  // Pinned once from this code: a change of Random, of a transform or of the order of draws must show here.
  const auto requests = generate("gamma:rate=1,cv=2,requests=4,prompt=lognormal(1000,1),output=uniform(1,1000)", 1);
  std::vector<std::vector<std::int64_t>> seen;
  for (const RequestSpec& request : requests) {
    seen.push_back({std::llround(request.arrival.count() * 1e6), request.prompt.count(), request.output.count()});
  }
  CHECK(seen == std::vector<std::vector<std::int64_t>>{
                    {0, 972, 624}, {362583, 345, 75}, {1136578, 660, 339}, {1434669, 1541, 214}});
}

TEST_CASE("the rate scales arrivals and nothing else") {
  const auto slow = generate("sharegpt:rate=1", 4);
  const auto fast = generate("sharegpt:rate=4", 4);
  REQUIRE(slow.size() == fast.size());
  for (std::size_t i = 0; i < slow.size(); ++i) {
    CHECK(slow[i].prompt == fast[i].prompt);
    CHECK(slow[i].output == fast[i].output);
    // Each gap is rounded to a microsecond.
    CHECK(std::fabs(slow[i].arrival.count() - 4.0 * fast[i].arrival.count()) <= 2.5e-6 * static_cast<double>(i));
  }
}

TEST_CASE("the presets have the papers' averages") {
  const struct {
    const char* text;
    double prompt;
    double output;
  } rows[] = {{"sharegpt:requests=100000", 222, 1346}, {"leval:requests=100000", 35956, 5189}}; // eLLM, section 6.1
  for (const auto& row : rows) {
    const WorkloadTotals sum = totals(generate(row.text, 1));
    CHECK(static_cast<double>(sum.prompt.count()) / 1e5 == doctest::Approx(row.prompt).epsilon(0.02));
    CHECK(static_cast<double>(sum.output.count()) / 1e5 == doctest::Approx(row.output).epsilon(0.02));
  }
}

TEST_CASE("the demo's KV cache exceeds its server's memory") {
  // Four consecutive requests at their full lengths exceed the budget most of the time.
  const auto requests = generate("demo", 1);
  int over = 0, windows = 0;
  for (std::size_t i = 0; i + demo_batch <= requests.size(); ++i, ++windows) {
    TokenBlocks blocks{0};
    for (std::size_t j = i; j < i + demo_batch; ++j) {
      blocks += blocks_for(requests[j].prompt + requests[j].output, Tokens{16});
    }
    over += blocks > demo_budget;
  }
  CHECK(over > windows / 2);
  for (const RequestSpec& request : requests) { // and every one of them fits alone
    CHECK(blocks_for(request.prompt + request.output, Tokens{16}) <= demo_budget);
  }
}

TEST_CASE("specs that parse") {
  const auto spec = parse_generator(
      "poisson:rate=2,requests=200,prompt=lognormal(1024,1.0),output=bins(0.5:1-9;2:512-512),longest=4096");
  if (!spec) FAIL(spec.error().line());
  CHECK(spec->arrivals == ArrivalProcess{ArrivalKind::poisson, 2.0, 1.0});
  CHECK(spec->requests == 200);
  CHECK(spec->longest == Tokens{4096});
  CHECK(spec->prompt == LengthDistribution{LognormalLength{1024.0, 1.0}});
  CHECK(spec->output ==
        LengthDistribution{BinnedLength{{{0.5, {Tokens{1}, Tokens{9}}}, {2.0, {Tokens{512}, Tokens{512}}}}}});
  const auto burst = parse_generator("sharegpt:rate=1.5,requests=300,cv=2");
  REQUIRE(burst);
  CHECK(burst->arrivals == ArrivalProcess{ArrivalKind::gamma, 1.5, 2.0});
  CHECK(burst->prompt == sharegpt_like().prompt);
}

TEST_CASE("a spec that does not parse gives an error with the reason") {
  const struct {
    const char* text;
    const char* says;
  } rows[] = {
      {"", "no generator ''"},
      {"weibull", "no generator 'weibull'"},
      {"demo:", "'' has no value"},
      {"demo:rate", "'rate' has no value"},
      {"demo:rate=1,,cv=1", "'' has no value"},
      {"demo:rates=1", "no key 'rates'"},
      {"demo:rate=1,rate=2", "rate appears twice"},
      {"demo:rate=-1", "the rate is -1"},
      {"poisson:rate=-1", "the rate is -1"},
      {"demo:rate=0", "the rate is 0"},
      {"demo:rate=nan", "rate is 'nan'"},
      {"demo:rate=inf", "rate is 'inf'"},
      {"demo:rate=1e300", "the rate is 1"},
      {"demo:rate=1x", "rate is '1x'"},
      {"demo:requests=0", "requests is 0"},
      {"demo:requests=-5", "requests is -5"},
      {"demo:requests=1.5", "requests is '1.5'"},
      {"demo:requests=99999999999999999999", "requests is '9999"},
      {"demo:cv=0", "CV of the arrivals is 0"},
      {"demo:longest=0", "longest length is 0"},
      {"demo:longest=1000", "the lengths are"},
      {"sharegpt:longest=100", "the mean length is 222"},
      {"demo:prompt=0", "the lengths are 0 to 0"},
      {"demo:prompt=-3", "the lengths are -3"},
      {"demo:prompt=many", "prompt is 'many'"},
      {"demo:prompt=normal(1,2)", "prompt is 'normal(1,2)'"},
      {"demo:prompt=uniform(9,3)", "the lengths are 9 to 3"},
      {"demo:prompt=uniform(9)", "prompt is 'uniform(9)'"},
      {"demo:prompt=uniform(1,2", "lacks the closing"},
      {"demo:prompt=lognormal(1024,nan)", "prompt is 'nan'"},
      {"demo:prompt=lognormal(1024,-1)", "CV of the lengths is -1"},
      {"demo:prompt=lognormal(0,1)", "mean length is 0"},
      {"demo:prompt=bins()", "the bin ''"},
      {"demo:prompt=bins(1:5)", "the bin '1:5'"},
      {"demo:prompt=bins(0:5-6)", "the weight of a bin is 0"},
      {"poisson", "rate is missing"},
      {"poisson:rate=1,requests=2,prompt=3", "output is missing"},
      {"poisson:rate=1,cv=2,requests=2,prompt=3,output=4", "no cv to choose"},
      {"gamma:rate=1,requests=2,prompt=3,output=4", "cv is missing"},
  };
  for (const auto& row : rows) {
    const auto spec = parse_generator(row.text);
    CAPTURE(row.text);
    REQUIRE(!spec);
    const std::string line = spec.error().line();
    CAPTURE(line);
    CHECK(line.rfind("--generate", 0) == 0);
    CHECK(line.find(row.says) != std::string::npos);
    CHECK(line.find('\n') == std::string::npos);
    CHECK(!spec.error().expected.empty());
  }
}
