// SPDX-License-Identifier: Apache-2.0
// Rows of several seeds: joined, judged, and shown.
#include "sluice/report/html.hpp"
#include "sluice/report/json.hpp"
#include "sluice/report/seeds.hpp"
#include "sluice/report/table.hpp"

#include "report/synthetic.hpp"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

using namespace sluice;
using nlohmann::json;

namespace {

/// The synthetic comparison of several seeds, joined row by row.
ComparisonReport of_seeds(const std::vector<std::uint64_t>& seeds, const std::string& baseline = {}) {
  std::vector<ComparisonReport> all;
  for (const std::uint64_t seed : seeds) all.push_back(synthetic::report(static_cast<int>(seed), {1.5}, false, 30));
  ComparisonReport report{all.front().workload, {}, baseline};
  report.workload.seeds = seeds;
  for (std::size_t row = 0; row < all.front().systems.size(); ++row) {
    std::vector<SystemReport> runs;
    for (const ComparisonReport& one : all) runs.push_back(one.systems[row]);
    report.systems.push_back(joined(std::move(runs), seeds));
  }
  return report;
}

const ComparisonReport& eight() {
  static const ComparisonReport report = of_seeds(seed_range(1, 8));
  return report;
}

Metrics with(double attainment, std::int64_t served) {
  Metrics m;
  m.tbt_attainment = attainment;
  m.served = served;
  return m;
}
SystemReport run_of(double attainment, std::int64_t served) {
  SystemReport row;
  row.metrics = with(attainment, served);
  return row;
}

} // namespace

TEST_CASE("the figures of a trace as recorded are beside the means, in the table, the page and report.json") {
  ComparisonReport report = eight();
  report.workload.as_recorded = "the trace's first 30 requests";
  for (SystemReport& row : report.systems) {
    row.as_recorded = row.per_seed.front();
    row.as_recorded->tbt_attainment = 0.1234;
    row.as_recorded->refused = 7;
  }
  const std::string table = table_text(report), page = report_html(report);
  std::size_t lines = 0, cells = 0;
  std::istringstream in(table);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("  as recorded")) {
      ++lines;
      CHECK(line.find("+-") == std::string::npos);
      if (line.find(" 12.3 ") != std::string::npos) CHECK(line.find("(7 out)") != std::string::npos);
    }
  CHECK(lines == 2 * report.systems.size()); // service and costs
  CHECK(table.find("; as recorded: the trace's first 30 requests, in one run") != std::string::npos);
  for (std::size_t at = 0; (at = page.find("data-recorded=\"0.123400000\"", at)) != std::string::npos; ++at) ++cells;
  CHECK(cells == report.systems.size());
  CHECK(page.find("<small>12.3 as recorded</small>") != std::string::npos);
  const json written = json::parse(report_json(report));
  for (const json& row : written.at("systems")) {
    CHECK(row.at("as_recorded").at("tbt_attainment") == 0.1234);
    CHECK(row.at("as_recorded").at("refused") == 7);
    CHECK(row.at("as_recorded").size() == row.at("per_seed").size());
  }
  CHECK(report_html(eight()).find("data-recorded=") == std::string::npos);
}

TEST_CASE("windows have no interval of the figures that few windows decide") {
  ComparisonReport seeds = eight();
  for (SystemReport& row : seeds.systems)
    for (std::size_t i = 0; i < row.per_seed.size(); ++i) {
      row.per_seed[i].p99_ttft_s = 2 + std::sqrt(static_cast<double>(i));
      row.per_seed[i].slo_attainment = 0.5 + 0.01 * static_cast<double>(i);
      row.per_seed[i].throughput_tokens_per_s = 100 + static_cast<double>(i * i);
    }
  ComparisonReport windows = seeds;
  for (SystemReport& row : windows.systems) row.windows = true;
  const json seeds_json = json::parse(report_json(seeds)), windows_json = json::parse(report_json(windows));
  const auto known = [](const json& report, const char* figure) { // for any row
    for (const json& row : report.at("systems"))
      if (!row.at("interval").at(figure).at(0).is_null()) return true;
    return false;
  };
  for (const char* figure :
       {"p99_ttft_s", "ttft_attainment", "throughput_requests_per_min", "p95_tbt_s", "tbt_attainment", "mean_ttft_s",
        "mean_e2e_s", "mean_e2e_all_s", "slo_attainment", "goodput_requests_per_s"}) {
    CAPTURE(figure);
    CHECK(has_interval(figure, false, 8));
    CHECK_FALSE(has_interval(figure, true, 100));
    CHECK_FALSE(known(windows_json, figure));
  }
  CHECK(known(seeds_json, "p99_ttft_s"));
  CHECK(known(seeds_json, "slo_attainment"));
  CHECK(known(windows_json, "throughput_tokens_per_s"));
  for (const char* figure : {"longest_gap_s", "p99_tbt_s"}) CHECK_FALSE(has_interval(figure, true, 100));
}

TEST_CASE("two seeds have no interval; attainments and rates have one from three seeds on, times from eight") {
  CHECK_FALSE(some_interval(false, 2));
  CHECK(some_interval(false, 3));
  for (const std::size_t count : {2UL, 3UL, 5UL, 7UL, 8UL}) {
    CAPTURE(count);
    const std::vector<double> values{1, 2, 4, 8, 16, 32, 64, 128};
    const auto interval = [&](const char* figure) {
      return metric_interval(figure, std::span(values).first(count), false).known();
    };
    CHECK(interval("mean_e2e_s") == (count == 8));
    CHECK(interval("p99_ttft_s") == (count == 8));
    for (const char* figure : {"tbt_attainment", "slo_attainment", "goodput_requests_per_s", "throughput_tokens_per_s"})
      CHECK(interval(figure) == (count >= 3));
    CHECK_FALSE(interval("tpot_attainment")); // nearly always 1: its intervals contain the mean too often
    CHECK(interval("times_preempted") == (count >= 8));
  }
}

TEST_CASE("an interval is printed from a metric's least number on, and never of a metric without a column") {
  for (const MetricColumn& column : metric_columns)
    for (const bool windows : {false, true}) {
      CAPTURE(column.key);
      const std::size_t least = windows ? column.interval.windows : column.interval.seeds;
      CHECK_FALSE(has_interval(column.key, windows, 1));
      if (least == 0) {
        CHECK_FALSE(has_interval(column.key, windows, 1'000));
        continue;
      }
      CHECK(has_interval(column.key, windows, least));
      CHECK_FALSE(has_interval(column.key, windows, least - 1));
    }
  CHECK_FALSE(has_interval("busy_s", false, 1'000));
}

TEST_CASE("signs decide over windows, and the interval over seeds") {
  ComparisonReport seeds = eight();
  for (SystemReport& row : seeds.systems)
    for (std::size_t i = 0; i < row.per_seed.size(); ++i) row.per_seed[i].slo_attainment = 0.5;
  const std::string best = reference_of(blocks_of(seeds).front(), "")->name;
  const auto row = [&](ComparisonReport& report) -> SystemReport& {
    return *std::find_if(report.systems.begin(), report.systems.end(),
                         [&](const SystemReport& one) { return one.name != best; });
  };
  const auto verdict = [&](ComparisonReport& report) {
    const json written = json::parse(report_json(report));
    for (const json& one : written.at("systems"))
      if (one.at("name") == row(report).name) return one.at("pairs").at("slo_attainment");
    return json{};
  };
  const std::vector<double> ahead{.001, .002, .001, .003, .001, .002, .001, .4}; // the mean is one window's
  for (std::size_t i = 0; i < ahead.size(); ++i) row(seeds).per_seed[i].slo_attainment += ahead[i];
  CHECK_FALSE(verdict(seeds).at("interval").at(0).is_null());
  ComparisonReport windows = seeds;
  for (SystemReport& one : windows.systems) one.windows = true;
  CHECK(verdict(windows).at("interval") == json::array({nullptr, nullptr}));
  CHECK(verdict(windows).at("tie") == false);
  CHECK(verdict(windows).at("more") == 8);
  row(windows).per_seed[0].slo_attainment = 0.499; // 7 of 8
  CHECK(verdict(windows).at("tie") == true);
  CHECK(table_text(windows).find("window by window: mean differences, and the windows won") != std::string::npos);
  CHECK(report_html(windows).find("each window's figure less that of") != std::string::npos);
}

TEST_CASE("signs decide with fewer than eight pairs, and where half of the pairs or more are equal") {
  const auto judge = [](const std::vector<double>& differences) {
    return judged_pairs(differences, std::vector<double>(differences.size(), 0.0), false, 8);
  };
  for (const std::size_t count : {2UL, 5UL, 6UL, 7UL, 8UL}) {
    CAPTURE(count);
    std::vector<double> differences;
    for (std::size_t i = 0; i < count; ++i) differences.push_back(1 + 0.01 * static_cast<double>(i));
    const Paired of = judge(differences); // Student's t of two is beyond 0, too
    CHECK(of.difference.known() == (count >= 8));
    CHECK(of.judged());
    CHECK(of.tie() == (count < 6));
    CHECK(of.difference.mean == doctest::Approx(1 + 0.005 * static_cast<double>(count - 1)));
  }
  CHECK(judge({1, 1.1, 1.2, 1.3, 1.4, 1.5, -0.01}).tie()); // 6 of 7
  const Paired half = judge({0, 0, 0, 0, 1, 2, 3, 4}), more = judge({0, 0, 0, 1, 2, 3, 4, 5});
  CHECK_FALSE(half.difference.known());
  CHECK(half.tie()); // 4 of 4 are too few
  CHECK(more.difference.known());
  CHECK_FALSE(judge({0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6}).tie()); // 6 of 6
  const std::vector<double> many(100, 1.0), none(100, 0.0);
  CHECK_FALSE(judged_pairs(many, none, false, 0).difference.known()); // no number is enough
  CHECK(judged_pairs(many, none, false, 100).difference.known());
}

TEST_CASE("tables over few seeds have means and signs, and name no interval") {
  const ComparisonReport few = of_seeds(seed_range(1, 5));
  const std::string text = table_text(few), page = report_html(few);
  for (const std::string& told : {text, page}) CHECK(told.find("a tie: the counts won and lost") != std::string::npos);
  CHECK(text.find("seed by seed: mean differences, and the seeds won") != std::string::npos);
  CHECK(text.find("0 is in the 95 % interval") == std::string::npos);
  const json written = json::parse(report_json(few));
  for (const json& row : written.at("systems"))
    if (row.contains("pairs")) CHECK(row.at("pairs").at("tbt_attainment").at("interval").at(0).is_null());
  // Of eight seeds only some differences have an interval: the table says by what the others are judged.
  const std::string both = table_text(eight());
  CHECK(both.find("0 is in the 95 % interval; without an interval, the counts") != std::string::npos);
  // Each figure has its own head: only SLO attainment has ends here.
  const std::size_t ends = both.find("from .. to", both.find("\nAgainst "));
  REQUIRE(ends != std::string::npos);
  CHECK(both.find("from .. to", ends + 1) > both.find('\n', ends));
  CHECK(report_html(eight()).find("from &hellip; to") != std::string::npos);
  CHECK(page.find("from &hellip; to") == std::string::npos);
  for (const std::string& told : {text, page})
    CHECK(told.find("fewer than six seeds decide nothing; --seeds 1..8") != std::string::npos);
  CHECK(both.find("decide nothing") == std::string::npos);
  CHECK(too_few_note(5, true) == "fewer than six windows decide nothing; --windows 8");
  for (const std::size_t seeds : std::vector<std::size_t>{1, 6, 8}) CHECK(too_few_note(seeds, false).empty());
}

TEST_CASE("report.json says which differences hold together with all others of the table") {
  ComparisonReport report = eight();
  const std::string best = reference_of(blocks_of(report).front(), "")->name;
  report.baseline = best;
  for (const char* name : {"Far", "Near"}) {
    SystemReport row = *std::find_if(report.systems.begin(), report.systems.end(),
                                     [&](const SystemReport& one) { return one.name == best; });
    row.name = name;
    for (std::size_t i = 0; i < 8; ++i) {
      const double away = 0.01 * (static_cast<double>(i) - 1.1); // beyond a tie by itself only
      row.per_seed[i].slo_attainment -= row.name == "Far" ? 0.5 + away : away;
    }
    report.systems.push_back(std::move(row));
  }
  std::size_t starred = 0;
  const json written = json::parse(report_json(report));
  for (const json& row : written.at("systems")) {
    if (!row.contains("pairs")) continue;
    const json& of = row.at("pairs").at("slo_attainment");
    CAPTURE(of.dump());
    if (row.at("name") == "Far") CHECK((of.at("tie") == false && of.at("holds_together") == true));
    if (row.at("name") != "Near") continue;
    ++starred;
    CHECK((of.at("tie") == false && of.at("holds_together") == false));
  }
  CHECK(starred == 1);
  CHECK(table_text(report).find(" *") != std::string::npos);
}

TEST_CASE("a joined row has the mean of every number, and all refusals") {
  std::vector<SystemReport> runs{run_of(0.5, 10), run_of(0.7, 11), run_of(std::nan(""), 11)};
  runs[0].refusals = {{"its KV takes 12 blocks", 2}};
  runs[1].refusals = {{"its KV takes 15 blocks, and the like", 3}, {"another", 1}};
  runs[2].livelock = "livelocked: in 5000 iterations";
  const SystemReport row = joined(runs, {4, 5, 9});
  CHECK(row.metrics.tbt_attainment == doctest::Approx(0.6)); // of those that have one
  CHECK(row.metrics.served == 11);                           // 10.67
  CHECK(row.per_seed.size() == 3);
  CHECK(spread_of(row, [](const Metrics& m) { return m.served; }).mean == doctest::Approx(32.0 / 3));
  CHECK(row.refusals == detail::Refusals{{"its KV takes 12 blocks, and the like", 5}, {"another", 1}});
  CHECK(row.livelock == "of 3 seeds 1 (9), the first livelocked: in 5000 iterations");
  CHECK(row.livelocks == std::vector<std::string>{"", "", "livelocked: in 5000 iterations"});
  CHECK_FALSE(row.windows);
  for (SystemReport& run : runs) run.classes = {run};
  const SystemReport windows = joined(runs, {4, 5, 9}, true);
  CHECK((windows.windows && windows.classes.front().windows));
  CHECK(windows.livelock.starts_with("of 3 windows 1 (9), "));
}

TEST_CASE("verdicts name the better row, the confidence, and the number of seeds") {
  const std::vector<double> low{1, 2, 3, 4, 5, 6, 7, 8}, high{3, 4.1, 5, 6.2, 7, 8, 9.1, 10}, one{1}, none{};
  CHECK(verdict_of(paired(high, low)) == "better, wins 8 of 8");
  CHECK(verdict_of(paired(low, high)) == "worse, wins 0 of 8");
  CHECK(verdict_of(paired(low, high), true) == "better, wins 8 of 8");
  CHECK(verdict_of(paired(low, low)) == "tie, the same in all 8");
  const std::vector<double> mixed{2, 1, 4, 3, 6, 5, 8, 7};
  CHECK(verdict_of(paired(mixed, low)) == "tie, wins 4 of 8");
  CHECK(verdict_of(paired(one, one)) == "wins 0 of 1");
  CHECK(verdict_of(paired(none, none)) == "-");
}

TEST_CASE("rows are compared with the best ranked row, or with the baseline if there is one") {
  const std::vector<ReportBlock> blocks = blocks_of(eight());
  REQUIRE(blocks.size() == 1);
  const SystemReport* best = reference_of(blocks.front(), "");
  REQUIRE(best != nullptr);
  for (const SystemReport* row : blocks.front().rows)
    if (!row->control) CHECK(row->metrics.slo_attainment <= best->metrics.slo_attainment);
  const SystemReport* last = blocks.front().rows[blocks.front().rows.size() - 2];
  CHECK(reference_of(blocks.front(), last->name) == last);
  CHECK(reference_of(blocks.front(), "Nobody") == best);
  CHECK(reference_of(ReportBlock{}, "") == nullptr);
  ReportBlock control_alone{false, 1.5, {blocks.front().rows.back()}};
  REQUIRE(control_alone.rows.front()->control);
  CHECK(reference_of(control_alone, "") == nullptr);
}

TEST_CASE("a tenant's row is compared with the same tenant's, and is never the reference") {
  ComparisonReport report = of_seeds(seed_range(1, 8));
  const SystemReport best = *reference_of(blocks_of(report).front(), ""), other = *blocks_of(report).front().rows[1];
  for (const SystemReport* whole : {&best, &other})
    for (const char* tenant : {"/small", "/large"}) {
      SystemReport part = *whole;
      part.name += tenant;
      for (Metrics& metrics : part.per_seed) metrics.slo_attainment += 0.5; // above all
      part.metrics.slo_attainment += 0.5;
      report.systems.push_back(part);
    }
  const std::vector<ReportBlock> blocks = blocks_of(report);
  REQUIRE(blocks.front().rows.front()->name.find('/') != std::string::npos);
  CHECK(reference_of(blocks.front(), "")->name == best.name);
  for (const SystemReport* row : blocks.front().rows) {
    const SystemReport* rival = rival_of(blocks.front(), *row, "");
    const bool of_best = row->name == best.name || row->name.starts_with(best.name + "/");
    CHECK((rival == nullptr) == of_best);
    if (row->name == other.name + "/large") CHECK(rival->name == best.name + "/large");
    if (row->name == other.name) CHECK(rival->name == best.name);
  }
}

TEST_CASE("half widths have the decimals of their means") {
  const auto text = [](double mean, double half) {
    return detail::spread_text(Interval{mean, mean - half, mean + half, 8}, short_text);
  };
  CHECK(text(73.94, 8.91) == "73.9 +-8.9");
  CHECK(text(23.02, 0.41) == "23.0 +-0.4");
  CHECK(text(23.02, 0.0041) == "23.0 +-<0.1");
  CHECK(text(1234, 12.7) == "1234 +-13");
  CHECK(text(1234, 0.2) == "1234 +-<1");
  CHECK(text(5, 0) == "5.00");
  CHECK(detail::spread_text(Interval{0.5, 0.42, 0.58, 5}, percent_text) == "50.0 +-8.0");
  CHECK(detail::spread_text(Interval{0.5, Interval::absent, Interval::absent, 1}, percent_text) == "50.0");
}

TEST_CASE("tables of several seeds are aligned, name all seeds, and compare every row but the reference") {
  const std::string text = table_text(eight());
  CHECK(text.find(", seeds 1..8;") != std::string::npos);
  CHECK(text.find("means of 8 seeds +- half of the 95 % interval") != std::string::npos);
  CHECK(text.find("one seed") == std::string::npos);
  CHECK(table_text(synthetic::report(7, {1.5}, false, 30)).find("one seed: with other seeds") != std::string::npos);
  const SystemReport* best = reference_of(blocks_of(eight()).front(), "");
  const std::size_t at = text.find("Against " + best->name);
  REQUIRE(at != std::string::npos);
  const std::string pairs = text.substr(at, text.find("\nWhat it took") - at);
  std::istringstream in(pairs);
  std::size_t judged = 0, rule = 0;
  for (std::string line; std::getline(in, line);) {
    if (line.find_first_not_of('-') == std::string::npos && !line.empty()) rule = line.size();
    if (line.find("/8") == std::string::npos) continue;
    ++judged;
    CHECK(line.size() == rule);
  }
  CHECK(rule <= 120);
  CHECK(judged == eight().systems.size() - 1);
  for (const char c : text) CHECK((c == '\n' || (c >= ' ' && c <= '~')));
}

TEST_CASE("report.json and the page have every seed's values, intervals and verdicts") {
  const json parsed = json::parse(report_json(eight()));
  const std::string best = reference_of(blocks_of(eight()).front(), "")->name;
  CHECK(parsed.at("workload").at("seeds").size() == 8);
  for (std::size_t i = 0; i < eight().systems.size(); ++i) {
    const json& row = parsed.at("systems").at(i);
    const SystemReport& system = eight().systems[i];
    for_each_metric(system.metrics, [&](std::string_view name, auto number) {
      const std::string key{name};
      if (!in_json(name, static_cast<double>(number))) {
        CHECK_FALSE(row.contains(key)); // one that only few systems use
        return;
      }
      REQUIRE(row.at("per_seed").at(key).size() == 8);
      CHECK(row.at("interval").at(key).size() == 2);
      CHECK(row.contains(key));
    });
    for (std::size_t seed = 0; seed < 8; ++seed)
      CHECK(row.at("per_seed").at("tokens_on_time").at(seed) == system.per_seed[seed].tokens_on_time);
    CHECK(row.contains("pairs") == (system.name != best));
    if (system.name != best) CHECK(row.at("pairs").at("tbt_attainment").at("pairs") == 8);
  }
  CHECK(report_json(eight(), {.wall_times = false}).find("_wall_") == std::string::npos);

  const std::string page = report_html(eight());
  const std::string open = "<script type=\"application/json\" id=\"data\">";
  const std::size_t from = page.find(open) + open.size();
  const json data = json::parse(page.substr(from, page.find("</script>", from) - from));
  CHECK(data.at("seeds").size() == 8);
  for (const json& system : data.at("systems")) {
    CHECK(system.at("each").at("tbt_attainment").size() == 8);
    for (const auto& item : system.at("m").items()) CHECK(system.at("interval").contains(item.key()));
    if (system.at("name") != best) CHECK(system.at("pairs").at("slo_attainment").at("each").size() == 8);
  }
  CHECK(page.find("&plusmn;") != std::string::npos);
  CHECK(page.find("Judged in pairs") != std::string::npos);
  const std::string alone = report_html(synthetic::report(7, {1.5}, false, 30));
  CHECK(alone.find("This is of one seed") != std::string::npos);
  CHECK(alone.find("Judged in pairs") == std::string::npos);
}

TEST_CASE("an oracle is marked, ranks where its figures say, and is the reference only if it is asked for") {
  ComparisonReport report = eight();
  const std::string best = reference_of(blocks_of(report).front(), {})->name;
  SystemReport oracle = *reference_of(blocks_of(report).front(), {});
  oracle.name = "Seer";
  oracle.oracle = true;
  for (Metrics& metrics : oracle.per_seed) metrics.slo_attainment += 0.5; // above all
  oracle.metrics.slo_attainment += 0.5;
  report.systems.push_back(oracle);
  const ReportBlock block = blocks_of(report).front();
  CHECK(label_of(*block.rows.front()) == "Seer (oracle)");
  REQUIRE(reference_of(block, {}) != nullptr);
  CHECK(reference_of(block, {})->name == best);
  CHECK(reference_of(block, "Seer")->name == "Seer");
  const std::string text = table_text(report);
  CHECK(text.find("oracle: it knows how long each answer will be") != std::string::npos);
  const json written = json::parse(report_json(report));
  for (const json& row : written.at("systems")) CHECK(row.at("oracle") == (row.at("name") == "Seer"));
}

TEST_CASE("rows rank by whole SLOs, then by goodput, and by TBT attainment where no request has an SLO") {
  const auto row = [](double slo, double goodput, double tbt) {
    SystemReport of;
    of.metrics.slo_attainment = slo, of.metrics.goodput_requests_per_s = goodput, of.metrics.tbt_attainment = tbt;
    return of;
  };
  CHECK(ranks_before(row(0.6, 1, 0.1), row(0.5, 2, 0.9))); // the second lets requests queue
  CHECK(ranks_before(row(0.6, 2, 0.1), row(0.6, 1, 0.9)));
  const double none = Metrics::absent;
  CHECK(ranks_before(row(none, none, 0.9), row(none, none, 0.8)));
  SystemReport stuck = row(1, 9, 1), control = stuck;
  stuck.livelock = "it runs nobody";
  control.control = true;
  CHECK(ranks_before(row(0, 0, 0), stuck));
  CHECK(ranks_before(stuck, control));
}

TEST_CASE("an oracle does not stand for a system with its figures") {
  ComparisonReport report = eight();
  SystemReport oracle = *reference_of(blocks_of(report).front(), {});
  const std::string twin = oracle.name;
  oracle.name = "S"; // shorter than any other
  oracle.oracle = true;
  report.systems.push_back(oracle);
  const ReportBlock block = blocks_of(report).front();
  for (const SystemReport* row : block.rows)
    if (row->name == twin || row->name == "S") CHECK(original_of(block, *row) == nullptr);
}
