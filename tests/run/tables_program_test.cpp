// SPDX-License-Identifier: Apache-2.0
// The tables of sluice-run --out from a real run: their sums are the figures that --json prints, and their columns are
// sluice-compare's.
#include "support/program.hpp"
#include "support/results.hpp"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

namespace sluice_test::run_tables {

namespace fs = std::filesystem;
using doctest::Approx;
using Json = nlohmann::json;

doctest::skip needs_program() { return sluice_test::needs_program("sluice-run"); }

/// Three requests, of which two fit at the same time; the TBT SLO is 20 ms.
const std::string three = "--prompt abcdefghijklmnopqrstuvwxyzabcdefghij --prompt zyxwvutsrqponmlkjihgfedcba "
                          "--prompt aabbccddeeffgghhiijjkkllmmnnoo --max-tokens 24 --ignore-end --slo-tbt 0.02 "
                          "--slo-ttft 1 --link 1GB/s --kv-memory 800KiB ";

struct Left : Results {
  Json printed = Json::parse(Results::printed);
  explicit Left(const std::string& arguments) : Results("sluice-run", "--json " + arguments) {}
};

double sum(const Table& table, const std::string& column, const std::string& word = "") {
  double all = 0;
  for (const auto& row : table) all += word.empty() ? number(row.at(column)) : row.at(column) == word ? 1 : 0;
  return all;
}

TEST_CASE("tables of a real run: the sums over requests, iterations and stretches are the figures of --json" *
          needs_program()) {
  for (const std::string system : {"AllResident", "VllmSwap", "OrbitFlow", "DeepSpeedWeights"}) {
    CAPTURE(system);
    const Left left(three + "--system " + system);
    const Json& figures = left.printed.at("metrics");
    const auto figure = [&](const char* name) { return figures.at(name).get<double>(); };
    const Table systems = left.table("systems"), requests = left.table("requests"), series = left.table("series"),
                iterations = left.table("iterations");
    REQUIRE(systems.size() == 1);
    REQUIRE(requests.size() == left.printed.at("requests").size());
    CHECK(sum(requests, "delivered_tokens") == figure("tokens_delivered"));
    CHECK(sum(requests, "tokens_on_time") == figure("tokens_on_time"));
    CHECK(sum(requests, "tokens_late") == figure("tokens_late"));
    CHECK(sum(requests, "deadlines_missed") == figure("deadlines_missed"));
    CHECK(sum(requests, "times_preempted") == figure("times_preempted"));
    CHECK(sum(requests, "outcome", "served") == figure("served"));
    CHECK(static_cast<double>(iterations.size()) == figure("iterations"));
    CHECK(sum(iterations, "stall_s") == Approx(figure("stall_s")));
    CHECK(sum(iterations, "duration_s") == Approx(figure("busy_s")));
    CHECK(sum(series, "busy_s") == Approx(figure("busy_s")));
    CHECK(sum(iterations, "to_device_bytes") + sum(iterations, "weights_bytes") == figure("bytes_to_device"));
    CHECK(sum(iterations, "to_host_bytes") == figure("bytes_to_host"));
    CHECK(sum(series, "moved_bytes") == Approx(sum(iterations, "to_device_bytes") + sum(iterations, "to_host_bytes")));
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const Json& request = left.printed.at("requests").at(i);
      CHECK(number(requests[i].at("request")) == static_cast<double>(i));
      CHECK(number(requests[i].at("ttft_s")) == request.at("ttft_s").get<double>());
      CHECK(number(requests[i].at("e2e_s")) == request.at("e2e_s").get<double>());
      CHECK(number(requests[i].at("delivered_tokens")) == static_cast<double>(request.at("tokens").size()));
      CHECK(number(requests[i].at("slo_tbt_s")) == 0.02);
    }
    int known = 0;
    for (const auto& [name, cell] : systems.front())
      if (figures.contains(name) && figures.at(name).is_number()) {
        CHECK(number(cell) == figures.at(name).get<double>());
        ++known;
      }
    CHECK(known > 20);
    for (const Table* table : {&systems, &requests, &series, &iterations})
      for (const auto& row : *table) {
        CHECK(row.at("system") == system);
        CHECK(row.at("deposit") == (system == "OrbitFlow" ? "true" : "false"));
      }
    const Json report = left.parsed("report.json"), row = report.at("systems").at(0);
    CHECK(row.at("name") == system);
    CHECK(row.at("tokens_delivered") == figures.at("tokens_delivered"));
    CHECK(row.at("engine").get<std::string>().rfind("Engine<", 0) == 0);
    CHECK((row.at("engine") == "Engine<>") == (system == "AllResident"));
    CHECK(row.at("transfer") == systems.front().at("transfer"));
    CHECK_FALSE(row.at("transfer").get<std::string>().empty());
    CHECK(report.at("made_by").at("commit").is_string());
    CHECK(report.at("workload").at("requests") == requests.size());
  }
}

TEST_CASE("tables of a real run have sluice-compare's columns, and datapackage.json describes them" *
          sluice_test::needs_program("sluice-compare")) {
  std::error_code ignored;
  if (!fs::exists(program_path("sluice-run"), ignored)) return; // a library for it is missing
  const Left left(three);
  const TemporaryFolder simulated;
  REQUIRE(run_program("sluice-compare", "--generate demo:requests=2 --systems VllmSwap --deposit off "
                                        "--quiet --out '" +
                                            simulated.path.string() + "' >/dev/null")
              .code == 0);
  const Json package = left.parsed("datapackage.json");
  const Json others = Json::parse(content(simulated.path / "datapackage.json"));
  CHECK(package.at("made_by") == others.at("made_by"));
  CHECK(package.at("command").get<std::string>().rfind("sluice-run --json --prompt abc", 0) == 0);
  REQUIRE(package.at("resources").size() == others.at("resources").size());
  for (std::size_t i = 0; i < package.at("resources").size(); ++i) {
    const Json& table = package.at("resources")[i];
    CHECK(table.at("name") == others.at("resources")[i].at("name"));
    CHECK(table.at("schema") == others.at("resources")[i].at("schema"));
    const std::string file = table.at("path").get<std::string>(), text = left.text(file);
    CHECK(text.substr(0, text.find('\n')) ==
          content(simulated.path / file).substr(0, text.find('\n'))); // the same head
  }
}

TEST_CASE("a run removes a comparison's pages and traces, which could be mistaken for its own" * needs_program()) {
  const TemporaryFolder folder;
  fs::create_directory(folder.path / "traces");
  const auto write = [&](const char* name, const std::string& text) { std::ofstream(folder.path / name) << text; };
  const std::string run = "--prompt a --max-tokens 2 --json --out '" + folder.path.string() + "' >/dev/null";
  for (const char* name : {"report.html", "traces/VllmSwap-x1.5.json", "traces/mine.json", "mine.csv"})
    write(name, "as it was");
  REQUIRE(run_program("sluice-run", run).code == 0); // a folder that no run of ours has described
  CHECK(fs::exists(folder.path / "report.html"));
  write("datapackage.json", R"({"name": "sluice", "resources": [{"path": "probes.csv"}, {"path": "mine.csv"}]})");
  write("probes.csv", "system\n");
  REQUIRE(run_program("sluice-run", run).code == 0);
  for (const char* gone : {"report.html", "traces/VllmSwap-x1.5.json", "probes.csv"})
    CHECK_FALSE(fs::exists(folder.path / gone));
  for (const char* stays : {"traces/mine.json", "mine.csv"}) CHECK(content(folder.path / stays) == "as it was");
}

TEST_CASE("a run that serves nothing leaves no table; one refused request is a row" * needs_program()) {
  const TemporaryFolder folder;
  const fs::path out = folder.path / "out";
  const std::string to = " --out '" + out.string() + "' 2>/dev/null";
  const std::string prompts = "--prompt-ids 1 --prompt-ids 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22 "
                              "--max-tokens 8 --ignore-end --json --kv-memory ";
  CHECK(run_program("sluice-run", prompts + "1KiB" + to).code == 2);
  CHECK(fs::is_empty(out));
  REQUIRE(run_program("sluice-run", prompts + "128KiB" + to).code == 0); // one block for each layer
  const Table rows = read_csv(content(out / "requests.csv"));
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].at("outcome") == "served");
  CHECK(rows[1].at("outcome") == "refused");
  CHECK_FALSE(rows[1].at("reason").empty());
}

} // namespace sluice_test::run_tables
