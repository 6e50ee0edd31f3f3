// SPDX-License-Identifier: Apache-2.0
#include "sluice/engine/systems/other_admissions.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/serve/served_requests.hpp"
#include "sluice/serve/what_if.hpp"
#include "sluice/serve/what_if_engines.hpp"

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

/// Adds requests served by VllmSwap, as its server records them; they arrive faster than OneAtATime can serve.
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
  struct Notes final : EventListener {
    explicit Notes(ServedRequests& to) : served(to) {}
    void hear(const AnyEvent& event) override {
      if (const auto* delivered = event.get<events::Delivered>()) {
        const RequestRow& row = delivered->row;
        kept.resize(40);
        SloAttainment& one = kept.at(index(row.id));
        one.slo = row.spec.slo;
        one.arrival = row.spec.arrival;
        one.release(delivered->count.count(), delivered->when);
      }
      if (const auto* ended = event.get<events::Ended>()) {
        const RequestRow& row = ended->row;
        served.over({row.id, row.spec.whole(not_a_policy), row.generated, kept.at(index(row.id)), Seconds{-1},
                     ended->now, false});
      }
    }
    ServedRequests& served;
    std::vector<SloAttainment> kept;
  } notes(served);
  const WhatIfSystem own = what_if_system<VllmSwap>(server, "VllmSwap");
  REQUIRE(own.replay(requests, notes, [] { return false; }));
  REQUIRE(served.total() == 40);
}

} // namespace

TEST_CASE("what_if_system: a replay is repeatable, and a system known to be worse attains less") {
  const Server server = machine(400);
  const std::vector<WhatIfSystem> systems{what_if_system<VllmSwap>(server, "VllmSwap"),
                                          what_if_system<OneAtATime>(server)};
  ServedRequests served;
  WhatIfThread what_if(served, systems);
  serve_some(served, server);
  const json answer = answered(what_if);
  REQUIRE(answer["simulated"].size() == 2);
  const json &own = answer["simulated"][0], &control = answer["simulated"][1];
  CHECK(own["state"] == "done");
  CHECK(own["system"] == "VllmSwap");
  for (const char* figure : {"met", "slo_attainment", "ttft_attainment", "tbt_attainment"}) {
    INFO(figure);
    CHECK(own[figure] == answer["served"][figure]); // the requests were served in this same simulation
  }
  CHECK(own["slo_attainment"] == 1);
  CHECK(control["state"] == "done");
  CHECK(control["requests"] == 40);
  CHECK(control["slo_attainment"].get<double>() < 0.5); // it takes several times the 2 s of arrivals
  CHECK(control["system"].get<std::string>().find("Engine<") == 0);

  ServedRequests served_again;
  WhatIfThread again(served_again, systems);
  serve_some(served_again, server);
  json second = answered(again), first = answer;
  for (json* one : {&first, &second}) {
    one->erase("age_s");
    for (json& system : (*one)["simulated"]) system.erase("processor_s");
  }
  CHECK(first == second);
  again.stop();
}
