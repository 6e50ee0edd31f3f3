// SPDX-License-Identifier: Apache-2.0
// sluice-explore: recomputes its ranking, front and marginals from its rows; equal seeds give equal bytes.
#include "support/page.hpp"
#include "support/program.hpp"
#include "support/results.hpp"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace {

using nlohmann::json;
using sluice_test::content;
using sluice_test::Ran;
using sluice_test::TemporaryFolder;

doctest::skip needs_program() { return sluice_test::needs_program("sluice-explore"); }
Ran run(const std::string& arguments) { return sluice_test::run_program("sluice-explore", arguments); }

/// Six users, of whom the device has room for about three, so that engines differ; it takes a second.
const char* const workload = "--generate 'poisson:rate=2,requests=6,prompt=uniform(100,400),output=uniform(20,60)' "
                             "--kv-blocks 60 --batch 4 --slo-tbt 0.02 --systems "
                             "OneAtATime,VllmRecompute,VllmSwap,DynamicHeuristic,OrbitFlow --quiet";

struct Explored : sluice_test::Results {
  json report = parsed("explore.json");
  explicit Explored(const std::string& more = "") : Results("sluice-explore", std::string{workload} + " " + more) {}
};

double attainment(const json& row) { return row.at("tbt_attainment").get<double>(); }

/// The attainment of every combination that works, by its policies in the order of the roles.
std::map<std::vector<std::size_t>, double> combinations(const json& report) {
  const json& product = report.at("product");
  std::map<std::size_t, double> of_engine;
  for (const json& row : report.at("rows"))
    if (!row.at("published").get<bool>()) of_engine[row.at("number").get<std::size_t>()] = attainment(row);
  std::map<std::vector<std::size_t>, double> all;
  std::vector<std::size_t> models(product.at("roles").size(), 0);
  for (const json& original : product.at("originals")) {
    if (!original.is_null()) all[models] = of_engine.at(original.get<std::size_t>());
    for (std::size_t r = models.size(); r-- > 0;) { // an odometer, the last role turning fastest
      if (++models[r] < product.at("roles")[r].at("models").size()) break;
      models[r] = 0;
    }
  }
  return all;
}

/// Whether a cell has that number, or is empty if there is none.
bool same(const std::string& cell, const json& number) {
  if (number.is_null() || cell.empty()) return number.is_null() && cell.empty();
  return std::strtod(cell.c_str(), nullptr) == number.get<double>();
}
std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}
/// The rows about columns in a section of docs/results.md, in datapackage.json's format.
json documented(const std::string& head) {
  const std::string page = content("docs/results.md");
  const std::size_t at = page.find("\n### " + head + "\n");
  REQUIRE(at != std::string::npos);
  std::istringstream section(page.substr(at, page.find("\n#", at + 2) - at));
  json fields = json::array();
  for (std::string line; std::getline(section, line);) {
    if (line.rfind("| `", 0) != 0) continue;
    std::vector<std::string> cells;
    std::istringstream row(line.substr(1));
    for (std::string cell; std::getline(row, cell, '|');) {
      const std::size_t begin = cell.find_first_not_of(' ');
      cells.push_back(begin == std::string::npos ? "" : cell.substr(begin, cell.find_last_not_of(' ') + 1 - begin));
    }
    REQUIRE(cells.size() >= 4);
    json field{{"name", cells[0].substr(1, cells[0].size() - 2)}, {"type", cells[1]}, {"description", cells[3]}};
    if (!cells[2].empty()) field["unit"] = cells[2];
    fields.push_back(std::move(field));
  }
  return fields;
}

} // namespace

TEST_CASE("rows are ranked by users' metrics, without the control" * needs_program()) {
  const Explored explored;
  const json& rows = explored.report.at("rows");
  const json& product = explored.report.at("product");
  CHECK(rows.size() == product.at("engines").get<std::size_t>() + 5);
  CHECK(product.at("combinations").get<std::size_t>() == product.at("engines").get<std::size_t>() +
                                                             product.at("repeats").get<std::size_t>() +
                                                             product.at("conflicts").get<std::size_t>());
  std::set<std::string> names;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    CAPTURE(i);
    const json& row = rows[i];
    CHECK(names.insert(row.at("name").get<std::string>()).second);
    if (row.at("control").get<bool>()) {
      CHECK(i == rows.size() - 1);
      CHECK(row.at("rank").is_null());
      continue;
    }
    std::size_t better = 0;
    for (const json& other : rows)
      if (!other.at("control").get<bool>() && attainment(other) > attainment(row)) ++better;
    CHECK(row.at("rank").get<std::size_t>() > better);
    if (row.at("same_as").is_null()) CHECK(row.at("rank").get<std::size_t>() == i + 1);
    if (i > 0 && attainment(rows[i - 1]) == attainment(row))
      CHECK(rows[i - 1].at("mean_e2e_all_s").get<double>() <= row.at("mean_e2e_all_s").get<double>());
  }
  CHECK(names.count("Engine<>") == 1);
}

TEST_CASE("no row is better than one on the front in both tokens per second and tokens in time" * needs_program()) {
  const Explored explored;
  std::size_t front = 0;
  for (const json& row : explored.report.at("rows")) {
    if (row.at("control").get<bool>()) continue;
    bool beaten = false;
    for (const json& other : explored.report.at("rows")) {
      if (other.at("control").get<bool>()) continue;
      const double rate =
          other.at("throughput_tokens_per_s").get<double>() - row.at("throughput_tokens_per_s").get<double>();
      const double in_time = attainment(other) - attainment(row);
      beaten = beaten || (rate >= 0 && in_time >= 0 && rate + in_time > 0);
    }
    CHECK(row.at("pareto").get<bool>() == !beaten);
    if (!beaten) ++front;
  }
  CHECK(front > 0);
}

TEST_CASE("the effect of a choice, recomputed pair by pair" * needs_program()) {
  const Explored explored;
  const auto all = combinations(explored.report);
  const json& roles = explored.report.at("product").at("roles");
  double last_spread = 1;
  std::size_t told = 0, differ = 0;
  for (const json& marginals : explored.report.at("marginals")) {
    const auto role = static_cast<std::size_t>(
        std::find_if(roles.begin(), roles.end(), [&](const json& r) { return r.at("role") == marginals.at("role"); }) -
        roles.begin());
    REQUIRE(role < roles.size());
    CHECK(marginals.at("spread").get<double>() <= last_spread);
    last_spread = marginals.at("spread").get<double>();
    for (std::size_t m = 0; m < roles[role].at("models").size(); ++m, ++told) {
      const json& marginal = marginals.at("models")[m];
      CHECK(marginal.at("model") == roles[role].at("models")[m]);
      double sum = 0, best = 0, gain = 0;
      std::size_t count = 0, pairs = 0, better = 0, worse = 0;
      for (const auto& [models, value] : all) {
        if (models[role] != m) continue;
        ++count;
        sum += value;
        best = std::max(best, value);
        std::vector<std::size_t> reference = models;
        reference[role] = 0;
        if (m == 0 || all.count(reference) == 0) continue;
        ++pairs;
        gain += value - all.at(reference);
        if (value > all.at(reference)) ++better;
        if (value < all.at(reference)) ++worse;
      }
      CHECK(marginal.at("combinations").get<std::size_t>() == count);
      CHECK(marginal.at("mean").get<double>() == doctest::Approx(sum / static_cast<double>(count)));
      CHECK(marginal.at("best").get<double>() == best);
      CHECK(marginal.at("pairs").get<std::size_t>() == pairs);
      CHECK(marginal.at("better").get<std::size_t>() == better);
      CHECK(marginal.at("worse").get<std::size_t>() == worse);
      if (pairs > 0) CHECK(marginal.at("gain").get<double>() == doctest::Approx(gain / static_cast<double>(pairs)));
      differ += better + worse;
    }
  }
  CHECK(told >= 10);
  CHECK(differ > 0); // otherwise the test would check nothing
}

TEST_CASE("a composition that is a published system has its figures, though compiled elsewhere" * needs_program()) {
  const Explored explored;
  std::map<std::string, json> by_name;
  for (const json& row : explored.report.at("rows")) by_name[row.at("name").get<std::string>()] = row;
  for (const auto& [engine, system] :
       std::map<std::string, std::string>{{"Engine<>", "VllmRecompute"}, {"Engine<MoveToHost>", "VllmSwap"}})
    for (const auto& item :
         by_name.at(system).items()) { // clang 14 lets no lambda, such as CAPTURE's, refer to a binding
      const std::string key = item.key();
      if (item.value().is_number() && key != "rank") {
        CAPTURE(key);
        CHECK(by_name.at(engine).at(key) == item.value());
      }
    }
}

TEST_CASE("rows reported to beat every published system do" * needs_program()) {
  const Explored explored;
  double published = 0;
  for (const json& row : explored.report.at("rows"))
    if (row.at("published").get<bool>() && !row.at("control").get<bool>())
      published = std::max(published, attainment(row));
  std::set<std::string> said;
  for (const json& engine : explored.report.at("beats_published")) said.insert(engine.get<std::string>());
  for (const json& row : explored.report.at("rows")) {
    if (row.at("published").get<bool>() || !row.at("same_as").is_null()) continue;
    CHECK((said.count(row.at("engine").get<std::string>()) == 1) == (attainment(row) > published));
  }
  if (!said.empty()) CHECK(explored.printed.find(explored.report.at("beats_published")[0]) != std::string::npos);
}

TEST_CASE("Confluence is ranked, as this project's own and no published system" * needs_program()) {
  std::string flags = workload;
  flags.replace(flags.find("OrbitFlow"), std::string{"OrbitFlow"}.size(), "Confluence");
  const sluice_test::Results explored("sluice-explore", flags + " --seeds 1..2");
  const json report = explored.parsed("explore.json");
  std::size_t own = 0;
  for (const json& row : report.at("rows")) {
    const bool is_it = row.at("name") == "Confluence";
    own += row.at("own").get<bool>() ? 1U : 0U;
    CHECK(row.at("own").get<bool>() == is_it);
    CHECK((row.at("published").get<bool>() || row.contains("models")) == !is_it);
    CHECK(row.at("against").at("name") != "Confluence");
  }
  CHECK(own == 1);
  const std::size_t published = explored.printed.find("Published systems, ranked among all"),
                    owns = explored.printed.find("Own systems, of this project or program, ranked among all");
  REQUIRE(published != std::string::npos);
  REQUIRE(owns != std::string::npos);
  CHECK(explored.printed.substr(published, owns - published).find("Confluence") == std::string::npos);
  CHECK(explored.printed.find("Confluence", owns) != std::string::npos);
}

TEST_CASE("tables: a row for each composition and seed has the figures that explore.json has" * needs_program()) {
  for (const std::string seeds : {"", "--seeds 4..5"}) {
    CAPTURE(seeds);
    const Explored explored(seeds);
    const json& report = explored.report;
    const json& of_seeds = report.at("workload").at("seeds");
    const sluice_test::Table rows = explored.table("compositions");
    REQUIRE(rows.size() == report.at("rows").size() * of_seeds.size());
    std::size_t at = 0, figures = 0;
    for (const json& row : report.at("rows"))
      for (std::size_t seed = 0; seed < of_seeds.size(); ++seed, ++at) {
        const auto& cells = rows[at];
        CAPTURE(at);
        CHECK(cells.at("system") == row.at("name"));
        CHECK(cells.at("engine") == row.at("engine"));
        CHECK(same(cells.at("seed"), of_seeds[seed]));
        CHECK(same(cells.at("rank"), row.at("rank")));
        CHECK(same(cells.at("slo_tbt_s"), report.at("slo_tbt_s")));
        CHECK(cells.at("same_as") == (row.at("same_as").is_null() ? "" : row.at("same_as").get<std::string>()));
        for (const char* name : {"published", "own", "control", "pareto"})
          CHECK(cells.at(name) == (row.at(name).get<bool>() ? "true" : "false"));
        for (const json& role : report.at("product").at("roles")) {
          const std::string of = role.at("role");
          CHECK(cells.at(lower(of) + "_policy") ==
                (row.at("published").get<bool>() ? "" : row.at("models").at(of).get<std::string>()));
        }
        const json& numbers = row.contains("per_seed") ? row.at("per_seed") : row;
        for (const auto& [name, cell] : cells) {
          if (name == "slo_tbt_s" || name == "seed" || name == "rank" || !numbers.contains(name)) continue;
          const json& number = numbers.at(name).is_array() ? numbers.at(name).at(seed) : numbers.at(name);
          if (!number.is_number() && !number.is_null()) continue;
          const std::string column = name;
          CAPTURE(column);
          CHECK(same(cell, number));
          ++figures;
        }
      }
    CHECK(figures > rows.size() * 20);

    const sluice_test::Table choices = explored.table("choices");
    at = 0;
    for (const json& marginals : report.at("marginals"))
      for (const json& model : marginals.at("models")) {
        REQUIRE(at < choices.size());
        const auto& cells = choices[at++];
        CHECK(cells.at("role") == marginals.at("role"));
        CHECK(cells.at("policy") == model.at("model"));
        CHECK(same(cells.at("spread"), marginals.at("spread")));
        CHECK(same(cells.at("best_tbt_attainment"), model.at("best")));
        CHECK(same(cells.at("mean_tbt_attainment"), model.at("mean")));
        for (const char* name : {"combinations", "pairs", "better", "worse"})
          CHECK(same(cells.at(name), model.at(name)));
        const bool paired = model.at("pairs").get<int>() > 0;
        CHECK(same(cells.at("gain"), paired ? model.at("gain") : json{}));
        const json interval = model.value("gain_interval", json::array({nullptr, nullptr}));
        CHECK(same(cells.at("gain_least"), interval.at(0)));
        CHECK(same(cells.at("gain_most"), interval.at(1)));
      }
    CHECK(at == choices.size());
  }
}

TEST_CASE("tables: datapackage.json and docs/results.md have the tables' columns" * needs_program()) {
  const Explored explored;
  const json package = explored.parsed("datapackage.json");
  CHECK(package.at("made_by").get<std::string>().find("(commit ") != std::string::npos);
  CHECK(package.at("command") == explored.report.at("workload").at("command"));
  REQUIRE(package.at("resources").size() == 2);
  json run = documented("The first columns of every table");
  for (const json& resource : package.at("resources")) {
    const json& fields = resource.at("schema").at("fields");
    std::vector<std::string> names;
    for (const json& field : fields) names.push_back(field.at("name"));
    const std::string text = explored.text(resource.at("path"));
    CHECK(sluice_test::read_csv_rows(text.substr(0, text.find('\n') + 1)).at(0) == names);
    if (resource.at("name") == "choices") {
      CHECK(fields == documented("choices.csv"));
      continue;
    }
    json said = run;
    for (const json& field : documented("compositions.csv")) said.push_back(field);
    for (const json& role : explored.report.at("product").at("roles"))
      said.push_back({{"name", lower(role.at("role")) + "_policy"},
                      {"type", "string"},
                      {"description", "the composition's policy for that role; empty: of a system"}});
    for (const json& field : documented("systems.csv")) said.push_back(field);
    REQUIRE(fields.size() > said.size());
    CHECK(json(std::vector<json>(fields.begin(), fields.begin() + static_cast<std::ptrdiff_t>(said.size()))) == said);
    CHECK(fields.at(said.size()).at("name") == "tbt_attainment"); // the metrics, by their names
  }
}

TEST_CASE("several seeds: ranked by the mean, compared with the best published" * needs_program()) {
  const Explored explored("--seeds 1..3"), second("--seed 2");
  const json& report = explored.report;
  CHECK(report.at("workload").at("seeds") == json({1, 2, 3}));
  std::map<std::string, json> of_second, rows;
  for (const json& row : second.report.at("rows")) of_second[row.at("name").get<std::string>()] = row;
  for (const json& row : report.at("rows")) rows[row.at("name").get<std::string>()] = row;
  double last = 2, best_published = -1;
  std::string reference;
  for (const json& row : report.at("rows")) {
    if (row.at("control").get<bool>()) continue;
    CHECK(attainment(row) <= last);
    last = attainment(row);
    if (row.at("published").get<bool>() && attainment(row) > best_published)
      best_published = attainment(row), reference = row.at("name").get<std::string>();
  }
  for (const json& row : report.at("rows")) {
    const std::string name = row.at("name").get<std::string>();
    CAPTURE(name);
    const auto values = row.at("per_seed").at("tbt_attainment").get<std::vector<double>>();
    CHECK(values.size() == 3);
    CHECK(row.at("per_seed").at("tbt_attainment").at(1) == of_second.at(name).at("tbt_attainment"));
    const json& against = row.at("against");
    CHECK(against.at("name") == reference);
    const auto theirs = rows.at(reference).at("per_seed").at("tbt_attainment").get<std::vector<double>>();
    std::size_t more = 0;
    for (std::size_t i = 0; i < 3; ++i) more += values[i] > theirs[i] ? 1U : 0U;
    CHECK(against.at("more").get<std::size_t>() == more);
    CHECK(against.at("difference").get<double>() == doctest::Approx(attainment(row) - best_published));
  }
  CHECK(explored.printed.find("Means of 3 seeds") != std::string::npos);
  CHECK(second.printed.find("one seed: with other seeds a difference") != std::string::npos);
}

TEST_CASE("the page's table has every row of the report" * needs_program()) {
  const Explored explored("--seeds 1,2");
  const std::string page = explored.text("explore.html");
  CHECK(page.find("src=") == std::string::npos);
  CHECK(sluice_test::page_data(page).at("seeds") == json({1, 2}));
  const std::vector<sluice_test::PageTable> tables = sluice_test::page_tables(page);
  REQUIRE(tables.size() == 1);
  REQUIRE(tables.at(0).rows.size() == explored.report.at("rows").size());
  for (std::size_t i = 0; i < tables.at(0).rows.size(); ++i) {
    const auto& row = tables.at(0).rows.at(i);
    const json& wanted = explored.report.at("rows").at(i);
    CAPTURE(i);
    CHECK(sluice_test::tells(row.at("rank"), wanted.at("rank")));
    for (const char* key : {"tbt_attainment", "per_token_attainment", "ttft_attainment", "slo_attainment",
                            "goodput_requests_per_s", "mean_e2e_all_s", "longest_gap_all_s", "throughput_tokens_per_s",
                            "stall_share", "times_preempted", "refused"}) {
      CAPTURE(key);
      CHECK(sluice_test::tells(row.at(key), wanted.at(key)));
    }
  }
}

TEST_CASE("livelocked engines end, rank last, and count in no figure" * needs_program()) {
  const TemporaryFolder folder;
  const Ran ran = run("--generate 'poisson:rate=20,requests=30,prompt=uniform(500,3500),output=uniform(50,250)' "
                      "--device a5000 --kv-blocks 400 --batch 8 --systems VllmSwap --quiet --out '" +
                      folder.path.string() + "'");
  REQUIRE(ran.code == 0);
  const json report = json::parse(content(folder.path / "explore.json"));
  std::size_t livelocked = 0, rank = 0;
  for (const json& row : report.at("rows")) {
    const std::string what = row.at("livelock").get<std::string>();
    if (what.empty()) {
      CHECK((row.at("control").get<bool>() || livelocked == 0)); // after all others
      continue;
    }
    ++livelocked;
    CHECK(what.find("no request ended and no token was made") != std::string::npos);
    CHECK(row.at("models").at("Admission").get<std::string>() == "LargestVirtualLagFirst");
    CHECK(!row.at("pareto").get<bool>());
    CHECK(row.at("rank").get<std::size_t>() >= rank);
    rank = row.at("rank").get<std::size_t>();
  }
  CHECK(livelocked > 0);
  CHECK(ran.out.find(std::to_string(livelocked) + " engines livelock on this workload") != std::string::npos);
  CHECK(content(folder.path / "explore.html").find("livelocked: in ") != std::string::npos);
}

TEST_CASE("tables: with several seeds only the runs that were ended early have a reason" * needs_program()) {
  const std::string workload =
      "--generate 'poisson:rate=0.1,requests=8,prompt=uniform(500,3000),output=uniform(20,100)' "
      "--kv-blocks 300 --batch 8 --systems VllmSwap --quiet ";
  using Text = std::map<std::pair<std::string, std::string>, std::string>; // by system and seed
  const auto texts = [&](const std::string& seeds, Text& all) {
    const TemporaryFolder folder;
    REQUIRE(run(workload + seeds + " --out '" + folder.path.string() + "' >/dev/null").code == 0);
    for (const auto& row : sluice_test::read_csv(content(folder.path / "compositions.csv"))) {
      const std::string served = row.at("served");
      CAPTURE(served);
      CHECK((row.at("livelock").empty() || served != "8"));
      all[{row.at("system"), row.at("seed")}] = row.at("livelock");
    }
  };
  Text together, alone;
  texts("--seeds 1,2", together);
  for (const char* seed : {"--seed 1", "--seed 2"}) texts(seed, alone);
  CHECK(together == alone);
  std::size_t differ = 0;
  for (const auto& [run_of, text] : together)
    if (run_of.second == "1" && text.empty() != together.at({run_of.first, "2"}).empty()) ++differ;
  CHECK(differ > 0);
}
