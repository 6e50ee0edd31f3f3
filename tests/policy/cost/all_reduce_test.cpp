// SPDX-License-Identifier: Apache-2.0
// AllReduce: the ring's formula against a ring run step by step, and measured all-reduces.
#include "sluice/core/random.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/policy/cost/measured_grid.hpp"
#include "sluice/policy/cost/read_served_tables.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

using namespace sluice;

namespace {

struct Ring {
  double ends_s = 0;
  double sent_bytes = 0; ///< by each device
  bool summed = false;   ///< every device has every part's sum
};

/// Devices that hold numbers and send parts to their right neighbour, each part once the device has received its
/// summand; a device sends one part at a time.
Ring run_ring(const PeerLink& link, int devices, double bytes, Random& random) {
  const auto n = static_cast<std::size_t>(devices);
  std::vector<std::vector<double>> held(n, std::vector<double>(n));
  std::vector<double> sums(n, 0.0);
  for (auto& device : held)
    for (std::size_t part = 0; part < n; ++part) sums[part] += device[part] = static_cast<double>(random.below(1000));
  std::vector<double> ready(n, link.launch.count()); // when a device has the part that it sends next
  std::vector<double> sender_free(n, link.launch.count());
  Ring ring;
  for (std::size_t step = 0; step < 2 * (n - 1); ++step) {
    const bool adding = step < n - 1;
    std::vector<std::pair<std::size_t, double>> arrived(n); // part and value, by receiver
    std::vector<double> arrives(n);
    for (std::size_t d = 0; d < n; ++d) {
      // To sum, each device starts with its own part; to distribute, with the part whose sum it completed.
      const std::size_t sent = adding ? (d + n - step) % n : (d + n - (step - (n - 1)) + 1) % n;
      const double begins = std::max(ready[d], sender_free[d]);
      sender_free[d] = begins + bytes / devices / link.rate.count();
      arrives[(d + 1) % n] = sender_free[d] + link.step.count();
      arrived[(d + 1) % n] = {sent, held[d][sent]};
    }
    for (std::size_t d = 0; d < n; ++d) {
      double& place = held[d][arrived[d].first];
      place = adding ? place + arrived[d].second : arrived[d].second;
      ready[d] = arrives[d];
      ring.ends_s = std::max(ring.ends_s, arrives[d]);
    }
    ring.sent_bytes += bytes / devices;
  }
  ring.summed =
      std::all_of(held.begin(), held.end(), [&](const std::vector<double>& device) { return device == sums; });
  return ring;
}

Expected<MeasuredLine> read(const std::string& text) {
  return read_all_reduce(LineReader{std::make_unique<std::istringstream>(text), "reduces.csv"});
}

} // namespace

TEST_CASE("an all-reduce takes as long, and sends as much, as a ring run step by step") {
  Random random{5};
  for (int trial = 0; trial < 300; ++trial) {
    const int devices = 2 + static_cast<int>(random.below(15));
    const PeerLink link{PeerPath::own, BytesPerSecond{1e9 + 1e11 * random.uniform()}, Seconds{5e-6 * random.uniform()},
                        Seconds{2e-5 * random.uniform()}};
    const double bytes = 1 + 1e8 * random.uniform() * random.uniform();
    const Ring ring = run_ring(link, devices, bytes, random);
    CHECK(ring.summed);
    const AllReduce all_reduce{link, devices};
    CHECK(all_reduce.seconds(bytes).count() == doctest::Approx(ring.ends_s).epsilon(1e-9));
    CHECK(ring.sent_bytes == doctest::Approx(2.0 * (devices - 1) / devices * bytes));
    // Distributing is half of it.
    CHECK((all_reduce.gather_seconds(bytes) - link.launch).count() * 2 ==
          doctest::Approx((all_reduce.seconds(bytes) - link.launch).count()));
    // At least the bytes at the rate, which is the limit for large messages.
    CHECK(all_reduce.seconds(bytes).count() > ring.sent_bytes / link.rate.count());
    CHECK(all_reduce.seconds(1e15).count() ==
          doctest::Approx(2.0 * (devices - 1) / devices * 1e15 / link.rate.count()).epsilon(1e-3));
  }
}

TEST_CASE("a group of one and an empty message take no time; longer messages take longer") {
  CHECK(AllReduce{}.seconds(1e9) == Seconds{0});
  CHECK((AllReduce{*h100().peer, 1}.seconds(1e9) == Seconds{0}));
  CHECK(!AllReduce{*a100_80().peer, 1}.over_host_link());
  CHECK(AllReduce{*a100_80().peer, 2}.over_host_link());
  CHECK(!AllReduce{*h100().peer, 8}.over_host_link());
  const AllReduce all_reduce{*h100().peer, 8};
  CHECK(all_reduce.seconds(0) == Seconds{0});
  CHECK(all_reduce.gather_seconds(0) == Seconds{0});
  double before = 0;
  for (double bytes = 1; bytes < 1e10; bytes *= 3) {
    CHECK(all_reduce.seconds(bytes).count() > before);
    before = all_reduce.seconds(bytes).count();
  }
}

TEST_CASE("measured all-reduces are looked up between their points") {
  const Expected<MeasuredLine> line = read("bytes,time_us\n1024,20\n1048576,30.5\n8388608,81\n");
  REQUIRE(line);
  const AllReduce all_reduce{*line, PeerPath::host, 4};
  CHECK(all_reduce.over_host_link());
  CHECK(all_reduce.seconds(1048576).count() == doctest::Approx(30.5e-6));
  CHECK(all_reduce.seconds(1024 + (1048576 - 1024) / 2.0).count() == doctest::Approx(25.25e-6));
  CHECK(all_reduce.seconds(16).count() == doctest::Approx(20e-6)); // the smallest measured time is the least
  CHECK(all_reduce.seconds(16777216).count() > 2 * 50e-6);         // the last line continues
  CHECK(all_reduce.gather_seconds(1048576).count() == doctest::Approx(30.5e-6 / 2));
}

TEST_CASE("an error in a table of all-reduces is reported in one line") {
  const struct {
    const char* text;
    const char* says;
  } rows[] = {
      {"", "reduces.csv: the file is empty"},
      {"size,time\n", "reduces.csv:1: the header is 'size,time'"},
      {"bytes,time_us\n", "there is no row after the header"},
      {"bytes,time_us\n0,3\n", "reduces.csv:2: the row is '0,3'"},
      {"bytes,time_us\n12;3\n", "reduces.csv:2: the row is '12;3'"},
      {"bytes,time_us\n12,-3\n", "reduces.csv:2: the time is '-3'"},
      {"bytes,time_us\n12,\n", "reduces.csv:2: the time is ''"},
      {"bytes,time_us\n12,nan\n", "reduces.csv:2: the time is 'nan'"},
      {"bytes,time_us\n12,3,4\n", "reduces.csv:2: the time is '3,4'"},
      {"bytes,time_us\n12,3\n12,4\n", "reduces.csv:3: 12 bytes follow 12"},
  };
  for (const auto& row : rows) {
    const Expected<MeasuredLine> line = read(row.text);
    REQUIRE(!line);
    CAPTURE(row.text);
    CAPTURE(line.error().line());
    CHECK(line.error().line().find(row.says) != std::string::npos);
    CHECK(line.error().line().find('\n') == std::string::npos);
  }
  CHECK(!read_all_reduce(std::string{"no-such-file.csv"}));
}
