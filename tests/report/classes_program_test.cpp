// SPDX-License-Identifier: Apache-2.0
// SLO classes and requests' own SLOs in sluice-compare's tables, report and CSV.
#include "report/compare_program.hpp"
#include <doctest/doctest.h>

#include <cstddef>
#include <fstream>
#include <string>

namespace sluice_test::comparing::classes {

const std::string small = " --generate demo:requests=12 --kv-blocks 300 --systems VllmSwap,OrbitFlow --deposit off ";

/// A trace whose columns name its requests' SLOs; returns its path in quotes.
std::string own_slos(const TemporaryFolder& in, const std::string& rows) {
  const std::string path = (in.path / "own.csv").string();
  std::ofstream(path) << "arrival,prompt,output,slo_ttft_s,slo_tbt_s\n" << rows;
  return "'" + path + "'";
}

TEST_CASE("classes: a table, rows of classes.csv and of report.json for each" * needs_program()) {
  const Compared of(small + "--slo-classes chat=0.5:2s/50ms,0.5:30s/200ms --seeds 1..2");
  CHECK(of.printed.find("SLO by class: chat 2s/50ms (50.0 %), 30s/200ms (50.0 %)") != std::string::npos);
  CHECK(of.printed.find("What users got, class chat: first token 2 s, then every 50 ms, about ") != std::string::npos);
  CHECK(of.printed.find("What users got, class 30s/200ms: first token 30 s") != std::string::npos);
  const auto& workload = of.report.at("workload");
  REQUIRE(workload.at("slo_classes").size() == 2);
  CHECK(workload.at("slo_classes")[0].at("name") == "chat");
  CHECK(workload.at("slo_classes")[1].at("slo_tbt_s") == 0.2);
  for (const auto& system : of.report.at("systems")) {
    CHECK(system.at("slo_tbt_s").is_null());
    REQUIRE(system.at("classes").size() == 2);
    for (const char* count : {"requests", "served", "tokens_delivered", "deadlines_missed", "tokens_on_time"})
      for (std::size_t seed = 0; seed < 2; ++seed) {
        double parts = 0;
        for (const auto& part : system.at("classes")) parts += part.at("per_seed").at(count)[seed].get<double>();
        CHECK(parts == system.at("per_seed").at(count)[seed].get<double>());
      }
    CHECK(system.at("classes")[0].at("slo_ttft_s") == 2.0);
  }
  const Table classes = of.table("classes");
  REQUIRE(classes.size() == 2 * 2 * 2); // classes, systems, seeds
  CHECK(classes.front().at("slo_class") == "chat");
  CHECK(number(classes.front().at("slo_ttft_s")) == 2);
  CHECK(of.text("report.html").find("class chat: first token") != std::string::npos);
}

TEST_CASE("classes: requests' own SLOs are the labels, and flags that they override are refused" * needs_program()) {
  const TemporaryFolder folder;
  const std::string one = own_slos(folder, "0,50,9,2,0.05\n1,50,9,2,0.05\n2,50,9,2,0.05\n");
  const Compared same("--systems VllmSwap --deposit off --trace " + one);
  CHECK(same.printed.find("SLO 50 ms per token (scale 1), first token 2 s") != std::string::npos);
  CHECK(same.row("VllmSwap").at("slo_tbt_s") == 0.05);
  CHECK(same.report.at("workload").at("base_slo_tbt_s") == 0.05);
  CHECK_FALSE(same.row("VllmSwap").contains("classes"));
  CHECK(same.text("systems.csv").find(",2,0.05,") != std::string::npos);
  for (const char* flag : {"--slo-tbt 0.1", "--slo-ttft 4", "--slo-scale 2"})
    CHECK(run("--systems VllmSwap --trace " + one + " " + flag).out.find("every request has an SLO of its own") !=
          std::string::npos);

  const std::string mixed = own_slos(folder, "0,50,9,2,0.05\n1,50,9,,\n2,50,9,30,0.2\n");
  const Compared several("--systems VllmSwap --deposit off --slo-tbt 0.1 --trace " + mixed);
  CHECK(several.printed.find("class others: first token 5 s, then every 150 ms, 1 request,") != std::string::npos);
  CHECK(several.row("VllmSwap").at("classes").size() == 3);
}

TEST_CASE("classes: tokens.csv.gz needs a folder, classes exclude what they override" * needs_program()) {
  CHECK(run("--tokens").out.find("--tokens: there is no folder to leave them in") != std::string::npos);
  CHECK(run(small + "--tokens --batch 2,4 --out x").out.find("--tokens: a grid leaves no files of single") !=
        std::string::npos);
  CHECK(run(small + "--tokens --capacity 0.5 --out x").out.find("--tokens: a search for capacities") !=
        std::string::npos);
  CHECK(run("--slo-classes 1:2s/50ms --slo-scale 2").out.find("--slo-scale: every request has an SLO of its own") !=
        std::string::npos);
  CHECK(run("--slo-classes 1:2s/50ms --tenants opt-13b@0.35,llama2-13b@0.35").out.find("--slo-classes") !=
        std::string::npos);
  const Compared of(small + "--tokens");
  CHECK(of.text("tokens.csv.gz").starts_with("\x1f\x8b"));
  CHECK(of.text("datapackage.json").find("\"path\":\"tokens.csv.gz\"") != std::string::npos);
}

} // namespace sluice_test::comparing::classes
