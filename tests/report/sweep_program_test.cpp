// SPDX-License-Identifier: Apache-2.0
// sluice-compare over lists of numbers: each cell is the comparison of its own command line, the number of threads is
// nowhere to be seen, and what is wrong with a list is one line.
#include "report/compare_program.hpp"
#include "support/page.hpp"
#include "support/program.hpp"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

using nlohmann::json;
using sluice_test::Ran;
using sluice_test::TemporaryFolder;
using sluice_test::comparing::needs_program;
using sluice_test::comparing::run;

const std::string workload = "--generate demo:requests=8 --systems OneAtATime,VllmSwap,FutureMemory ";

struct Compared {
  TemporaryFolder folder;
  std::string printed;
  json report;
  explicit Compared(const std::string& arguments) {
    const Ran ran = run(workload + arguments + " --out '" + folder.path.string() + "'");
    CAPTURE(ran.out);
    REQUIRE(ran.code == 0);
    printed = ran.out;
    report = json::parse(sluice_test::content(folder.path / "report.json"));
  }
};
/// But for the command, which names a folder, the cell's place, and what is drawn of a comparison with files of its
/// own.
json without_command(json report) {
  for (json& system : report.at("systems")) system.erase("distributions"), system.erase("time");
  report.at("workload").erase("command");
  report.at("workload").at("notes").erase("Case");
  report.erase("made_by");
  return report;
}
std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) all.push_back(line);
  return all;
}

} // namespace

TEST_CASE("each cell of a grid is the comparison of its own command line, with seeds and without" * needs_program()) {
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

TEST_CASE("a size that is swept is a number of bytes for programs, and shown as it was given" * needs_program()) {
  const Compared grid("--host-memory 512MiB,2GB --seeds 1,2 --deposit off --cells");
  CHECK(grid.report.at("grid").at("axes") ==
        json::parse(
            R"([{"name":"host-memory","numbers":true,"values":[536870912,2000000000],"shown":["512MiB","2GB"]}])"));
  CHECK(grid.report.at("cells").at(1).at("at") == json{{"host-memory", 2'000'000'000}});
  CHECK(sluice_test::content(grid.folder.path / "systems.csv").find("\n536870912,") != std::string::npos);
  CHECK(std::filesystem::exists(grid.folder.path / "host-memory-512MiB"));
  const std::vector<std::string> csv =
      lines(run(workload + "--link 4GB/s,8GB/s --deposit off --table csv --columns system,tbt").out);
  REQUIRE(csv.size() == 1 + 2 * 3);
  CHECK(csv.at(1).starts_with("4GB/s,OneAtATime,"));
}

TEST_CASE("a cell's command repeats the cell" * needs_program()) {
  const Compared grid("--kv-blocks 300,600 --seed 2");
  std::string command = grid.report.at("cells").at(1).at("workload").at("command");
  REQUIRE(command.starts_with("sluice-compare --quiet "));
  CHECK(command.find("--kv-blocks 600") != std::string::npos);
  const TemporaryFolder folder;
  command = command.substr(std::string{"sluice-compare"}.size());
  command = command.substr(0, command.find(" --out ")) + " --out '" + folder.path.string() + "'";
  const Ran ran = sluice_test::run_program("sluice-compare", command);
  REQUIRE(ran.code == 0);
  json alone = without_command(json::parse(sluice_test::content(folder.path / "report.json"))),
       cell = grid.report.at("cells").at(1);
  CHECK((alone.at("systems") == without_command(cell).at("systems")));
}

TEST_CASE("a grid gives the same bytes whatever the threads, and with a report of each cell" * needs_program()) {
  std::set<std::string> bytes;
  for (const char* how : {"--threads 1", "--threads 3", "--threads 2 --cells"}) {
    const Compared grid(std::string{"--kv-blocks 400,800 --batch 2,4 --seeds 1,2 "} + how);
    json report = grid.report;
    report.at("grid").erase("command");
    for (json& cell : report.at("cells")) cell.at("workload").erase("command");
    bytes.insert(report.dump());
    const std::filesystem::path own = grid.folder.path / "kv-blocks-800_batch-2";
    CHECK(std::filesystem::exists(own) == (std::string{how}.find("--cells") != std::string::npos));
    if (!std::filesystem::exists(own)) continue;
    const json cell = json::parse(sluice_test::content(own / "report.json"));
    CHECK((without_command(cell).at("systems") == without_command(grid.report.at("cells").at(2)).at("systems")));
    CHECK(std::filesystem::exists(own / "traces" / "VllmSwap-x1.5.json"));
  }
  CHECK(bytes.size() == 1);
}

TEST_CASE("a grid is one table: cell by cell and system by system, as text, Markdown and CSV" * needs_program()) {
  const std::string grid = workload + "--deposit off --kv-blocks 400,800 --rate-scale 1,2 ";
  const std::vector<std::string> csv = lines(run(grid + "--table csv --columns system,tbt,served").out);
  REQUIRE(csv.size() == 1 + 4 * 3);
  CHECK(csv.at(0) == "kv-blocks,rate-scale,system,tbt,served");
  CHECK(csv.at(1).starts_with("400,1,OneAtATime,"));
  CHECK(csv.at(12).starts_with("800,2,FutureMemory,"));
  const std::vector<std::string> md = lines(run(grid + "--table md").out);
  CHECK(std::count_if(md.begin(), md.end(), [](const std::string& line) { return line.starts_with("|"); }) == 2 + 12);
  const std::vector<std::string> text = lines(run(grid).out);
  CHECK(text.at(2).starts_with("kv-blocks  rate-scale  system"));
  const std::vector<std::string> scales = lines(run(grid + "--slo-scale 1,1.5 --table csv --columns system,tbt").out);
  CHECK(scales.size() == 1 + 2 * 12);
  CHECK(scales.at(0) == "kv-blocks,rate-scale,system,scale,tbt");
}

TEST_CASE("a preset's cases and a list make one grid" * needs_program()) {
  const Ran ran = run("--preset select-n --kv-blocks 4000,8000 --dry-run");
  if (ran.out.find("which is not there") != std::string::npos) return;
  CHECK(ran.code == 0);
  CHECK(ran.out.find("kv-blocks 4000: ") != std::string::npos);
  CHECK(ran.out.find("kv-blocks 8000: ") != std::string::npos);
}

TEST_CASE("a grid's page holds its figures and needs no network" * needs_program()) {
  const Compared grid("--kv-blocks 400,800 --seeds 1,2 --deposit off");
  const std::string page = sluice_test::content(grid.folder.path / "report.html");
  CHECK(page.find("Sluice sweep over kv-blocks") != std::string::npos);
  CHECK(page.find("src=") == std::string::npos);
  const json data = sluice_test::page_data(page);
  CHECK(data.at("systems").size() == 2 * 3);
  CHECK(data.at("seeds") == json({1, 2}));
  for (const json& system : data.at("systems")) CHECK(system.at("interval").at("tbt_attainment").size() == 2);
  const std::vector<sluice_test::PageTable> tables = sluice_test::page_tables(page);
  REQUIRE(tables.size() == 1);
  CHECK(tables.at(0).caption.ends_with("without deposit"));
  REQUIRE(tables.at(0).rows.size() == 2 * 3);
  std::size_t at = 0;
  for (const json& cell : grid.report.at("cells"))
    for (const json& system : cell.at("systems")) {
      const auto& row = tables.at(0).rows.at(at++);
      CHECK(row.at("system") == system.at("name"));
      CHECK(sluice_test::tells(row.at("kv-blocks"), cell.at("at").at("kv-blocks")));
      for (const json& figure : data.at("figures")) {
        const std::string key = figure.at("key");
        CAPTURE(key);
        CHECK(sluice_test::tells(row.at(key), system.at(key)));
      }
    }
}

TEST_CASE("what is wrong with a list is one line that says which value" * needs_program()) {
  const auto refused = [](const std::string& arguments, const std::string& part) {
    sluice_test::check_refused("sluice-compare", arguments, part);
  };
  refused("--kv-blocks 400,x,800", "--kv-blocks: value 2 of '400,x,800' is 'x'; expected a whole number from 1 to");
  refused("--kv-blocks 400,", "--kv-blocks: value 2 of '400,' is ''; expected");
  refused("--kv-blocks=400,0", "--kv-blocks: value 2 of '400,0' is '0'; expected");
  refused("--rate-scale 1,2,1.0", "--rate-scale: value 3 of '1,2,1.0' is '1.0' once more; expected each number once");
  refused("--rate-scale 1,-2", "--rate-scale: value 2 of '1,-2' is '-2'; expected a finite number above 0");
  refused("--memory-share 0.8,1.5", "--memory-share: it is 1.5 (at memory-share 1.5); expected");
  refused("--seed 1,2", "--seed: it is '1,2'; expected a whole number from 0 to 9223372036854775807, or --seeds");
  refused("--threads 1,2", "--threads: it is '1,2'; expected");
  refused("--slo-scale 1,1", "--slo-scale: it is '1,1'; expected each number once");
  refused("--trace-at 3", "--trace-at: there is no folder for what it is of; expected --out as well");
  refused("--trace-at 3 --batch 1,2 --out never", "--trace-at: a grid leaves no traces; expected --cells as well");
  refused("--cells", "--cells: this is one comparison; expected a grid");
  refused("--cells --batch 1,2", "--cells: there is no folder for reports; expected --out as well");
}

TEST_CASE("a grid leaves its rows as a table, and nothing of an earlier run beside it" * needs_program()) {
  const TemporaryFolder folder;
  const std::string out = workload + "--deposit off --out '" + folder.path.string() + "' ";
  const auto there = [&](const char* name) { return std::filesystem::exists(folder.path / name); };
  REQUIRE(run(out).code == 0);
  for (const char* name : {"systems.csv", "requests.csv", "traces/VllmSwap-x1.5.json"}) CHECK(there(name));
  std::ofstream(folder.path / "traces" / "mine.txt") << "kept";
  REQUIRE(run(out + "--kv-blocks 400,800 --batch 2,4 --seeds 1,2").code == 0);
  for (const char* name : {"requests.csv", "series.csv", "iterations.csv", "traces/VllmSwap-x1.5.json"})
    CHECK_FALSE(there(name));
  CHECK(there("traces/mine.txt"));
  const std::vector<std::string> rows = lines(sluice_test::content(folder.path / "systems.csv"));
  REQUIRE(rows.size() == 1 + 4 * 3 * 2);
  CHECK(rows.at(0).starts_with("kv-blocks,batch,system,tenant,deposit,slo_scale,seed,transfer,"));
  CHECK(rows.at(1).starts_with("400,2,"));
  CHECK(rows.at(24).starts_with("800,4,"));
  const auto fields = [](const json& package) { return package.at("resources").at(0).at("schema").at("fields"); };
  const json package = json::parse(sluice_test::content(folder.path / "datapackage.json"));
  CHECK(fields(package).size() == static_cast<std::size_t>(std::count(rows.at(0).begin(), rows.at(0).end(), ',')) + 1);
  REQUIRE(run(out + "--capacity 0.5 --kv-blocks 400,800").code == 0);
  CHECK_FALSE(there("systems.csv"));
  CHECK(lines(sluice_test::content(folder.path / "capacities.csv")).size() == 1 + 2 * 3);
  CHECK(lines(sluice_test::content(folder.path / "probes.csv")).size() > 1 + 2 * 3);
  REQUIRE(run(out).code == 0);
  CHECK(there("requests.csv"));
  CHECK_FALSE(there("probes.csv"));
}

TEST_CASE("over what sluice-explore left, no page of it stays that would pass for the comparison's" * needs_program()) {
  const TemporaryFolder folder;
  const auto write = [&](const char* name, const std::string& text) { std::ofstream(folder.path / name) << text; };
  const std::string out = workload + "--deposit off --out '" + folder.path.string() + "' ";
  for (const char* more : {"", "--kv-blocks 400,800", "--capacity 0.5"}) {
    CAPTURE(more);
    write("datapackage.json", R"({"name": "sluice", "resources": [{"path": "compositions.csv"}]})");
    for (const char* name : {"compositions.csv", "explore.html", "explore.json", "explored.html"})
      write(name, "as it was");
    REQUIRE(run(out + more).code == 0);
    for (const char* gone : {"compositions.csv", "explore.html", "explore.json"})
      CHECK_FALSE(std::filesystem::exists(folder.path / gone));
    CHECK(sluice_test::content(folder.path / "explored.html") == "as it was");
  }
}

TEST_CASE("a run that cannot write all of its files leaves an earlier run's as they were" * needs_program()) {
  const TemporaryFolder folder;
  const auto files = [&] {
    std::map<std::string, std::string> all;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path))
      if (entry.is_regular_file()) all[entry.path().string()] = sluice_test::content(entry.path());
    return all;
  };
  const std::string out = workload + "--deposit off --out '" + folder.path.string() + "' ";
  REQUIRE(run(out).code == 0);
  const auto before = files();
  REQUIRE(before.size() == 7 + 3);
  for (const char* more : {"--seed 2", "--kv-blocks 400,800", "--capacity 0.5"}) {
    // Small tables can be written, pages cannot: as on a full disk.
    const Ran ran =
        sluice_test::run_program("sluice-compare", "--quiet " + out + more + " 2>&1", "trap '' XFSZ; ulimit -f 16; ");
    CAPTURE(more);
    CAPTURE(ran.out);
    CHECK(ran.code == 2);
    CHECK(ran.out.find("the file cannot be written") != std::string::npos);
    CHECK((files() == before)); // not in the log
  }
}
