// SPDX-License-Identifier: Apache-2.0
// sluice-compare over several seeds: each seed is the run that --seed gives, means and intervals are of those runs,
// judgements can be counted again, and the number of threads is nowhere to be seen.
#include "sluice/statistics/paired.hpp"

#include "report/compare_program.hpp"
#include "support/program.hpp"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

using namespace sluice;

namespace {

using nlohmann::json;
using sluice_test::Ran;
using sluice_test::TemporaryFolder;
using sluice_test::comparing::needs_program;
using sluice_test::comparing::run;

const std::string systems = "--systems OneAtATime,VllmRecompute,VllmSwap,OrbitFlow ";
const std::string workload = "--generate demo:requests=8 --deposit off " + systems;

struct Compared {
  TemporaryFolder folder;
  std::string printed;
  json report;
  explicit Compared(const std::string& arguments) {
    const Ran ran = run(arguments + " --out '" + folder.path.string() + "'");
    CAPTURE(ran.out);
    REQUIRE(ran.code == 0);
    printed = ran.out;
    report = json::parse(sluice_test::content(folder.path / "report.json"));
  }
  [[nodiscard]] const json& row(const std::string& name) const {
    for (const json& system : report.at("systems"))
      if (system.at("name") == name) return system;
    FAIL("no row of " << name);
    return report;
  }
};

/// Ten requests as Azure's traces write them, every one of another length.
void write_trace(const std::filesystem::path& path) {
  std::ofstream out(path);
  out << "TIMESTAMP,ContextTokens,GeneratedTokens\n";
  for (int i = 0; i < 10; ++i)
    out << "2023-11-16 18:15:" << 10 + 3 * i + i % 3 << ".0000000," << 100 + 10 * i << "," << 20 + i << "\n";
}

} // namespace

TEST_CASE("each of several seeds is the run of --seed, and the row is their mean with its interval" * needs_program()) {
  const Compared all(workload + "--seeds 2,5,3");
  CHECK(all.report.at("workload").at("seeds") == json({2, 5, 3}));
  for (std::size_t at = 0; at < 3; ++at) {
    const Compared one(workload + "--seed " + std::to_string(std::vector{2, 5, 3}[at]));
    CHECK(one.report.at("workload").at("seeds").size() == 1);
    for (const json& row : one.report.at("systems")) {
      const json& of_seeds = all.row(row.at("name"));
      std::size_t compared = 0;
      for (const auto& item : of_seeds.at("per_seed").items()) {
        const std::string key = item.key();
        if (key.find("_wall_") != std::string::npos) continue;
        CAPTURE(key);
        CHECK(item.value().at(at) == row.at(key));
        ++compared;
      }
      CHECK(compared > 40);
    }
  }
  for (const json& row : all.report.at("systems"))
    for (const char* key : {"tbt_attainment", "goodput_requests_per_s", "mean_e2e_s", "served"}) {
      const Interval of = mean_interval(row.at("per_seed").at(key).get<std::vector<double>>());
      CHECK(row.at(key).get<double>() == of.mean);
      CHECK(row.at("interval").at(key).at(0).get<double>() == of.least);
      CHECK(row.at("interval").at(key).at(1).get<double>() == of.most);
    }
}

TEST_CASE("judgements are counted again from the values, against the best or the baseline" * needs_program()) {
  const Compared best(workload + "--seeds 1..9"), chosen(workload + "--seeds 1..9 --baseline VllmSwap");
  const std::string name = best.row("OneAtATime").at("pairs").at("against");
  for (const json& row : best.report.at("systems"))
    if (!row.at("control").get<bool>())
      CHECK(row.at("tbt_attainment").get<double>() <= best.row(name).at("tbt_attainment").get<double>());
  for (const auto& [compared, against] : {std::pair{&best, name}, std::pair{&chosen, std::string{"VllmSwap"}}})
    for (const json& row : compared->report.at("systems")) {
      CHECK(row.contains("pairs") == (row.at("name") != against));
      if (row.at("name") == against) continue;
      CHECK(row.at("pairs").at("against") == against);
      for (const char* key : {"tbt_attainment", "slo_attainment", "mean_e2e_s"}) {
        const Paired of = paired(row.at("per_seed").at(key).get<std::vector<double>>(),
                                 compared->row(against).at("per_seed").at(key).get<std::vector<double>>());
        const json& said = row.at("pairs").at(key);
        CHECK(said.at("difference").get<double>() == of.difference.mean);
        CHECK(said.at("interval").at(0).get<double>() == of.difference.least);
        CHECK(said.at("tie").get<bool>() == of.tie());
        CHECK(said.at("more").get<std::size_t>() == of.wins);
        CHECK(said.at("less").get<std::size_t>() == of.losses);
        CHECK(said.at("pairs") == 9);
      }
    }
  CHECK(best.printed.find("Against " + name + ", the best here, seed by seed") != std::string::npos);
  CHECK(chosen.printed.find("Against VllmSwap, the baseline, seed by seed") != std::string::npos);
  CHECK(best.printed.find("means of 9 seeds") != std::string::npos);
  CHECK(best.printed.find("one seed") == std::string::npos);
}

TEST_CASE("several seeds give the same bytes whatever the threads" * needs_program()) {
  std::map<std::string, std::string> bytes;
  for (const char* threads : {"1", "3"}) {
    Compared compared(workload + "--seeds 1..5 --threads " + threads);
    compared.report.at("workload").erase("command");
    for (json& row : compared.report.at("systems"))
      for (const char* part : {"per_seed", "interval"})
        for (const char* wall : {"planning_wall_s", "planning_wall_p99_us"}) row.at(part).erase(wall);
    bytes[threads] = compared.report.dump();
  }
  CHECK(bytes["1"].size() > 1'000);
  CHECK(bytes["1"] == bytes["3"]);
}

TEST_CASE("one seed says so, and --seeds of one is --seed" * needs_program()) {
  const Compared one(workload + "--seed 4"), listed(workload + "--seeds 4");
  CHECK(one.printed.find("one seed: what differs here may be alike") != std::string::npos);
  json a = one.report, b = listed.report;
  a.at("workload").erase("command");
  b.at("workload").erase("command");
  CHECK(a == b);
}

TEST_CASE("a trace is served as recorded by one seed, and drawn again by several or where asked for" *
          needs_program()) {
  const TemporaryFolder folder;
  const std::string path = (folder.path / "trace.csv").string();
  write_trace(path);
  const std::string trace =
      "--trace '" + path + "' --format azure --kv-blocks 60 --slo-tbt 0.05 --deposit off " + systems;
  const Compared recorded(trace), same(trace + "--seed 9"), many(trace + "--seeds 1..3"),
      again(trace + "--seed 2 --resample blocks"), arrivals(trace + "--seeds 1..3 --resample arrivals"),
      blocks(trace + "--seeds 1..3 --resample blocks:5");
  CHECK(recorded.report.at("workload").at("redrawn") == "");
  CHECK(recorded.row("VllmSwap").at("mean_e2e_s") == same.row("VllmSwap").at("mean_e2e_s"));
  CHECK(many.report.at("workload").at("redrawn") == "in blocks of 2");
  CHECK(blocks.report.at("workload").at("redrawn") == "in blocks of 5");
  CHECK(arrivals.report.at("workload").at("redrawn") == "with new arrivals");
  CHECK(many.row("VllmSwap").at("per_seed").at("mean_e2e_s").at(1) == again.row("VllmSwap").at("mean_e2e_s"));
  // New arrivals serve the same requests: as many tokens. Blocks do not.
  const auto tokens = [](const Compared& of) { return of.row("OneAtATime").at("per_seed").at("tokens_delivered"); };
  for (const json& delivered : tokens(arrivals)) CHECK(delivered == recorded.row("OneAtATime").at("tokens_delivered"));
  CHECK(tokens(many).at(0) != tokens(many).at(1));
  for (const char* wrong : {"--resample blocks:0", "--resample blocks:", "--resample some", "--resample ''"}) {
    const Ran ran = run(trace + wrong);
    CAPTURE(ran.out);
    CHECK(ran.code == 2);
    CHECK(ran.out.find("sluice-compare: --resample: it is '") == 0);
    CHECK(ran.out.find("expected blocks, blocks:N with so many requests each, or arrivals") != std::string::npos);
  }
}

TEST_CASE("tables of columns have the half width beside the mean" * needs_program()) {
  const Ran md = run(workload + "--seeds 1..4 --table md --columns system,tbt,served");
  CHECK(md.code == 0);
  CHECK(md.out.find(" ± ") != std::string::npos);
  const Ran csv = run(workload + "--seeds 1..4 --table csv --columns system,tbt,served");
  CHECK(csv.out.find("system,tbt,tbt-half,served,served-half\n") == 0);
  CHECK(csv.out.find("OneAtATime,") != std::string::npos);
}
