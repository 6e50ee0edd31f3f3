// SPDX-License-Identifier: Apache-2.0
// The files of sluice-compare --out: tables whose sums are the report's figures, and traces of the events.
#include "report/compare_program.hpp"
#include "support/program.hpp"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace sluice_test::comparing::results {

using doctest::Approx;
using nlohmann::json;
namespace fs = std::filesystem;

struct Left : Results {
  explicit Left(const std::string& arguments) : Results("sluice-compare", "--quiet " + arguments) {}
};

/// A row's run.
std::string run_of(const std::map<std::string, std::string>& row) {
  return row.at("system") + "/" + row.at("tenant") + "/" + row.at("deposit") + "/" + row.at("slo_scale") + "/" +
         row.at("seed");
}
/// The sum of a column over each run's rows; with `word`, the number of rows that have it.
std::map<std::string, double> sums(const Table& table, const std::string& column, const std::string& word = "") {
  std::map<std::string, double> all;
  for (const auto& row : table)
    all[run_of(row)] += word.empty() ? number(row.at(column)) : row.at(column) == word ? 1 : 0;
  return all;
}

/// The columns of iterations.csv that a test of hundreds of thousands of rows reads, by system: the first ones, whose
/// cells have no quotes.
struct Iteration {
  double step = 0, start = 0, duration = 0, stall = 0;
};
std::map<std::string, std::vector<Iteration>> iterations_of(const fs::path& file) {
  std::istringstream text(content(file));
  std::string line;
  std::getline(text, line);
  REQUIRE(line.find("system,tenant,deposit,slo_scale,seed,step,start_s,duration_s,stall_s,") == 0);
  std::map<std::string, std::vector<Iteration>> all;
  while (std::getline(text, line)) {
    std::size_t at = line.find(',');
    std::vector<Iteration>& own = all[line.substr(0, at)];
    for (int column = 1; column < 5; ++column) at = line.find(',', at + 1);
    const char* cell = line.c_str() + at;
    char* next = nullptr;
    const auto value = [&] {
      const double of = std::strtod(cell + 1, &next);
      cell = next;
      return of;
    };
    Iteration it;
    for (double* of : {&it.step, &it.start, &it.duration, &it.stall}) *of = value();
    own.push_back(it);
  }
  return all;
}

TEST_CASE("tables: sums over requests, iterations and time buckets equal each run's figures" * needs_program()) {
  for (const std::string workload :
       {"--generate demo:requests=2 --seeds 3..4 --kv-blocks 300 --slo-scale 1.5,2 --deposit off ",
        "--tenants opt-13b@0.35,llama2-13b@0.35 --device gh200-96 --generate "
        "sharegpt:rate=6,requests=10 --slo-tbt 0.1 "}) {
    CAPTURE(workload);
    const bool tenants = workload.find("tenants") != std::string::npos;
    const Left left(workload + "--systems VllmRecompute,Mirage,OneAtATime" + (tenants ? "" : ",VllmSwap,OrbitFlow"));
    const Table systems = left.table("systems"), requests = left.table("requests"), series = left.table("series"),
                iterations = left.table("iterations");
    REQUIRE_FALSE(systems.empty());
    const auto all_requests = sums(requests, "delivered_tokens"), on_time = sums(requests, "tokens_on_time"),
               late = sums(requests, "tokens_late"), missed = sums(requests, "deadlines_missed"),
               preempted = sums(requests, "times_preempted"), served = sums(requests, "outcome", "served"),
               refused = sums(requests, "outcome", "refused"), met = sums(requests, "met_slo", "true"),
               broken = sums(requests, "met_slo", "false");
    const auto busy = sums(series, "busy_s"), stalled = sums(series, "stall_s"), moved = sums(series, "moved_bytes");
    const auto stall = sums(iterations, "stall_s"), duration = sums(iterations, "duration_s"),
               to_device = sums(iterations, "to_device_bytes"), to_host = sums(iterations, "to_host_bytes"),
               weights = sums(iterations, "weights_bytes");
    std::map<std::string, int> shown;
    for (const auto& row : iterations) ++shown[run_of(row)];
    for (const auto& row : systems) {
      const std::string key = run_of(row);
      CAPTURE(key);
      if (tenants && row.at("tenant").empty()) continue; // all together: the rows belong to the tenants
      CHECK(all_requests.at(key) == number(row.at("tokens_delivered")));
      CHECK(on_time.at(key) == number(row.at("tokens_on_time")));
      CHECK(late.at(key) == number(row.at("tokens_late")));
      CHECK(missed.at(key) == number(row.at("deadlines_missed")));
      CHECK(preempted.at(key) == number(row.at("times_preempted")));
      CHECK(served.at(key) == number(row.at("served")));
      CHECK(refused.at(key) == number(row.at("refused")));
      CHECK(met.at(key) / (met.at(key) + broken.at(key)) == Approx(number(row.at("slo_attainment"))));
      CHECK(busy.at(key) == Approx(number(row.at("busy_s"))));
      CHECK(stalled.at(key) == Approx(number(row.at("stall_s"))));
      CHECK(moved.at(key) == Approx(number(row.at("bytes_moved")) - number(row.at("bytes_of_weights"))));
      CHECK(shown.at(key) == number(row.at("iterations"))); // all of them, for every seed
      CHECK(duration.at(key) == Approx(number(row.at("busy_s"))));
      CHECK(stall.at(key) == Approx(number(row.at("stall_s"))));
      CHECK(to_device.at(key) + weights.at(key) == number(row.at("bytes_to_device")));
      CHECK(to_host.at(key) == number(row.at("bytes_to_host")));
    }
    const json package = left.parsed("datapackage.json");
    for (const json& resource : package.at("resources")) { // its statements about the columns are true
      const std::string text = content(left.folder.path / resource.at("path").get<std::string>());
      std::string head;
      for (const json& field : resource.at("schema").at("fields"))
        head += (head.empty() ? "" : ",") + field.at("name").get<std::string>();
      CHECK(text.substr(0, text.find('\n')) == head);
      CHECK_FALSE(resource.contains("remark")); // nothing is omitted
    }
  }
}

TEST_CASE("report.json: percentiles and histograms equal those of requests.csv" * needs_program()) {
  const Left left("--generate demo:requests=20 --systems VllmSwap,OneAtATime --deposit off --threads 1");
  const json report = left.parsed("report.json");
  CHECK(report.at("made_by").at("commit").is_string());
  const Table requests = left.table("requests");
  for (const json& system : report.at("systems"))
    for (const char* name : {"ttft_s", "tpot_s", "e2e_s"}) {
      std::vector<double> values;
      for (const auto& row : requests)
        if (row.at("system") == system.at("name") && !row.at(name).empty()) values.push_back(number(row.at(name)));
      std::sort(values.begin(), values.end());
      REQUIRE_FALSE(values.empty());
      const json& of = system.at("distributions").at(name);
      CHECK(of.at("count") == values.size());
      CHECK(of.at("p100") == values.back());
      CHECK(of.at("p50") == values[(values.size() + 1) / 2 - 1]);
      std::size_t counted = 0;
      for (const json& count : of.at("histogram").at("counts")) counted += count.get<std::size_t>();
      CHECK(counted == values.size());
    }
}

TEST_CASE("--iteration-rows: a longer run has the rows of its trace, and the number of missing ones" *
          needs_program()) {
  const Left left("--generate demo:requests=4 --kv-blocks 300 --systems VllmSwap,OneAtATime --deposit off --seeds 1..2 "
                  "--iteration-rows 50");
  const Table iterations = left.table("iterations");
  std::map<std::string, std::vector<double>> steps;
  for (const auto& row : iterations) steps[run_of(row)].push_back(number(row.at("step")));
  double all = 0;
  for (const auto& row : left.table("systems")) {
    all += number(row.at("iterations"));
    const std::vector<double>& own = steps.at(run_of(row));
    CHECK(own.size() == 50);
    CHECK(own.back() - own.front() == 49); // one stretch
  }
  CHECK(all > 200);
  const json extent = left.parsed("traces/VllmSwap-x1.5.json").at("otherData");
  const std::vector<double>& first = steps.at("VllmSwap//false/1.5/1");
  CHECK(std::count(first.begin(), first.end(), extent.at("around_step").get<double>()) == 1);
  for (const json& resource : left.parsed("datapackage.json").at("resources"))
    if (resource.at("name") == "iterations")
      CHECK(resource.at("remark").get<std::string>().find(std::to_string(static_cast<long>(all) - 200) +
                                                          " in all are left out") != std::string::npos);
}

TEST_CASE("the trace of each stalling system of the demo has its longest stall and the cause" * needs_program()) {
  // Every iteration has its row, independent of the trace, which does not state its own longest stall.
  const Left left("--generate demo:requests=10 --kv-blocks 300 --deposit off --iteration-rows 1000000000");
  const json report = left.parsed("report.json");
  const auto by_system = iterations_of(left.folder.path / "iterations.csv");
  int stalling = 0;
  for (const json& system : report.at("systems")) {
    const std::string name = system.at("name");
    CAPTURE(name);
    // One event per line: most of them, counters, are skipped.
    std::istringstream trace(content(left.folder.path / "traces" / (name + "-x1.5.json")));
    std::string line;
    std::getline(trace, line);
    const json extent = json::parse(line + "]}").at("otherData");
    CHECK(extent.at("made_by").get<std::string>().find("(commit ") != std::string::npos);
    CHECK(extent.at("iterations").at("of") == system.at("iterations"));
    CHECK(extent.at("iterations_with_layers").at("shown").get<int>() <= 64);
    struct Slice {
      double from, to;
    };
    std::vector<Slice> stalls, transfers;
    bool says = false;
    while (std::getline(trace, line)) {
      if (line.find("\"ph\":\"X\"") == std::string::npos || line.find("\"pid\":1") == std::string::npos) continue;
      if (line.find("waits for") == std::string::npos && line.find("\"for\"") == std::string::npos &&
          line.find("layers, ") == std::string::npos)
        continue;
      const json event = json::parse(line.substr(0, line.rfind('}') + 1));
      const std::string what = event.at("name");
      says = says || what.find("layers, transfers and stalls of iterations") == 0;
      const double from = event.at("ts"), to = from + event.at("dur").get<double>();
      if (what.find("waits for") == 0) stalls.push_back({from, to});
      if (event.at("tid") >= 10) transfers.push_back({from, to});
    }
    CHECK(says);
    if (system.at("stall_s").get<double>() <= 1e-9) continue;
    ++stalling;
    double longest = 0, in_trace = 0;
    const std::vector<Iteration>& iterations = by_system.at(name);
    CHECK(static_cast<double>(iterations.size()) == system.at("iterations").get<double>());
    for (const Iteration& row : iterations) longest = std::max(longest, row.stall);
    CHECK(extent.at("its_stall_s").get<double>() == Approx(longest));
    const double from = 1e6 * extent.at("around_s").get<double>();
    double end = from;
    for (const Iteration& row : iterations)
      if (row.step == extent.at("around_step").get<double>()) end = 1e6 * (row.start + row.duration);
    for (const Slice& stall : stalls)
      if (stall.from >= from - 1 && stall.to <= end + 1) in_trace += stall.to - stall.from;
    CHECK(in_trace == Approx(1e6 * longest).epsilon(1e-3));
    // During each stall, the blocks that it waited for were on the link: of the transfers that began before its end,
    // the one that ended last ended after its start.
    std::sort(stalls.begin(), stalls.end(), [](const Slice& a, const Slice& b) { return a.to < b.to; });
    std::sort(transfers.begin(), transfers.end(), [](const Slice& a, const Slice& b) { return a.from < b.from; });
    auto next = transfers.begin();
    double last_end = -1;
    for (const Slice& stall : stalls) {
      for (; next != transfers.end() && next->from < stall.to; ++next) last_end = std::max(last_end, next->to);
      CHECK(last_end > stall.from);
    }
  }
  CHECK(stalling >= 15);
}

TEST_CASE("--trace-at shows a time of the run" * needs_program()) {
  const std::string small = "--generate demo:requests=4 --systems OrbitFlow --deposit off ";
  const Left left(small + "--trace-at 20");
  const json extent = left.parsed("traces/OrbitFlow-x1.5.json").at("otherData");
  CHECK(extent.at("around_s").get<double>() <= 20);
  CHECK(extent.at("around_s").get<double>() > 15);
}

} // namespace sluice_test::comparing::results
