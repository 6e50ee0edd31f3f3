// SPDX-License-Identifier: Apache-2.0
#include "sluice/core/random.hpp"
#include "sluice/serve/served_requests.hpp"
#include "sluice/serve/slo_attainment.hpp"
#include "sluice/workload/nlohmann/vllm_run.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

using namespace sluice;

TEST_CASE("write_request's lines, in order of ends, are a trace with every request, its lengths and its SLO") {
  constexpr double never = std::numeric_limits<double>::infinity();
  Random random(11);
  std::vector<ServedRequest> all;
  for (std::uint32_t i = 0; i < 300; ++i) {
    ServedRequest one;
    one.id = RequestId{i};
    one.spec.arrival = Seconds{3.0 + 0.1 * i + 0.05 * random.uniform()};
    one.spec.prompt = Tokens{1 + static_cast<std::int64_t>(random.below(1000))};
    one.spec.output = Tokens{500};
    one.spec.session = static_cast<std::uint32_t>(random.below(3));
    one.spec.turn = one.spec.session == 0 ? 0 : static_cast<std::int32_t>(random.below(5));
    one.spec.priority = static_cast<std::int32_t>(i % 4) - 1;
    if (i % 3 == 0) one.spec.hints = {.ttl = Seconds{0.1 + random.uniform()}, .keep = static_cast<std::int32_t>(i)};
    one.spec.hints.release = i % 5 == 1 && i % 3 != 0;
    const Slo asked{Seconds{random.below(3) == 0 ? never : 0.5 + random.uniform()},
                    Seconds{random.below(3) == 0 ? never : 0.05 + random.uniform()}};
    const SloLead lead{Seconds{0.1 * random.uniform()}, Seconds{0.01 * random.uniform()}};
    one.spec.slo = random.below(2) == 0 ? asked : ahead_of(asked, lead);
    one.kept = {.slo = asked, .arrival = one.spec.arrival};
    one.generated = Tokens{static_cast<std::int64_t>(random.below(50))};
    Seconds now = one.spec.arrival + Seconds{random.uniform()};
    if (random.below(4) > 0)
      one.scheduled = one.spec.arrival + Seconds{0.5 * random.uniform()};
    else
      one.scheduled = Seconds{-1};
    for (std::int64_t token = 0; token < one.generated.count(); ++token) {
      (void)one.kept.release(1, now);
      now += Seconds{0.1 * random.uniform()};
    }
    one.ended = now;
    one.cancelled = one.generated.count() == 0;
    if (i % 7 == 2) one.submitted = one.spec.arrival + Seconds{0.3}; // a gate held it
    all.push_back(one);
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.ended < b.ended; });
  std::string text;
  for (const ServedRequest& one : all) write_request(text, one);
  VllmRunReader reader(LineReader(std::make_unique<std::istringstream>(text), "record"));
  const auto requests = read_all(reader);
  REQUIRE_MESSAGE(requests, (requests ? "" : requests.error().line()));
  REQUIRE(requests->size() == all.size());
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return index(a.id) < index(b.id); });
  for (std::size_t i = 0; i < all.size(); ++i) {
    const RequestSpec& read = (*requests)[i];
    CHECK(read.arrival.count() == doctest::Approx((all[i].spec.arrival - all[0].spec.arrival).count()));
    CHECK(read.prompt == all[i].spec.prompt);
    CHECK(read.output == std::max(Tokens{1}, all[i].generated));
    CHECK(read.slo == all[i].kept.slo); // to the bit
    CHECK(read.session == all[i].spec.session);
    CHECK(read.turn == all[i].spec.turn);
    CHECK(read.priority == all[i].spec.priority);
    CHECK(read.hints == all[i].spec.hints);
  }
  // For a replay: what the engine was given.
  VllmRunReader again(LineReader(std::make_unique<std::istringstream>(text), "record"));
  for (const ServedRequest& one : all) {
    const VllmRunRecord record = **again.next_record();
    CHECK(record.engine_slo == one.spec.slo);
    CHECK(record.submitted == (one.submitted.count() >= 0 ? one.submitted : one.spec.arrival));
  }
}
