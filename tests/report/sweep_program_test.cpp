// SPDX-License-Identifier: Apache-2.0
// sluice-compare over lists of numbers: each cell equals the comparison of its own command line, for any number of
// threads.
#include "report/compare_program.hpp"
#include "support/page.hpp"
#include "support/program.hpp"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace sluice_test::comparing::sweep {

using nlohmann::json;

const std::string workload = "--generate demo:requests=8 --systems OneAtATime,VllmSwap,FutureMemory ";

struct Compared : sluice_test::comparing::Compared {
  explicit Compared(const std::string& arguments) : sluice_test::comparing::Compared(workload + arguments) {}
};
/// A report without the command, which names a folder, without the cell's place, and without the figures of a
/// comparison with its own files.
json without_command(json report) {
  for (json& system : report.at("systems")) system.erase("distributions"), system.erase("time");
  report.at("workload").erase("command");
  report.at("workload").at("notes").erase("Case");
  report.erase("made_by");
  return report;
}

TEST_CASE("each cell of a grid equals the comparison of its own command line, with seeds and without" *
          needs_program()) {
  for (const std::string seeds : {"--seed 3", "--seeds 1..3"}) {
    const Compared grid(seeds + " --kv-blocks 300,600 --deposit off --rate-scale=0.5,2");
    CHECK(grid.report.at("grid").at("axes") ==
          json::parse(R"([{"name":"kv-blocks","numbers":true,"values":[300,600]},)"
                      R"({"name":"rate-scale","numbers":true,"values":[0.5,2]}])"));
    const json& cells = grid.report.at("cells");
    REQUIRE(cells.size() == 4);
    std::size_t at = 0;
    for (const char* blocks : {"300", "600"})
      for (const char* rate : {"0.5", "2"}) {
        const json& cell = cells.at(at++);
        CHECK(cell.at("at") == json{{"kv-blocks", std::stoi(blocks)}, {"rate-scale", std::stod(rate)}});
        const Compared one(seeds + " --deposit off --kv-blocks " + blocks + " --rate-scale " + rate);
        json members = cell;
        members.erase("at");
        CHECK((without_command(members) == without_command(one.report))); // no report in the log
      }
    CHECK(cells.at(0).at("systems") != cells.at(3).at("systems"));
  }
}

TEST_CASE("a swept size is in bytes for programs, and shown as the user wrote it" * needs_program()) {
  const Compared grid("--host-memory 512MiB,2GB --seeds 1,2 --deposit off --cells");
  CHECK(grid.report.at("grid").at("axes") ==
        json::parse(
            R"([{"name":"host-memory","numbers":true,"values":[536870912,2000000000],"shown":["512MiB","2GB"]}])"));
  CHECK(grid.report.at("cells").at(1).at("at") == json{{"host-memory", 2'000'000'000}});
  CHECK(grid.text("systems.csv").find("\n536870912,") != std::string::npos);
  CHECK(std::filesystem::exists(grid.folder.path / "host-memory-512MiB"));
}

TEST_CASE("a cell's command reproduces the cell" * needs_program()) {
  const Compared grid("--kv-blocks 300,600 --seed 2");
  std::string command = grid.report.at("cells").at(1).at("workload").at("command");
  REQUIRE(command.starts_with("sluice-compare --quiet "));
  CHECK(command.find("--kv-blocks 600") != std::string::npos);
  const TemporaryFolder folder;
  command = command.substr(std::string{"sluice-compare"}.size());
  command = command.substr(0, command.find(" --out ")) + " --out '" + folder.path.string() + "'";
  const Ran ran = run_program("sluice-compare", command);
  REQUIRE(ran.code == 0);
  json alone = without_command(json::parse(content(folder.path / "report.json"))), cell = grid.report.at("cells").at(1);
  CHECK((alone.at("systems") == without_command(cell).at("systems")));
}

TEST_CASE("--cells writes a report for each cell" * needs_program()) {
  const Compared grid("--kv-blocks 400,800 --batch 2,4 --seeds 1,2 --cells");
  const std::filesystem::path own = grid.folder.path / "kv-blocks-800_batch-2";
  const json cell = json::parse(content(own / "report.json"));
  CHECK((without_command(cell).at("systems") == without_command(grid.report.at("cells").at(2)).at("systems")));
  CHECK(std::filesystem::exists(own / "traces" / "VllmSwap-x1.5.json"));
}

TEST_CASE("a grid's page has its figures and needs no network" * needs_program()) {
  const Compared grid("--kv-blocks 400,800 --seeds 1,2 --deposit off");
  const std::string page = grid.text("report.html");
  CHECK(page.find("Sluice sweep over kv-blocks") != std::string::npos);
  CHECK(page.find("src=") == std::string::npos);
  const json data = page_data(page);
  CHECK(data.at("systems").size() == 2 * 3);
  CHECK(data.at("seeds") == json({1, 2}));
  for (const json& system : data.at("systems")) CHECK(system.at("interval").at("tbt_attainment").size() == 2);
  const std::vector<PageTable> tables = page_tables(page);
  REQUIRE(tables.size() == 1);
  CHECK(tables.at(0).caption.ends_with("without deposit"));
  REQUIRE(tables.at(0).rows.size() == 2 * 3);
  std::size_t at = 0;
  for (const json& cell : grid.report.at("cells"))
    for (const json& system : cell.at("systems")) {
      const auto& row = tables.at(0).rows.at(at++);
      CHECK(row.at("system") == system.at("name"));
      CHECK(tells(row.at("kv-blocks"), cell.at("at").at("kv-blocks")));
      for (const json& figure : data.at("figures")) {
        const std::string key = figure.at("key");
        CAPTURE(key);
        CHECK(tells(row.at(key), system.at(key)));
      }
    }
}

} // namespace sluice_test::comparing::sweep
