// SPDX-License-Identifier: Apache-2.0
#include "sluice/core/random.hpp"
#include "sluice/report/csv.hpp"
#include "sluice/report/csv_tables.hpp"
#include "sluice/report/report.hpp"

#include "report/read_csv.hpp"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>
#include <string>
#include <vector>

using namespace sluice;
using nlohmann::json;

TEST_CASE("a row of CSV is read back as it was written, whatever its cells") {
  Random random(5);
  const std::string letters = "ab ,\"\r\n;'\xC3\xA9";
  for (int trial = 0; trial < 500; ++trial) {
    std::vector<std::string> texts(1 + random.below(5));
    std::string out;
    const double number = (random.uniform() - 0.5) * std::pow(10.0, static_cast<double>(random.below(40)) - 20);
    {
      CsvRow row(out);
      row.cell(number);
      for (std::string& text : texts) {
        for (std::size_t i = random.below(8); i > 0; --i) text += letters[random.below(letters.size())];
        row.cell(text);
      }
      row.cell(true);
      row.cell(std::numeric_limits<double>::infinity());
      row.cell(std::numeric_limits<double>::quiet_NaN());
      row.cell(std::int64_t{-7});
    }
    const auto read = sluice_test::read_csv_rows(out);
    REQUIRE(read.size() == 1);
    const std::vector<std::string>& cells = read.front();
    REQUIRE(cells.size() == texts.size() + 5);
    CHECK(std::stod(cells[0]) == number);
    for (std::size_t i = 0; i < texts.size(); ++i) CHECK(cells[i + 1] == texts[i]);
    CHECK(cells[texts.size() + 1] == "true");
    CHECK(cells[texts.size() + 2].empty());
    CHECK(cells[texts.size() + 3].empty());
    CHECK(cells[texts.size() + 4] == "-7");
  }
}

TEST_CASE("a row has a cell for each column") {
  const CsvRun run{.system = "A, with a comma"};
  Summary::State summary;
  RequestRecord& request = summary.record(RequestId{0}, RequestSpec{});
  request.outcome = Outcome::served;
  std::string requests, iterations, series;
  append_requests(requests, run, summary, Seconds{5});
  Timeline::State timeline;
  timeline.iterations.push(2, true) = {};
  append_iterations(iterations, run, timeline);
  Series::State buckets;
  buckets.buckets.resize(4);
  buckets.buckets[2].samples = 1;
  append_series(series, run, buckets);
  const auto width = [](const std::string& text) { return sluice_test::read_csv_rows(text).at(0).size(); };
  CHECK(width(requests) == csv_run_columns.size() + csv_request_columns.size());
  CHECK(width(iterations) == csv_run_columns.size() + csv_iteration_columns.size());
  CHECK(width(series) == csv_run_columns.size() + csv_series_columns.size());
  CHECK(sluice_test::read_csv_rows(series).size() == 3); // idle stretches between others count, later ones do not
}

TEST_CASE("docs/results.md lists the columns in their order, with units and meanings") {
  std::ifstream file("docs/results.md");
  std::stringstream page;
  page << file.rdbuf();
  REQUIRE_FALSE(page.str().empty());
  const auto documented = [&](const std::string& head, std::span<const CsvColumn> columns) {
    CAPTURE(head);
    std::string table;
    for (const CsvColumn& column : columns) {
      const std::string unit{column.unit};
      table += "| `" + std::string{column.name} + "` | " + std::string{column.type} + " | " + unit +
               (unit.empty() ? "| " : " | ") + std::string{column.what} + " |\n";
    }
    const std::size_t at = page.str().find("\n" + head + "\n");
    REQUIRE(at != std::string::npos);
    const std::string section = page.str().substr(at, page.str().find("\n#", at + 2) - at);
    CHECK_MESSAGE(section.find("|---|---|---|---|\n" + table) != std::string::npos, "docs/results.md, ", head,
                  " should have:\n", table);
    const std::size_t behind = section.find(table) + table.size();
    CHECK((behind >= section.size() || section[behind] != '|')); // and no other column
  };
  documented("### The first columns of every table", csv_run_columns);
  documented("### systems.csv", csv_system_columns);
  documented("### requests.csv", csv_request_columns);
  documented("### tokens.csv.gz", csv_token_columns);
  documented("### series.csv", csv_series_columns);
  documented("### iterations.csv", csv_iteration_columns);
  for (const auto columns :
       {std::span<const CsvColumn>{csv_request_columns}, std::span<const CsvColumn>{csv_series_columns},
        std::span<const CsvColumn>{csv_iteration_columns}, std::span<const CsvColumn>{csv_system_columns}}) {
    std::set<std::string_view> names;
    for (const CsvColumn& column : csv_run_columns) names.insert(column.name);
    for (const CsvColumn& column : columns) CHECK(names.insert(column.name).second);
  }
}

TEST_CASE("datapackage.json names the program, and lists each file's columns with their units") {
  const CsvFile files[] = {{"requests", "a row for each", csv_run_columns, csv_request_columns, "a part"}};
  const json package =
      json::parse(csv_package(files, {"1.2.3", "abc1234", "release"}, "sluice-compare --out x",
                              std::vector<std::pair<std::string, std::string>>{{"Machine", "link 8"}}));
  CHECK(package.at("facts").at("Machine") == "link 8");
  CHECK(package.at("made_by") == "sluice 1.2.3 (commit abc1234, release build)");
  CHECK(package.at("commit") == "abc1234");
  CHECK(package.at("command") == "sluice-compare --out x");
  const json& file = package.at("resources").at(0);
  CHECK(file.at("path") == "requests.csv");
  CHECK(file.at("remark") == "a part");
  const json& fields = file.at("schema").at("fields");
  REQUIRE(fields.size() == csv_run_columns.size() + csv_request_columns.size());
  CHECK(fields.at(0).at("name") == "system");
  CHECK(fields.at(6).at("name") == "arrival_s");
  CHECK(fields.at(6).at("unit") == "s");
}

TEST_CASE("a distribution's histogram counts every value once, between its edges") {
  Random random(9);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<WeightedSample> samples;
    for (std::size_t i = random.below(60); i > 0; --i) {
      double value = std::pow(10.0, 8 * random.uniform() - 6);
      if (random.below(8) == 0) value = 0;
      if (random.below(8) == 0) value = 1e-3; // an edge
      samples.push_back({value, static_cast<std::int64_t>(random.below(4))});
    }
    const Distribution of{samples};
    const DistributionReport report = distribution_report("x_s", of);
    CHECK(report.count == of.count());
    if (of.empty()) {
      CHECK(report.counts.empty());
      continue;
    }
    REQUIRE(report.edges.size() == report.counts.size() + 1);
    for (std::size_t bin = 0; bin < report.counts.size(); ++bin) {
      std::int64_t expected = 0;
      for (const WeightedSample& sample : samples)
        if ((sample.value > report.edges[bin] || (bin == 0 && sample.value == report.edges[0])) &&
            sample.value <= report.edges[bin + 1])
          expected += sample.count;
      CHECK(report.counts[bin] == expected);
    }
    CHECK(report.counts.front() > 0);
    CHECK(report.counts.back() > 0);
    for (std::size_t i = 0; i < report.asked.size(); ++i) CHECK(report.percentiles[i] == of.quantile(report.asked[i]));
  }
}
