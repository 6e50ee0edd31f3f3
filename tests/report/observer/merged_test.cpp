// SPDX-License-Identifier: Apache-2.0
// merged: two engines' summaries equal one engine's that served both, in all values that do not depend on order.
#include "sluice/core/random.hpp"
#include "sluice/report/observer/measure.hpp"
#include "sluice/report/observer/summary.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <vector>

using namespace sluice;

TEST_CASE("merged summaries measure the same as one summary of all events") {
  Random random{5};
  for (int trial = 0; trial < 200; ++trial) {
    std::array<Summary::State, 2> parts;
    Summary::State one;
    const Summary observer;
    std::uint32_t ids[3] = {0, 0, 0};
    for (int i = 0; i < 40; ++i) {
      const std::size_t which = random.below(2);
      RequestSpec spec;
      spec.arrival = Seconds{10 * random.uniform()};
      spec.output = Tokens{static_cast<std::int64_t>(1 + random.below(5))};
      spec.slo = {Seconds{1 + random.uniform()}, Seconds{0.1 + random.uniform()}};
      const auto tell = [&](Summary::State& state, std::uint32_t id, Random same) {
        if (i % 7 == 0) {
          observer.on(state, events::Refused{RequestId{id}, spec, spec.arrival, i % 2 == 0 ? "too long" : "too late"});
          return;
        }
        RequestRow row;
        row.id = RequestId{id};
        row.spec = spec;
        observer.on(state, events::Submitted{row});
        Seconds now = spec.arrival;
        for (std::int64_t token = 0; token < spec.output.count(); ++token) {
          now += Seconds{same.uniform()};
          row.generated += Tokens{1};
          row.delivered += Tokens{1};
          observer.on(state, events::Delivered{row, Tokens{1}, now});
        }
        observer.on(state, events::Ended{row, now});
      };
      const Random same = random;
      tell(parts[which], ids[which]++, same);
      tell(one, ids[2]++, same);
    }
    for (Summary::State* state : {&parts[0], &parts[1], &one}) state->layer_block_bytes = Bytes{4096};
    parts[0].to_device = LayerBlocks{10};
    parts[1].to_device = LayerBlocks{32};
    one.to_device = LayerBlocks{42};
    const std::array<const Summary::State*, 2> both{&parts[0], &parts[1]};
    const Summary::State all = merged(both);
    REQUIRE(all.requests.size() == one.requests.size());
    const Metrics got = measure(all, Seconds{100});
    const Metrics expected = measure(one, Seconds{100});
    CHECK(got.tbt_attainment == expected.tbt_attainment);
    CHECK(got.ttft_attainment == expected.ttft_attainment);
    CHECK(got.p99_tbt_s == expected.p99_tbt_s);
    CHECK(got.p50_ttft_s == expected.p50_ttft_s);
    CHECK(got.mean_e2e_s == doctest::Approx(expected.mean_e2e_s));
    CHECK(got.served == expected.served);
    CHECK(got.refused == expected.refused);
    CHECK(got.bytes_moved == expected.bytes_moved);
    for (const RequestRecord& request : all.requests)
      if (request.outcome == Outcome::refused) CHECK(request.reason < static_cast<std::int32_t>(all.reasons.size()));
  }
}
