// SPDX-License-Identifier: Apache-2.0
// The output of --why and the drawing of report.html, for rows made by hand: the requested request, in every row.
#include "sluice/report/html_data.hpp"
#include "sluice/report/json.hpp"
#include "sluice/report/why_text.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

using namespace sluice;

namespace {

RequestTime one(std::uint32_t id, double missed) {
  RequestTime of;
  of.known = true;
  of.id = RequestId{id};
  of.add_spell(TimeCause::queue, 1'000'000'000, 10);
  of.add(TimeCause::queue, 1'000'000'000);
  of.add_spell(TimeCause::decode, 3'000'000'000, 10);
  of.add(TimeCause::beside, 2'000'000'000);
  of.end = RequestEnd::served;
  of.miss(missed, of.since);
  return of;
}

SystemReport row(const std::string& name, std::uint32_t requests, std::int64_t wanted) {
  SystemReport row;
  row.name = name;
  std::vector<RequestTime> all;
  for (std::uint32_t id = 0; id < requests; ++id) all.push_back(one(id, id));
  row.time = time_report(std::move(all), 200, wanted);
  return row;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

} // namespace

TEST_CASE("--why ID answers in every row, even if the row has no such request") {
  ComparisonReport report;
  report.workload.seeds = {4, 5};
  report.systems = {row("Served", 5, 3), row("Short", 3, 3), row("Stuck", 1, 3), row("Together", 5, 3)};
  report.systems[2].livelock = "no progress";
  report.systems[3].time.requests.clear();
  const std::string text = why_request(report, 3);
  CAPTURE(text);
  CHECK(has(text, "Why, request 3 of seed 4, "));
  CHECK(has(text, "Request 3 (0 tokens of prompt, 0 delivered) arrived at the start; it was served 3"));
  CHECK(has(text, "There is no request 3 here: 3 requests, from 0 on, came"));
  CHECK(has(text, "No request 3 ever arrived: one request, 0, had come when the run was ended as livelocked."));
  CHECK(has(text, "Several tenants, each of which numbers its own requests from 0"));
  CHECK(has(why_sentence(one(0, 1)), " 1 deadline passed without a token, mostly while it was decoding"));
}

TEST_CASE(
    "a wait to start is divided by the limits that a request waits for, in the table, the sentence and the line") {
  RequestTime of = one(0, 1);
  of.add_spell(TimeCause::memory, of.since + 5'000'000'000, 10);
  of.add(TimeCause::memory, 3'000'000'000);
  of.add(TimeCause::behind, 2'000'000'000);
  const std::string sentence = why_sentence(of);
  CHECK(has(sentence, "3 s waiting for memory"));
  CHECK(has(sentence, "2 s waiting behind another request that waits for memory"));
  CHECK(why_line(of, 8) == ".##:::::");
  ComparisonReport report;
  report.systems = {row("A", 0, -1)};
  report.systems[0].time = time_report({of}, 200, -1);
  const std::string table = why_table(report);
  CAPTURE(table);
  CHECK(has(table, "waits for"));
  CHECK(has(table, "others' memory"));
  CHECK_FALSE(has(table, "batch"));
}

TEST_CASE("the sentence about other requests' KV claims no more than is known") {
  RequestTime of = one(0, 0);
  const auto stall = [&of](std::uint32_t other, std::int64_t ticks) {
    of.add(TimeCause::others_kv, ticks);
    of.blame(RequestId{other}, ticks);
  };
  stall(1, 4'000'000'000);
  stall(2, 3'000'000'000);
  stall(3, 3'000'000'000);
  CHECK(has(why_sentence(of), " Of the others it stalled longest for the KV of request 1 (4 s of 10 s)."));
  stall(1, 3'000'000'000);
  CHECK(has(why_sentence(of), " Most of its stalls for others were for the KV of request 1 (7 s of 13 s)."));
  for (std::uint32_t other = 10; other < 30; ++other) stall(other, 2'000'000'000);
  std::int64_t counted = 0;
  for (const RequestTime::Blamed& blamed : of.stalled_by) {
    CHECK(blamed.least <= blamed.ticks);
    CHECK(blamed.least <= 7'000'000'000);
    counted += blamed.ticks;
  }
  CHECK(counted == of.spent[static_cast<std::size_t>(TimeCause::others_kv)]);
}

TEST_CASE(
    "report.html draws only the requested request, nothing without a timeline, and decodes beside prompts apart") {
  SystemReport of = row("A", 60, 7);
  of.time.requests[59].spells.clear();
  std::string text;
  JsonWriter json(text, true);
  detail::write_time(json, of.time);
  CHECK(has(text, "\"seen\":60,\"asked\":7,\"requests\":[{\"id\":7,"));
  CHECK(has(text, "\"id\":58,"));
  CHECK(!has(text, "\"id\":59,"));
  CHECK(has(text, "\"spent\":[60,0,0,0,0,120,0,0,0,0,0,0]"));
}

TEST_CASE("report.json has the time by cause") {
  ComparisonReport report;
  report.systems = {row("A", 3, -1)};
  report.systems[0].time.turned_away = 2;
  const std::string text = report_json(report);
  CAPTURE(text);
  CHECK(has(text, "\"time\":{\"requests\":3,\"spent_s\":{\"queue\":3,"));
  CHECK(has(text, "\"beside_prompts\":6,"));
  CHECK(has(text, "\"deadlines_missed\":{\"queue\":1,"));
  CHECK(has(text, "\"refused\":2}}"));
  report.systems[0].time = {};
  CHECK(!has(report_json(report), "\"time\":"));
}
