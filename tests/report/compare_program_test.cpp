// SPDX-License-Identifier: Apache-2.0
// sluice-compare: its presets are what they say, given flags win, and what is wrong is one line and exit code 2.
#include "support/program.hpp"
#include "support/shared_data.hpp"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace {

using sluice_test::Ran;
using sluice_test::TemporaryFolder;

doctest::skip needs_program() { return sluice_test::needs_program("sluice-compare"); }
/// What it prints, errors too. `SLUICE_SHARED` is where these tests find the shared folder, wherever that is.
Ran run(const std::string& arguments) {
  const std::string shared = sluice_test::shared_folder().string();
  return sluice_test::run_program("sluice-compare", "--quiet " + arguments + " 2>&1",
                                  shared.empty() ? "" : "SLUICE_SHARED='" + shared + "' ");
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) all.push_back(line);
  return all;
}
bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// The names below `--preset:` in what --list prints.
std::vector<std::string> preset_names() {
  const Ran listed = run("--list");
  REQUIRE(listed.code == 0);
  std::vector<std::string> names;
  bool presets = false;
  for (const std::string& line : lines(listed.out)) {
    if (presets) names.push_back(line.substr(0, line.find(' ')));
    presets = presets || line == "--preset:";
  }
  return names;
}

/// The comparisons that a dry run names, behind the preset's own line.
std::vector<std::string> dry_run(const std::string& arguments) {
  const Ran ran = run(arguments + " --dry-run");
  CAPTURE(ran.out);
  REQUIRE(ran.code == 0);
  std::vector<std::string> all = lines(ran.out);
  REQUIRE(all.size() > 2);
  return {all.begin() + 2, all.end()};
}

bool absent_data(const Ran& ran) {
  return sluice_test::shared_folder().empty() && ran.code == 2 && contains(ran.out, "which is not there");
}

} // namespace

TEST_CASE("every preset can be run: known systems and columns, values within the flags' ranges, figures of what runs" *
          needs_program()) {
  const std::vector<std::string> names = preset_names();
  for (const char* paper : {"orbitflow", "select-n", "ellm", "superinfer", "mirage"})
    CHECK(std::find(names.begin(), names.end(), paper) != names.end());
  for (const std::string& name : names) {
    const Ran ran = run("--preset " + name + " --dry-run");
    CHECK_MESSAGE((ran.code == 0 || absent_data(ran)), name, ": ", ran.out);
    const Ran all = run("--preset " + name + " --systems all --dry-run");
    CHECK_MESSAGE((all.code == 0 || absent_data(all)), name, ": ", all.out);
  }
}

TEST_CASE("a flag that is given wins over a preset's, and the first line says so" * needs_program()) {
  const Ran ran = run("--preset superinfer --batch 7 --systems SuperInfer,OneAtATime --dry-run");
  REQUIRE(ran.code == 0);
  const std::vector<std::string> all = lines(ran.out);
  CHECK(contains(all.front(), "superinfer: "));
  CHECK(contains(all.front(), "given instead of its own: "));
  CHECK(contains(all.front(), "--batch"));
  CHECK(contains(all.front(), "--systems"));
  CHECK_FALSE(contains(all.front(), "--model"));
  REQUIRE(all.size() > 3);
  for (std::size_t i = 2; i < all.size(); ++i) {
    CHECK(contains(all[i], "batch 7;"));
    CHECK(contains(all[i], " SuperInfer OneAtATime"));
    CHECK_FALSE(contains(all[i], "Vllm"));
  }
  CHECK_FALSE(contains(run("--preset superinfer --dry-run").out, "given instead"));
}

TEST_CASE("cases that a given flag makes the same are one, and what a flag makes meaningless stands back" *
          needs_program()) {
  CHECK(dry_run("--preset superinfer-rotation").size() > 1);
  CHECK(dry_run("--preset superinfer-rotation --rotation-blocks 50").size() == 1);
  const std::vector<std::string> generated = dry_run("--preset superinfer --generate demo");
  REQUIRE(generated.size() == 1);
  CHECK(contains(generated.front(), "demo"));
  // Another workload than the trace: neither its format nor its rate, nor the lengths that replace its own.
  const Ran ran = run("--preset mirage --generate demo --dry-run");
  CHECK(ran.code == 0);
  CHECK(lines(ran.out).size() == 3);
}

TEST_CASE("a preset of tenants with loads of their own stands back where other tenants or another load are given" *
          needs_program()) {
  CHECK(dry_run("--preset mirage-rates").size() == 3);
  const std::vector<std::string> others = dry_run("--preset mirage-rates --tenants opt-6.7b@0.4,opt-6.7b@0.4 "
                                                  "--generate sharegpt:rate=1,requests=30");
  REQUIRE(others.size() == 1);
  CHECK(contains(others.front(), "opt-6.7b (40 %) + opt-6.7b-2 (40 %)"));
  CHECK(contains(others.front(), ", 30 requests"));
}

TEST_CASE("one model instead of a preset's tenants, and tenants instead of its model" * needs_program()) {
  const auto first_case = [](const std::string& arguments) {
    const Ran ran = run(arguments + " --dry-run");
    CAPTURE(ran.out);
    CHECK((ran.code == 0 || absent_data(ran)));
    const std::vector<std::string> all = lines(ran.out);
    return ran.code == 0 ? all.at(2) : std::string{};
  };
  // Flags that are meant for a preset's tenants go with them, and may be given where a preset has tenants.
  const std::string own = "--generate even:rate=1,requests=9,prompt=64,output=8 ";
  const std::string model = first_case("--preset select-n-bus --model opt-6.7b --systems SelectN");
  CHECK(contains(model, "opt-6.7b on"));
  CHECK_FALSE(contains(model, "%"));
  const std::string tenants = first_case(
      "--preset select-n-interval --tenants opt-13b@0.9,opt-6.7b@0.9 --sharing devices --slo-tbt 0.5 " + own);
  CHECK(contains(tenants, "opt-13b (90 %) + opt-6.7b (90 %)"));
  CHECK(contains(first_case("--preset select-n-bus --bus 50GB/s " + own), "9 requests"));
  const std::string load = "--tenant-load even:rate=1,requests=4,prompt=64,output=8 ";
  CHECK(contains(first_case("--preset select-n-bus " + load + load), "8 requests"));
}

TEST_CASE("what is wrong is one line, with what would be right" * needs_program()) {
  const struct {
    const char* arguments;
    const char* what;
  } wrong[] = {
      {"--preset nonsense", "--preset: there is no preset 'nonsense'; expected one of orbitflow, "},
      {"--preset ''x", "--preset: there is no preset 'x'"},
      {"--preset ''", "--preset: there is no preset ''; expected one of orbitflow, "},
      {"--table html", "--table: it is 'html'; expected full, md or csv"},
      {"--table md --columns system,speed", "--columns: there is no column 'speed'; expected any of case, system, "},
      {"--table md --columns tbt@x", "--columns: there is no column 'tbt@x'"},
      {"--format csv --columns arrival=ts,prompt=in,output=out",
       "--columns: 'arrival=ts' is no column of a table; expected names that --columns help lists; which of a trace's "
       "columns is what, --trace-columns says"},
      {"--table md --columns ''", nullptr},
      {"--columns tbt", "--columns: the full table has columns of its own; expected --table md or csv"},
      {"--slo-base step", "--slo-base: it is 'step'; expected budget or batch"},
      {"--memory-share 1.5", "--memory-share: it is 1.5; expected a share"},
      {"--lengths demo", "--lengths: no trace is given; expected --trace"},
      {"--threads 0", "--threads: it is '0'; expected a whole number from 1"},
      {"--seeds 5..1", "--seeds: it is '5..1'; expected whole numbers such as 1,2,5 or a range such as 1..20"},
      {"--seeds 1,2,1", "--seeds: it is '1,2,1'; expected"},
      {"--seeds ''x", "--seeds: it is 'x'; expected"},
      {"--seed 3 --seeds 1..2", "--seed"},
      {"--baseline OrbitFlow", "--baseline: there is one seed, and nothing to judge by; expected --seeds"},
      {"--seeds 1..3 --baseline Nobody", "--baseline: 'Nobody' is not among the systems; expected"},
      {"--seeds 1..3 --resample blocks", "--resample: no trace is given; expected --trace"},
      {"--interval 0", "--interval: it is '0'; expected a whole number from 1"},
      {"--systems OrbitFlowSrtf --transfer next-layer", "--transfer: "},
      {"--preset superinfer --batch 0", "--batch: it is '0'"},
      {"--preset superinfer --format azure", "--format: no trace is given"},
  };
  for (const auto& each : wrong) {
    if (each.what == nullptr) continue;
    const Ran ran = run(std::string{each.arguments} + " --dry-run");
    CAPTURE(each.arguments);
    CAPTURE(ran.out);
    CHECK(ran.code == 2);
    CHECK(contains(ran.out, each.what));
    CHECK(std::count(ran.out.begin(), ran.out.end(), '\n') == 1);
  }
}

TEST_CASE("a table of columns: a row a system and case, the same numbers as Markdown and as CSV" * needs_program()) {
  const std::string small = "--preset select-n-interval --columns case,system,served,interval@1.5 ";
  const Ran csv = run(small + "--table csv");
  REQUIRE(csv.code == 0);
  const std::vector<std::string> rows = lines(csv.out);
  CHECK(rows.front() == "case,system,served,interval@1.5");
  CHECK(rows.size() == 1 + dry_run("--preset select-n-interval").size());
  for (std::size_t i = 1; i < rows.size(); ++i) CHECK(std::count(rows[i].begin(), rows[i].end(), ',') == 3);
  // 32 layers: of an interval of 8, four; of 1, all.
  CHECK(contains(csv.out, "interval 8,DeepSpeedWeights,128,8\n"));
  CHECK(contains(csv.out, "interval 1,DeepSpeedWeights,128,1\n"));

  const Ran table = run(small);
  REQUIRE(table.code == 0);
  CHECK(contains(table.out, "| system "));
  CHECK(contains(table.out, "| figure "));
  CHECK(contains(table.out, "here / paper |"));
  std::size_t width = 0;
  for (const std::string& line : lines(table.out)) {
    if (line.empty() || line.front() != '|') {
      width = 0;
      continue;
    }
    CHECK((width == 0 || line.size() == width)); // aligned in its source
    width = line.size();
  }
}

TEST_CASE("tenants: a row for all and one for each, nobody lost, and the same bytes again" * needs_program()) {
  const std::string what = "--tenants opt-13b@0.35,llama2-13b@0.35,llama3-8b@0.2 --device gh200-96 --generate "
                           "sharegpt:rate=6,requests=60 --slo-tbt 0.1 --deposit off --systems VllmRecompute,Mirage "
                           "--table csv --columns system,served,refused,tokens ";
  for (const std::string sharing : {"turns", "together", "parts"}) {
    INFO(sharing);
    const auto first = run(what + "--sharing " + sharing);
    CHECK(first.code == 0);
    CHECK(first.out == run(what + "--sharing " + sharing).out);
    std::map<std::string, long> served;
    for (const std::string& line : lines(first.out)) {
      const std::size_t comma = line.find(',');
      if (comma != std::string::npos && line.substr(0, comma) != "system")
        served[line.substr(0, comma)] = std::strtol(line.c_str() + comma + 1, nullptr, 10);
    }
    for (const std::string system : {"VllmRecompute", "Mirage"}) {
      CHECK(served[system] == 60);
      CHECK(served[system + "/opt-13b"] + served[system + "/llama2-13b"] + served[system + "/llama3-8b"] == 60);
    }
  }
  for (const char* wrong :
       {"--tenants opt-13b", "--tenants opt-13b@0.9", "--tenants opt-13b@0.9,opt-13b@0.9",
        "--tenants opt-13b@0.4,opt-13b@0.3 --systems Ellm", "--tenants opt-13b@0.4,opt-13b@0.3 --model opt-13b",
        "--tenants opt-13b@0.4,opt-13b@0.3 --sharing so", "--tenants opt-13b@0.4,opt-13b@0.3 --tenant-load demo",
        "--tenant-load demo", "--sharing turns", "--quantum 1", "--bus 25GB/s", "--remap-order mru",
        "--tenants llama3-8b@0.4,llama3-8b@0.4 --device a5000 --tp 2 --sharing together"}) {
    INFO(wrong);
    const auto failed = run(wrong);
    CHECK(failed.code == 2);
    CHECK(lines(failed.out).size() == 1);
    CHECK(contains(failed.out, "expected"));
  }
}

/// The cells of a CSV table by its first column, the row's system; in a row the columns that were asked for.
std::map<std::string, std::vector<std::string>> cells(const std::string& csv) {
  std::map<std::string, std::vector<std::string>> table;
  for (const std::string& line : lines(csv)) {
    std::vector<std::string> row;
    std::istringstream stream(line + ",");
    for (std::string cell; std::getline(stream, cell, ',');) row.push_back(cell);
    table[row.front()] = {row.begin() + 1, row.end()};
  }
  return table;
}

TEST_CASE("tenants: what needs a model is of the tenant's own, and of all of them there is none" * needs_program()) {
  // Weights of which every second layer is on the host: half of them, whoever's.
  const Ran ran =
      run("--tenants opt-13b@0.35,opt-6.7b@0.3 --device gh200-96 --generate even:rate=5,requests=8,prompt=64,"
          "output=16 --slo-tbt 0.5 --deposit off --systems DeepSpeedWeights --interval 2 --table csv "
          "--columns system,weights-share,interval,kv-room,weights-host");
  REQUIRE(ran.code == 0);
  auto table = cells(ran.out);
  for (const std::string name : {"opt-13b", "opt-6.7b"}) {
    const std::vector<std::string>& row = table["DeepSpeedWeights/" + name];
    REQUIRE(row.size() == 4);
    CHECK(std::strtod(row[0].c_str(), nullptr) == doctest::Approx(0.5));
    CHECK(std::strtod(row[1].c_str(), nullptr) == doctest::Approx(2));
    CHECK(std::strtod(row[2].c_str(), nullptr) > 1000);
  }
  CHECK(table["DeepSpeedWeights/opt-13b"][3] != table["DeepSpeedWeights/opt-6.7b"][3]);
  const std::vector<std::string>& all = table["DeepSpeedWeights"];
  REQUIRE(all.size() == 4);
  for (std::size_t i = 0; i < 3; ++i) CHECK(all[i].empty());
}

TEST_CASE("tenants: the host's memory is divided, so that a share of it is not swapped into" * needs_program()) {
  const std::string what = "--tenants opt-6.7b@0.2,opt-6.7b@0.2 --device gh200-96 --generate "
                           "even:rate=100,requests=40,prompt=800,output=200 --slo-tbt 0.5 --deposit off "
                           "--systems VllmSwap --table csv --columns system,gb-out ";
  const auto out = [&](const std::string& more) { // GB written out by both
    const Ran ran = run(what + more);
    REQUIRE(ran.code == 0);
    return std::strtod(cells(ran.out)["VllmSwap"].at(0).c_str(), nullptr);
  };
  const double plenty = out("--host-memory 200GB");
  CHECK(plenty > 0);
  CHECK(out("--host-memory 300kB") == 0);
  CHECK(run(what + "--dry-run").code == 0);
}

/// Every system and variant, by the names that --list prints before the presets.
std::string every_system() {
  const Ran listed = run("--list");
  REQUIRE(listed.code == 0);
  std::string names;
  for (const std::string& line : lines(listed.out)) {
    if (line.empty()) break;
    names += (names.empty() ? "" : ",") + line.substr(0, line.find(' '));
  }
  return names;
}

/// report.json of a run, twice; and of another seed, once.
void check_same_bytes(const std::string& what, std::size_t rows, std::size_t requests) {
  const TemporaryFolder folder;
  const auto report = [&](const std::string& seed) {
    const Ran ran = run(what + " --seed " + seed + " --out '" + folder.path.string() + "'");
    CAPTURE(ran.out);
    REQUIRE(ran.code == 0);
    return sluice_test::content(folder.path / "report.json");
  };
  const std::string first = report("5");
  CHECK(first == report("5"));
  const nlohmann::json json = nlohmann::json::parse(first);
  CHECK(json.at("systems") != nlohmann::json::parse(report("6")).at("systems"));
  CHECK(json.at("systems").size() == rows);
  std::size_t of_all = 0;
  for (const nlohmann::json& system : json.at("systems")) {
    const std::string name = system.at("name").get<std::string>();
    CAPTURE(name);
    const auto served = system.at("served").get<std::size_t>();
    const auto refused = system.at("refused").get<std::size_t>();
    if (contains(name, "/")) continue; // a tenant's: with the others'
    ++of_all;
    CHECK(served + refused == requests);
  }
  CHECK(of_all > 0);
}

TEST_CASE("the same seed gives the same bytes of report.json: every system, with and without a deposit" *
          needs_program()) {
  const std::string systems = every_system();
  const auto count = static_cast<std::size_t>(std::count(systems.begin(), systems.end(), ',')) + 1;
  CHECK(count > 30);
  check_same_bytes("--generate demo:requests=5 --systems " + systems, 2 * count - 1, 5); // OrbitFlowPause has none
}

TEST_CASE("the same seed gives the same bytes of report.json: every system that serves tenants" * needs_program()) {
  const std::string what =
      "--tenants opt-13b@0.35,llama3-8b@0.35 --device gh200-96 --slo-tbt 0.1 --deposit off --generate "
      "'poisson:rate=6,requests=12,prompt=uniform(50,200),output=uniform(8,24)' --sharing ";
  for (const std::string sharing : {"turns", "together", "devices"}) {
    INFO(sharing);
    check_same_bytes(what + sharing, 7 * 3, 12); // a row for both and one for each
  }
}

TEST_CASE("rows run beside each other give the bytes that they give one after the other" * needs_program()) {
  const TemporaryFolder temporary;
  const std::string folder = temporary.path.string();
  const auto bytes = [&](const std::string& name) {
    std::string json = sluice_test::content(temporary.path / name / "report.json");
    for (const char* differs : {"--threads 1", "--threads 4", "/one", "/four"}) // the command that repeats it
      for (std::size_t at; (at = json.find(differs)) != std::string::npos;) json.erase(at, std::string{differs}.size());
    return json;
  };
  const std::string what = "--generate demo:requests=8 --slo-scale 1,2 --systems "
                           "OneAtATime,VllmRecompute,SuperInfer,DynamicHeuristic,Mirage,OrbitFlow ";
  CHECK(run(what + "--threads 1 --out '" + folder + "/one'").code == 0);
  CHECK(run(what + "--threads 4 --out '" + folder + "/four'").code == 0);
  CHECK(bytes("one").size() > 1000);
  CHECK(bytes("one") == bytes("four"));
}
