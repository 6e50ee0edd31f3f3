// SPDX-License-Identifier: Apache-2.0
// sluice-compare over several seeds: each seed equals the run of --seed, means and intervals are computed from these
// runs, and verdicts match them.
#include "sluice/report/statistics/paired.hpp"

#include "report/compare_program.hpp"
#include "support/program.hpp"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace sluice_test::comparing::seeds {

using namespace sluice;

using nlohmann::json;

const std::string systems = "--systems OneAtATime,VllmRecompute,VllmSwap,OrbitFlow ";
const std::string workload = "--generate demo:requests=8 --deposit off " + systems;

/// Ten requests in Azure's format, all of different lengths.
void write_trace(const std::filesystem::path& path) {
  std::ofstream out(path);
  out << "TIMESTAMP,ContextTokens,GeneratedTokens\n";
  for (int i = 0; i < 10; ++i)
    out << "2023-11-16 18:15:" << 10 + 3 * i + i % 3 << ".0000000," << 100 + 10 * i << "," << 20 + i << "\n";
}

TEST_CASE("each of several seeds equals the run of --seed, and the row is their mean with its interval" *
          needs_program()) {
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

TEST_CASE("verdicts match the values, against the best system or the baseline" * needs_program()) {
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
      for (const char* key : {"tbt_attainment", "slo_attainment", "mean_e2e_all_s"}) {
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

TEST_CASE("a single seed is reported as such, and --seeds N is --seed N" * needs_program()) {
  const Compared one(workload + "--seed 4"), listed(workload + "--seeds 4");
  CHECK(one.printed.find("one seed: with other seeds a difference") != std::string::npos);
  json a = one.report, b = listed.report;
  a.at("workload").erase("command");
  b.at("workload").erase("command");
  CHECK(a == b);
}

TEST_CASE("a trace is served as recorded without a seed, and redrawn with one, with several or on request" *
          needs_program()) {
  const TemporaryFolder folder;
  const std::string path = (folder.path / "trace.csv").string();
  write_trace(path);
  const std::string trace =
      "--trace '" + path + "' --format azure --kv-blocks 60 --slo-tbt 0.05 --deposit off " + systems;
  const Compared recorded(trace), second(trace + "--seed 2"), many(trace + "--seeds 1..3"),
      again(trace + "--seed 2 --resample blocks"), arrivals(trace + "--seeds 1..3 --resample arrivals"),
      blocks(trace + "--seeds 1..3 --resample blocks:5");
  CHECK(recorded.report.at("workload").at("redrawn") == "");
  CHECK(second.report.at("workload").at("redrawn") == "in blocks of 2");
  CHECK(second.row("VllmSwap").at("mean_e2e_s") == again.row("VllmSwap").at("mean_e2e_s"));
  CHECK(recorded.row("VllmSwap").at("mean_e2e_s") != second.row("VllmSwap").at("mean_e2e_s"));
  CHECK(many.report.at("workload").at("redrawn") == "in blocks of 2");
  CHECK(blocks.report.at("workload").at("redrawn") == "in blocks of 5");
  CHECK(arrivals.report.at("workload").at("redrawn") == "with new arrivals");
  CHECK(many.row("VllmSwap").at("per_seed").at("mean_e2e_s").at(1) == again.row("VllmSwap").at("mean_e2e_s"));
  // New arrivals serve the same requests, so the tokens are equal in number. Resampled blocks do not.
  const auto tokens = [](const Compared& of) { return of.row("OneAtATime").at("per_seed").at("tokens_delivered"); };
  for (const json& delivered : tokens(arrivals)) CHECK(delivered == recorded.row("OneAtATime").at("tokens_delivered"));
  CHECK(tokens(many).at(0) != tokens(many).at(1));
}

} // namespace sluice_test::comparing::seeds
