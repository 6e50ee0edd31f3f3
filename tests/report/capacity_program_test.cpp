// SPDX-License-Identifier: Apache-2.0
// sluice-compare --capacity: --rate-scale confirms the attainment reported for a rate, and each seed is searched
// separately.
#include "sluice/report/statistics/interval.hpp"

#include "report/compare_program.hpp"
#include "support/page.hpp"
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

namespace sluice_test::comparing::capacity {

using nlohmann::json;

const std::string small = "--kv-blocks 600 ";

struct Compared : sluice_test::comparing::Compared {
  explicit Compared(const std::string& arguments, const std::string& systems = "VllmRecompute,VllmSwap")
      : sluice_test::comparing::Compared("--generate demo:requests=24 --batch 4 --deposit off --systems " + systems +
                                         " " + arguments) {}
};

TEST_CASE("a capacity meets the share and the next rate does not, as --rate-scale confirms" * needs_program()) {
  const Compared found(small + "--capacity 0.6 --seed 2");
  CHECK(found.report.at("capacity").at("share") == 0.6);
  const double step = found.report.at("capacity").at("step");
  CHECK(step == doctest::Approx(std::exp2(1.0 / 32)));
  for (const json& row : found.report.at("cells").at(0).at("systems")) {
    CAPTURE(row.dump());
    const json& seed = row.at("per_seed").at(0);
    REQUIRE(seed.at("found") == "between");
    CHECK(row.at("rate_scale") == seed.at("rate_scale"));
    double last = 0;
    for (const json& probe : seed.at("probes")) {
      CHECK(probe.at("rate_scale").get<double>() > last);
      last = probe.at("rate_scale");
    }
    for (const json& probe : seed.at("probes")) {
      const double scale = probe.at("rate_scale"), ratio = scale / seed.at("rate_scale").get<double>();
      if (std::abs(ratio - 1) > 1e-9 && std::abs(ratio - step) > 1e-9) continue;
      const Compared one(small + fmt::format("--seed 2 --rate-scale {:.17g}", scale));
      for (const json& other : one.report.at("systems"))
        if (other.at("name") == row.at("name")) CHECK(other.at("slo_attainment") == probe.at("slo_attainment"));
      CHECK((probe.at("slo_attainment").get<double>() >= 0.6) == (ratio < 1.001));
    }
  }
  CHECK(found.printed.find("Capacity: the highest arrival rate at which 60 % of the requests keep both SLOs") == 0);
  CHECK(found.text("report.html").find("Sluice capacities") != std::string::npos);
}

TEST_CASE("each seed is searched independently, and the row is their mean with its interval" * needs_program()) {
  const Compared all(small + "--capacity 0.6 --seeds 2,3 --threads 2");
  const json& rows = all.report.at("cells").at(0).at("systems");
  std::size_t at = 0;
  for (const char* seed : {"2", "3"}) {
    const Compared one(small + "--capacity 0.6 --threads 1 --seed " + seed);
    for (std::size_t row = 0; row < rows.size(); ++row)
      CHECK(one.report.at("cells").at(0).at("systems").at(row).at("per_seed").at(0) ==
            rows.at(row).at("per_seed").at(at));
    ++at;
  }
  for (const json& row : rows) {
    std::vector<double> logs;
    for (const json& seed : row.at("per_seed")) logs.push_back(std::log2(seed.at("requests_per_s").get<double>()));
    const sluice::Interval of = sluice::mean_interval(logs);
    CHECK(row.at("requests_per_s").get<double>() == doctest::Approx(std::exp2(of.mean)));
    CHECK(row.at("requests_per_s_interval").at(0).get<double>() == doctest::Approx(std::exp2(of.least)));
    CHECK(row.at("requests_per_s_interval").at(0) > 0);
  }
}

TEST_CASE("a capacity does not depend on the rate where the search starts" * needs_program()) {
  const Compared own(small + "--capacity 0.6 --seed 2"), lower(small + "--capacity 0.6 --seed 2 --rate-scale 0.2");
  const json &a = own.report.at("cells").at(0).at("systems"), &b = lower.report.at("cells").at(0).at("systems");
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    for (const char* figure : {"rate_scale", "requests_per_s", "slo_attainment"}) {
      CAPTURE(figure);
      REQUIRE(a.at(i).at(figure).is_number());
      CHECK(a.at(i).at(figure).get<double>() == doctest::Approx(b.at(i).at(figure).get<double>()).epsilon(1e-12));
    }
}

TEST_CASE("a row with seeds beyond an end keeps its rank and its verdict" * needs_program()) {
  // With one block and such an SLO, three of six seeds sustain no rate.
  const Compared found(small + "--capacity 1 --slo-tbt 0.017 --seeds 1,2,3,4,5,6");
  CHECK(found.report.at("cells").at(0).at("systems").at(0).at("below") > 0);
  for (const json& row : found.report.at("cells").at(0).at("systems")) {
    CAPTURE(row.dump());
    const std::size_t beyond = row.at("below").get<std::size_t>() + row.at("above").get<std::size_t>();
    CHECK(row.at("requests_per_s").is_null() == (beyond > 0));
    CHECK(row.at("median_rate_scale").is_number() == (row.at("below") < 3 && row.at("above") <= 3));
    if (row.contains("pairs")) CHECK(row.at("pairs").at("verdict").get<std::string>().size() > 1);
  }
}

TEST_CASE("the page has a table of all capacities, and the data of its charts" * needs_program()) {
  const Compared found(small + "--capacity 0.6 --link 8GB/s,32GB/s --seeds 2,3 --slo-scale 1,2",
                       "OneAtATime,VllmSwap"); // a control, which the page shows with more than its name
  const std::string page = found.text("report.html");
  CHECK(page.find("src=") == std::string::npos);
  const json data = page_data(page);
  const std::vector<PageTable> tables = page_tables(page);
  REQUIRE(tables.size() == 1);
  std::vector<json> systems;
  for (const json& cell : found.report.at("cells"))
    for (json system : cell.at("systems")) {
      system["at"] = cell.at("at");
      systems.push_back(std::move(system));
    }
  CHECK(tables.at(0).rows.size() == systems.size());
  REQUIRE(data.at("systems").size() == systems.size());
  for (const auto& row : tables.at(0).rows) {
    std::size_t same = 0;
    for (const json& system : systems) {
      if (row.at("system") != system.at("name") || !tells(row.at("slo_scale"), system.at("slo_scale")) ||
          !tells(row.at("link"), system.at("at").at("link")))
        continue;
      ++same;
      for (const char* key : {"requests_per_s", "rate_scale", "slo_attainment"}) {
        CAPTURE(key);
        CHECK(tells(row.at(key), system.at(key)));
      }
      CHECK(row.at("remark") == system.at("remark"));
      if (!system.contains("pairs")) continue;
      CHECK(tells(row.at("ratio"), system.at("pairs").at("ratio")));
      CHECK(row.at("judged") == system.at("pairs").at("verdict"));
    }
    CHECK(same == 1);
  }
  for (std::size_t i = 0; i < systems.size(); ++i) {
    const json& drawn = data.at("systems").at(i);
    REQUIRE(drawn.at("name") == systems.at(i).at("name"));
    for (std::size_t seed = 0; seed < 2; ++seed) {
      const json &shown = drawn.at("seeds").at(seed), &wanted = systems.at(i).at("per_seed").at(seed);
      CHECK(shown.at("probes").size() == wanted.at("probes").size());
      CHECK(shown.at("capacity").is_number() == (wanted.at("found") == "between"));
      if (shown.at("capacity").is_number())
        CHECK(shown.at("capacity").get<double>() ==
              doctest::Approx(wanted.at("requests_per_s").get<double>()).epsilon(1e-5));
    }
  }
}

} // namespace sluice_test::comparing::capacity
