// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/what_if.hpp"

#include "serve/what_if_answered.hpp"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace sluice;
using sluice::testing::answered;
using namespace std::chrono_literals;
using nlohmann::json;

namespace {

constexpr double never = std::numeric_limits<double>::infinity();

/// A request that got a token every `gap`, the first after `first`.
ServedRequest served_request(std::uint32_t id, Slo slo, double first, double gap, int tokens) {
  ServedRequest one;
  one.id = RequestId{id};
  one.spec.arrival = Seconds{10.0 + id};
  one.spec.prompt = Tokens{20};
  one.spec.output = Tokens{500};
  one.spec.output_is_bound = true;
  one.spec.slo = slo;
  one.generated = Tokens{tokens};
  one.kept = {.slo = slo, .arrival = one.spec.arrival};
  for (int i = 0; i < tokens; ++i) one.kept.release(1, one.spec.arrival + Seconds{first + gap * i});
  one.ended = tokens > 0 ? one.kept.last : one.spec.arrival + Seconds{first};
  return one;
}

/// A system that releases every request's tokens `gap` apart, the first after `first`; refuses prompts above `most`.
WhatIfSystem paced(std::string name, double first, double gap, std::int64_t most = 1 << 20) {
  return {
      std::move(name),
      [=](std::span<const RequestSpec> requests, EventListener& judge, const std::function<bool()>& enough) -> Status {
        for (std::size_t i = 0; i < requests.size() && !enough(); ++i) {
          RequestRow row;
          row.id = RequestId{static_cast<std::uint32_t>(i)};
          row.spec = requests[i];
          if (row.spec.prompt.count() > most) {
            judge.hear(events::Refused{row.id, requests[i], row.spec.arrival, "too long"});
            continue;
          }
          Seconds now = row.spec.arrival + Seconds{first};
          for (std::int64_t token = 0; token < requests[i].output.count(); ++token) {
            judge.hear(events::Delivered{row, Tokens{1}, now});
            now += Seconds{gap};
          }
          judge.hear(events::Ended{row, now});
        }
        return {};
      }};
}

} // namespace

TEST_CASE("WhatIfThread: the same tokens at the same times have the same attainment, served or replayed") {
  const Slo slo{Seconds{0.5}, Seconds{0.1}};
  for (const auto& times : {std::pair{0.4, 0.09}, {0.6, 0.09}, {0.4, 0.11}, {0.5, 0.1}}) {
    const double first = times.first, gap = times.second;
    ServedRequests served;
    served.over(served_request(0, slo, first, gap, 5));
    WhatIfThread thread(served, {paced("same", first, gap)});
    const json answer = answered(thread);
    REQUIRE(answer["simulated"].size() == 1);
    for (const char* share : {"slo_attainment", "ttft_attainment", "tbt_attainment"}) {
      INFO(share, " ", first, " ", gap);
      CHECK(answer["served"][share] == answer["simulated"][0][share]);
    }
    CHECK(answer["served"]["slo_attainment"] == (first <= 0.5 && gap <= 0.1 ? 1 : 0));
  }
}

TEST_CASE("WhatIfThread reports a better system, next to the serving one as served and as simulated") {
  const Slo slo{Seconds{0.5}, Seconds{0.1}};
  ServedRequests served;
  for (std::uint32_t i = 0; i < 8; ++i) served.over(served_request(i, slo, i < 6 ? 0.3 : 0.9, 0.05, 10));
  WhatIfThread thread(served, {paced("Own", 0.3, 0.05), paced("Slow", 0.3, 0.2), paced("Refuses", 0.1, 0.01, 5)});
  const json answer = answered(thread);
  CHECK(answer["said"] ==
        "Slow would have met 0.0 %, Refuses 0.0 %; Own met 75.0 % (100.0 % when simulated) of 8 promised requests.");
  CHECK(answer["systems"] == json{"Own", "Slow", "Refuses"});
  CHECK(answer["served"]["met"] == 6);
  CHECK(answer["simulated"][0]["met"] == 8);
  CHECK(answer["simulated"][1]["ttft_attainment"] == 1);
  CHECK(answer["simulated"][1]["tbt_attainment"].get<double>() == doctest::Approx(0.0));
  CHECK(answer["simulated"][2]["refused"] == 8);
  CHECK(answer["simulated"][2]["slo_attainment"] == 0);
}

TEST_CASE("WhatIfThread replays nothing if no request has an SLO, and explains why there is no attainment") {
  ServedRequests served;
  WhatIfThread thread(served, {paced("Own", 0.3, 0.05)});
  CHECK(json::parse(thread.json())["said"] == "No request has ended yet.");
  served.over(served_request(0, {}, 0.3, 0.05, 10));
  const json answer = answered(thread);
  CHECK(answer["said"].get<std::string>().find("None of the 1 requests had an SLO") == 0);
  CHECK(answer["served"]["slo_attainment"].is_null());
  CHECK(answer["simulated"].empty());
}

TEST_CASE("WhatIfThread replays actual lengths; a client that left without a token counts if that token was late") {
  const Slo slo{Seconds{0.5}, Seconds{never}};
  ServedRequests served;
  served.over(served_request(3, slo, 0.3, 0.05, 7));
  served.over(served_request(4, slo, 0.2, 0.05, 0)); // left before the deadline: undecided
  served.over(served_request(5, slo, 0.8, 0.05, 0)); // left after the deadline
  const WhatIfRequests all = what_if_requests(served.copy());
  CHECK(all.left_out == 1);
  REQUIRE(all.replayed.size() == 2);
  CHECK(all.replayed[0].arrival == Seconds{0});
  CHECK(all.replayed[0].output == Tokens{7});
  CHECK_FALSE(all.replayed[0].output_is_bound);
  CHECK(all.replayed[1].arrival == Seconds{2});
  CHECK(all.replayed[1].output == Tokens{1});
  CHECK(all.served.with_slo == 2);
  CHECK(all.served.met == 1);
}

TEST_CASE("WhatIfThread reports a replay cut for taking too long and the error of a failed one, beside the others") {
  ServedRequests served;
  served.over(served_request(0, {Seconds{1}, Seconds{1}}, 0.3, 0.05, 3));
  WhatIfSystem endless{"Endless", [](auto, EventListener&, const std::function<bool()>& enough) -> Status {
                         while (!enough()) {
                         }
                         return {};
                       }};
  WhatIfSystem broken{"Broken", [](auto, EventListener&, const auto&) -> Status {
                        return Error{ErrorCode::infeasible, "", "it cannot be made", "another"};
                      }};
  WhatIfThread thread(served, {paced("Own", 0.3, 0.05), endless, broken}, {.every_s = 30, .processor_s = 0.01});
  const json answer = answered(thread);
  CHECK(answer["simulated"][0]["state"] == "done");
  CHECK(answer["simulated"][1]["state"] == "cut");
  CHECK(answer["simulated"][1]["why"].get<std::string>().find("cut after 0.01 s of processor time, with 0 of 1") == 0);
  CHECK(answer["simulated"][2]["state"] == "failed");
  CHECK(answer["simulated"][2]["why"].get<std::string>().find("it cannot be made") != std::string::npos);
  CHECK(answer["said"] == "Own met 100.0 % (100.0 % when simulated) of 1 promised requests.");
}

TEST_CASE("WhatIfThread computes only when asked, not sooner than its limit, not again for the same requests") {
  std::atomic<int> replays{0};
  WhatIfSystem counted{"Own", [&](auto, EventListener&, const auto&) -> Status {
                         ++replays;
                         return {};
                       }};
  ServedRequests served;
  const Slo slo{Seconds{1}, Seconds{1}};
  served.over(served_request(0, slo, 0.3, 0.05, 3));
  WhatIfThread thread(served, {counted}, {.every_s = 30, .processor_s = 1});
  const auto start = WhatIfThread::Clock::now();
  CHECK(replays == 0);
  (void)answered(thread, start);
  CHECK(replays == 1);
  served.over(served_request(1, slo, 0.3, 0.05, 3));
  (void)answered(thread, start + 29s);
  CHECK(replays == 1);
  CHECK(answered(thread, start + 31s)["served"]["requests"] == 2);
  CHECK(replays == 2);
  (void)answered(thread, start + 100s);
  CHECK(replays == 2);
}

TEST_CASE("WhatIfThread::stop ends a replay under way") {
  ServedRequests served;
  served.over(served_request(0, {Seconds{1}, Seconds{1}}, 0.3, 0.05, 3));
  std::atomic<bool> begun{false}, ended{false};
  WhatIfSystem endless{"Endless", [&](auto, EventListener&, const std::function<bool()>& enough) -> Status {
                         begun = true;
                         while (!enough()) std::this_thread::sleep_for(1ms);
                         ended = true;
                         return {};
                       }};
  WhatIfThread thread(served, {endless}, {.every_s = 30, .processor_s = 1e6});
  while (!begun) { // `json` does not wait for a thread that is just starting: ask again
    (void)thread.json();
    std::this_thread::sleep_for(1ms);
  }
  thread.stop();
  CHECK(ended);
}
