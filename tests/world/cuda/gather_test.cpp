// SPDX-License-Identifier: Apache-2.0
// gather_below: the cheapest split of sizes, despite noise.
#include "sluice/core/random.hpp"
#include "sluice/world/cuda/gather.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

using namespace sluice;

namespace {

/// Sizes from 4 KiB to 1 MiB; with each method a copy costs a constant, plus its bytes at a rate.
std::vector<GatherTimes> times_of(double driver_s, double kernel_s, double kernel_rate, Random* noise = nullptr) {
  const auto factor = [noise] { return noise == nullptr ? 1.0 : 0.9 + 0.2 * noise->uniform(); };
  std::vector<GatherTimes> times;
  for (std::int64_t bytes = 4 << 10; bytes <= 1 << 20; bytes *= 2) {
    const double moved = static_cast<double>(bytes) / 50e9;
    times.push_back({bytes, (driver_s + moved) * factor(), (kernel_s + moved / kernel_rate) * factor()});
  }
  return times;
}
/// A threshold's cost over all sizes: the product, over the sizes, of the chosen method's time over the faster
/// method's.
double cost(const std::vector<GatherTimes>& times, std::int64_t below) {
  double all = 1;
  for (const GatherTimes& one : times)
    all *= (one.bytes < below ? one.by_kernel_s : one.by_driver_s) / std::min(one.by_kernel_s, one.by_driver_s);
  return all;
}

} // namespace

TEST_CASE("a kernel that is never faster gets no size, and one that always is gets the measured sizes only") {
  CHECK(gather_below({}) == 0);
  CHECK(gather_below(times_of(1e-6, 2e-6, 0.9)) == 0);
  CHECK(gather_below(times_of(1e-6, 1e-6, 1)) == 0); // equally fast: copy engines take no SM
  CHECK(gather_below(times_of(9e-5, 1e-7, 1)) == (1 << 20) + 1);
}

TEST_CASE("the threshold is where the driver becomes as fast, and noise costs little") {
  // 2 us per copy against 0.2 us, at nine tenths of the rate: equal when a ninth of the bytes' time is 1.8 us.
  const std::vector<GatherTimes> plain = times_of(2e-6, 0.2e-6, 0.9);
  const std::int64_t below = gather_below(plain);
  for (const GatherTimes& one : plain) {
    if (one.bytes < below) CHECK(one.by_kernel_s < one.by_driver_s);
    if (one.bytes >= below) CHECK(1.05 * one.by_kernel_s >= one.by_driver_s);
  }
  CHECK(below > 4 << 10);
  CHECK(below <= 1 << 20);
  Random random(7);
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    const double driver = 4e-6 * random.uniform(), kernel = 1e-6 * random.uniform(),
                 rate = 0.7 + 0.3 * random.uniform();
    const std::vector<GatherTimes> truth = times_of(driver, kernel, rate);
    const std::int64_t found = gather_below(times_of(driver, kernel, rate, &random));
    double best = cost(truth, 0);
    for (const GatherTimes& one : truth) best = std::min(best, cost(truth, one.bytes + 1));
    CHECK(cost(truth, found) < 1.7 * best); // for nine sizes, each of which may cost 5 % to spare the SMs
  }
}

TEST_CASE("one disturbed measurement moves the threshold little") {
  const std::vector<GatherTimes> plain = times_of(2e-6, 0.2e-6, 0.8);
  const std::int64_t below = gather_below(plain);
  for (std::size_t at = 0; at < plain.size(); ++at) {
    CAPTURE(at);
    std::vector<GatherTimes> times = plain;
    times[at].by_kernel_s = times[at].by_driver_s * 1.5;
    CHECK(cost(plain, gather_below(times)) < 1.5 * cost(plain, below));
  }
}
