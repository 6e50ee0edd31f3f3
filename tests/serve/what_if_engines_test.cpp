// SPDX-License-Identifier: Apache-2.0
#include "sluice/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/serve/what_if_engines.hpp"
#include "sluice/systems/one_at_a_time.hpp"
#include "sluice/systems/vllm.hpp"

#include "serve/what_if_answered.hpp"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

using namespace sluice;
using nlohmann::json;
using sluice::testing::answered;

namespace {

Server machine(std::int64_t kv_blocks) {
  Limits limits;
  limits.batch = 16;
  limits.max_context = Tokens{4096};
  return {llama3_8b(), *find_device("h100"), TokenBlocks{kv_blocks}, limits};
}

/// What VllmSwap makes of requests that come faster than one at a time could serve, as its server would have noted.
void serve_some(ServedRequests& served, const Server& server) {
  std::vector<RequestSpec> requests;
  for (int i = 0; i < 40; ++i) {
    RequestSpec spec;
    spec.arrival = Seconds{0.05 * i};
    spec.prompt = Tokens{100 + 10 * (i % 7)};
    spec.output = Tokens{60};
    spec.slo = {Seconds{0.5}, Seconds{0.05}};
    requests.push_back(spec);
  }
  struct Notes final : FeedListener {
    explicit Notes(ServedRequests& to) : served(to) {}
    void released(const RequestRow& row, Tokens count, Seconds when) override {
      kept.resize(40);
      KeptPromises& one = kept.at(index(row.id));
      one.slo = row.spec.slo;
      one.arrival = row.spec.arrival;
      one.release(count.count(), when);
    }
    void ended(const RequestRow& row, Seconds now) override {
      served.over({row.id, row.spec, row.generated, kept.at(index(row.id)), Seconds{-1}, now, false});
    }
    void refused(RequestId, std::string_view) override {}
    void cancelled(const RequestRow&, Seconds) override {}
    void preempted(const RequestRow&, Kept, Seconds) override {}
    void resumed(const RequestRow&, Seconds) override {}
    void planned(const View&, const Plan&, Seconds) override {}
    void iterated(const IterationRecord&) override {}
    ServedRequests& served;
    std::vector<KeptPromises> kept;
  } notes(served);
  const WhatIfSystem own = what_if_system<VllmSwap>(server, "VllmSwap");
  REQUIRE(own.replay(requests, notes, [] { return false; }));
  REQUIRE(served.total() == 40);
}

} // namespace

TEST_CASE("WhatIf: what was simulated is simulated alike again, and a system that is known to be worse is") {
  const Server server = machine(400);
  WhatIf<OneAtATime> what_if({server, what_if_system<VllmSwap>(server, "VllmSwap")});
  serve_some(what_if.served(), server);
  const json answer = answered(what_if);
  REQUIRE(answer["simulated"].size() == 2);
  const json &own = answer["simulated"][0], &control = answer["simulated"][1];
  CHECK(own["state"] == "done");
  CHECK(own["system"] == "VllmSwap");
  for (const char* figure : {"met", "slo_attainment", "ttft_attainment", "tbt_attainment"}) {
    INFO(figure);
    CHECK(own[figure] == answer["served"][figure]); // it was served in this very simulation
  }
  CHECK(own["slo_attainment"] == 1);
  CHECK(control["state"] == "done");
  CHECK(control["requests"] == 40);
  CHECK(control["slo_attainment"].get<double>() < 0.5); // 2 s of arrivals take it several times that
  CHECK(control["system"].get<std::string>().find("Engine<") == 0);

  WhatIf<OneAtATime> again({server, what_if_system<VllmSwap>(server, "VllmSwap")});
  serve_some(again.served(), server);
  json second = answered(again), first = answer;
  for (json* one : {&first, &second}) {
    one->erase("age_s");
    for (json& system : (*one)["simulated"]) system.erase("processor_s");
  }
  CHECK(first == second);
  again.stop();
}
