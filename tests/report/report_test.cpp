// SPDX-License-Identifier: Apache-2.0
#include "sluice/report/html.hpp"
#include "sluice/report/json.hpp"
#include "sluice/report/order.hpp"
#include "sluice/report/pages.hpp"
#include "sluice/report/report.hpp"
#include "sluice/report/seeds.hpp"
#include "sluice/report/table.hpp"

#include "../examples/tools/shared/progress.hpp"
#include "report/synthetic.hpp"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

using namespace sluice;
using nlohmann::json;

namespace {

const ComparisonReport& shared_report() {
  static const ComparisonReport report = synthetic::report(7, {1, 1.5}, true, 40);
  return report;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

} // namespace

TEST_CASE("a report names the version of Sluice that made it, if known") {
  ComparisonReport report = synthetic::report(3, {1.5}, false, 5);
  CHECK(json::parse(report_json(report)).at("made_by").is_null());
  CHECK(report_html(report).find("Written by Sluice. ") != std::string::npos);
  report.made_by = {"1.2.3", "abc1234-dirty", "release"};
  CHECK(report.made_by.line() == "sluice 1.2.3 (commit abc1234-dirty, release build)");
  const json made_by = json::parse(report_json(report)).at("made_by");
  CHECK(made_by.at("version") == "1.2.3");
  CHECK(made_by.at("commit") == "abc1234-dirty");
  CHECK(made_by.at("build") == "release");
  CHECK(report_html(report).find("Written by " + report.made_by.line()) != std::string::npos);
}

TEST_CASE("report.json has the documented keys, and the measured numbers") {
  const ComparisonReport& report = shared_report();
  const std::string text = report_json(report);
  CHECK(text == report_json(report));
  CHECK(text == report_json(synthetic::report(7, {1, 1.5}, true, 40))); // a run of the same seed gives the same bytes
  const json parsed = json::parse(text);
  for (const char* key : {"trace", "seed", "model", "device", "budget_blocks", "base_slo_tbt_s", "slo_ttft_s"})
    CHECK(parsed.at("workload").contains(key));
  REQUIRE(parsed.at("systems").size() == report.systems.size());
  for (std::size_t i = 0; i < report.systems.size(); ++i) {
    const json& row = parsed.at("systems").at(i);
    const SystemReport& system = report.systems[i];
    for (const char* key : {"name",
                            "deposit",
                            "slo_scale",
                            "slo_tbt_s",
                            "transfer",
                            "tbt_attainment",
                            "per_token_attainment",
                            "tpot_attainment",
                            "ttft_attainment",
                            "p50_tbt_s",
                            "p95_tbt_s",
                            "p99_tbt_s",
                            "mean_e2e_s",
                            "longest_gap_s",
                            "throughput_tokens_per_s",
                            "throughput_requests_per_min",
                            "bytes_moved",
                            "stall_share",
                            "plans",
                            "planning_s",
                            "planning_p99_us",
                            "served",
                            "refused"})
      CHECK_MESSAGE(row.contains(key), key);
    CHECK(row.at("name") == system.name);
    for_each_metric(system.metrics, [&](std::string_view name, auto number) {
      if (!in_json(name, static_cast<double>(number))) {
        CHECK((name == "times_rebuilt" || name == "hosted_share" || name == "horizon_s"));
        CHECK_FALSE(row.contains(std::string{name}));
        return;
      }
      const json& written = row.at(std::string{name});
      if constexpr (std::is_floating_point_v<decltype(number)>) {
        if (!std::isfinite(number))
          CHECK(written.is_null());
        else
          CHECK(written.get<double>() == number);
      } else {
        CHECK(written.get<std::int64_t>() == number);
      }
    });
  }
  const std::string without = report_json(report, {.wall_times = false});
  CHECK(without.find("_wall_") == std::string::npos);
  CHECK(text.find("_wall_") != std::string::npos);
}

TEST_CASE("JSON has the number of rebuilt requests where it is not 0") {
  ComparisonReport report;
  SystemReport& system = report.systems.emplace_back();
  CHECK_FALSE(json::parse(report_json(report)).at("systems").at(0).contains("times_rebuilt"));
  system.metrics.times_rebuilt = 7;
  CHECK(json::parse(report_json(report)).at("systems").at(0).at("times_rebuilt") == 7);
  system.per_seed.resize(2);
  CHECK_FALSE(json::parse(report_json(report)).at("systems").at(0).contains("times_rebuilt"));
  system.per_seed.back().times_rebuilt = 7;
  CHECK(json::parse(report_json(report)).at("systems").at(0).at("times_rebuilt") == 3.5);
}

TEST_CASE("a missing number is null in JSON and a dash in tables") {
  ComparisonReport report;
  report.systems.emplace_back();
  report.systems[0].name = "Nothing";
  const json row = json::parse(report_json(report)).at("systems").at(0);
  CHECK(row.at("tbt_attainment").is_null());
  CHECK(row.at("slo_tbt_s").is_null());
  CHECK(row.at("p99_tbt_s").is_null());
  CHECK(row.at("served") == 0);
  CHECK(table_text(report).find("nan") == std::string::npos);
  CHECK(report_html(report).find(">nan") == std::string::npos);
  CHECK(report_html({}).find("</html>") != std::string::npos);
  CHECK(table_text({}).empty());
}

TEST_CASE("rows with a deposit and rows without are in separate blocks, ranks fall, the control row is last") {
  const std::vector<ReportBlock> blocks = blocks_of(shared_report());
  REQUIRE(blocks.size() == 4);
  std::size_t rows = 0;
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const ReportBlock& block = blocks[b];
    CHECK(block.deposit == (b >= 2));
    rows += block.rows.size();
    for (std::size_t i = 0; i < block.rows.size(); ++i) {
      CHECK(block.rows[i]->deposit == block.deposit);
      CHECK(block.rows[i]->slo_scale == block.slo_scale);
      CHECK(block.rows[i]->control == (i + 1 == block.rows.size()));
      if (i > 0 && !block.rows[i]->control)
        CHECK(block.rows[i - 1]->metrics.slo_attainment >= block.rows[i]->metrics.slo_attainment);
    }
  }
  CHECK(rows == shared_report().systems.size());
}

TEST_CASE("a row with another row's figures follows it, and is folded into one line of the text") {
  // Equal batch, layers and pauses under two names: some of 25 made-up systems are alike.
  ComparisonReport report = synthetic::report(25, {1}, false, 40);
  const std::vector<ReportBlock> blocks = blocks_of(report);
  REQUIRE(blocks.size() == 1);
  const ReportBlock& block = blocks.front();
  CHECK(block.rows.size() == report.systems.size());
  CHECK(std::set<const SystemReport*>(block.rows.begin(), block.rows.end()).size() == block.rows.size());
  const std::string text = table_text(report);
  const std::string page = report_html(report);
  int duplicates = 0;
  for (std::size_t i = 0; i < block.rows.size(); ++i) {
    const SystemReport* original = original_of(block, *block.rows[i]);
    // One with the figures of another has no row of its own, and its name behind the other's.
    const bool folded = count_of(text, "\n" + block.rows[i]->name + " ") == 0;
    CHECK(folded == (original != nullptr));
    if (original == nullptr) continue;
    ++duplicates;
    CHECK(same_figures(*original, *block.rows[i]));
    CHECK(original_of(block, *original) == nullptr);
    CHECK(!original->control);
    CHECK(!block.rows[i]->control);
    REQUIRE(i > 0);
    const bool behind = block.rows[i - 1] == original || original_of(block, *block.rows[i - 1]) == original;
    CHECK(behind);
    CHECK(page.find(">" + block.rows[i]->name + "<small>same as " + original->name + "</small>") != std::string::npos);
    const std::size_t at = text.find("\nsame as " + original->name + ": ");
    REQUIRE(at != std::string::npos);
    const std::string line = text.substr(at, text.find('\n', at + 1) - at);
    CHECK((line + ",").find(" " + block.rows[i]->name + ",") != std::string::npos);
    CHECK(count_of(text, "\nsame as " + original->name + ": ") == 1);
    CHECK(count_of(text, "\n" + original->name + " ") == 2); // what users got, and what it took
  }
  REQUIRE(duplicates > 0);

  // Wall times do not distinguish rows; any other figure does, and so does a refusal.
  SystemReport a = report.systems.front();
  a.control = false;
  SystemReport b = a;
  for_each_metric(b.metrics, [&](std::string_view name, const auto& read) {
    auto& number = const_cast<std::remove_cvref_t<decltype(read)>&>(read); // b itself is not const
    const auto kept = number;
    number = kept == 1 ? 2 : 1;
    CHECK_MESSAGE(same_figures(a, b) == (name.find("_wall_") != std::string_view::npos), name);
    number = kept;
  });
  CHECK(same_figures(a, b));
  b.refusals.emplace_back("another", 1);
  CHECK(!same_figures(a, b));
}

TEST_CASE("a remark says where a plan takes longer than a step, or a placement says no effort") {
  SystemReport row;
  row.name = "A";
  row.metrics.iterations = 100;
  row.metrics.busy_s = 2; // 20 ms a step
  row.metrics.bytes_moved = 1;
  row.metrics.planning_p99_us = 19'000;
  CHECK(remarks_of({false, 1, {&row}}).empty());
  row.metrics.planning_p99_us = 25'700;
  const std::vector<std::string> remarks = remarks_of({false, 1, {&row}});
  REQUIRE(remarks.size() == 1);
  CHECK(remarks[0] == "a plan takes longer than a step: 25.7 ms at P99, a step 20 ms on average (A)");
}

TEST_CASE("memory never fills where nothing is preempted, refused or moved and no request waits for it") {
  SystemReport calm, waits;
  calm.name = "A";
  waits.name = "B";
  const std::vector<std::string> remarks = remarks_of({false, 1, {&calm, &waits}});
  REQUIRE(remarks.size() == 1);
  CHECK(remarks[0] == "memory never fills: nothing is preempted, refused or moved, nor waits for it (all 2)");
  waits.waits_for_memory = true;
  CHECK(remarks_of({false, 1, {&calm, &waits}}).empty());
  std::vector<SystemReport> runs{calm, waits};
  CHECK(joined(std::move(runs), {1, 2}).waits_for_memory);
}

TEST_CASE(
    "a horizon before requests end is a property of the run: all rows of its block are marked, whatever they kept") {
  ComparisonReport report = synthetic::report(3, {1, 2}, false, 40);
  double shortest = 1e9;
  for (const SystemReport& row : report.systems)
    if (row.slo_scale == 1) shortest = std::min(shortest, row.metrics.mean_e2e_s);
  for (SystemReport& row : report.systems)
    if (row.slo_scale == 2) row.metrics.mean_e2e_s = 0.4 * shortest;
  report.systems[1].metrics.goodput_requests_per_s = 0;
  const auto marked_rows = [&](double seconds) {
    ComparisonReport copy = report;
    for (SystemReport& row : copy.systems) row.metrics.horizon_s = seconds;
    mark_short_horizon(copy);
    std::size_t count = 0;
    for (const SystemReport& row : copy.systems) count += row.short_horizon ? 1 : 0;
    for (const SystemReport& row : copy.systems) CHECK(row.short_horizon == (count > 0 && row.slo_scale == 1));
    return std::pair{count, count_of(table_text(copy), "goodput is the rate of arrivals")};
  };
  CHECK(marked_rows(1.01 * shortest) == std::pair{std::size_t{0}, std::size_t{0}});
  const auto [rows, remarks] = marked_rows(0.5 * shortest);
  CHECK((rows > 1 && remarks == 1));
  CHECK(marked_rows(std::numeric_limits<double>::quiet_NaN()).first == 0); // no run reached the horizon
}

TEST_CASE("a row whose queue grows is marked where a table stands alone, and in a remark elsewhere") {
  ComparisonReport report = synthetic::report(3, {1}, false, 40);
  for (SystemReport& each : report.systems) each.metrics.queue_grows = 0;
  CHECK(count_of(table_text(report), "queue grows") == 0);
  SystemReport& row = report.systems[1];
  row.metrics.queue_grows = 0.625; // of eight seeds five
  row.oracle = true;
  CHECK(label_of(row) == row.name + " (oracle)");
  CHECK(label_of(row, true) == row.name + " (oracle) (queue grows)");
  CHECK(count_of(table_text(report), "queue grows to the end") == 1);
  CHECK(count_of(report_html(report), "(queue grows)</th>") == 2); // of the service and of the costs
  row.metrics.queue_grows = 0.5;
  CHECK(label_of(row, true) == row.name + " (oracle)");
}

TEST_CASE(
    "TTFT and E2E say how many requests they leave out, a gap does not, and rows that leave out none say nothing") {
  ComparisonReport report = synthetic::report(4, {1}, false, 40);
  for (SystemReport& each : report.systems) each.metrics.refused = each.metrics.unfinished = 0;
  SystemReport& row = report.systems[1];
  CHECK(count_of(table_text(report), " out)") == 0);
  CHECK(count_of(report_html(report), " out)</small>") == 0);
  const auto marked = [&](const std::string& text, const std::string& mark) {
    std::size_t in_row = 0;
    for (const std::string& line : lines_of(text))
      if (line.starts_with(row.name + " ")) in_row += count_of(line, mark);
    return in_row;
  };
  row.metrics.refused = 31;
  row.metrics.unfinished = 2;
  CHECK(marked(table_text(report), " (33 out)") == 3);
  CHECK(count_of(table_text(report), " (33 out)") == 3); // of no other row
  CHECK(count_of(table_text(report), "(n out): ") == 1);
  CHECK(count_of(report_html(report), "<small> (33 out)</small></td>") == 3);
  // The mean and the P99: a longest gap counts the open gaps of requests that were left.
  CHECK(marked(table_text(report), short_text(row.metrics.mean_e2e_s) + " (33 out)") == 1);
  CHECK(marked(table_text(report), short_text(row.metrics.p99_e2e_s) + " (33 out)") == 1);

  // Of several seeds the mean, which is no whole number.
  report.workload.seeds = {1, 2};
  for (SystemReport& each : report.systems) each.per_seed = {each.metrics, each.metrics};
  row.per_seed[1].refused = 0;
  CHECK(marked(table_text(report), " (17.5 out)") == 2); // the table of several seeds has no P99 of E2E
  CHECK(count_of(report_html(report), "<small> (17.5 out)</small></td>") == 3);
}

TEST_CASE("a livelocked row ranks before the control only, whatever it served, and names the cause") {
  ComparisonReport report = synthetic::report(6, {1}, false, 40);
  SystemReport* best = nullptr;
  for (SystemReport& row : report.systems)
    if (!row.control && (best == nullptr || row.metrics.slo_attainment > best->metrics.slo_attainment)) best = &row;
  REQUIRE(best != nullptr);
  CHECK(blocks_of(report).front().rows.front()->metrics.slo_attainment == best->metrics.slo_attainment);
  best->livelock = "livelocked: in 5000 iterations";
  const std::vector<ReportBlock> blocks = blocks_of(report);
  const std::vector<const SystemReport*>& rows = blocks.front().rows;
  CHECK(rows[rows.size() - 2] == best);
  CHECK(original_of(blocks.front(), *best) == nullptr);
  const std::string text = table_text(report), page = report_html(report);
  CHECK(text.find(best->name + " (livelocked)") != std::string::npos);
  CHECK(text.find(best->name + ": livelocked: in 5000 iterations; ended there") != std::string::npos);
  CHECK(page.find("<small>livelocked: in 5000 iterations</small>") != std::string::npos);
  CHECK(report_json(report).find("\"livelock\":\"livelocked: in 5000 iterations\"") != std::string::npos);
}

TEST_CASE("a transfer rule is named only if something was transferred") {
  const ComparisonReport& report = shared_report();
  const json written = json::parse(report_json(report));
  const std::vector<std::string> lines = lines_of(table_text(report));
  for (std::size_t i = 0; i < report.systems.size(); ++i)
    CHECK(written.at("systems").at(i).at("transfer") == report.systems[i].transfer); // a program needs it unchanged
  const std::vector<ReportBlock> blocks = blocks_of(report);
  REQUIRE(!shared_transfer(blocks.front()).has_value());
  std::size_t idle = 0, dashes = 0;
  for (const SystemReport& row : report.systems) {
    CHECK(transfer_text(row).empty() == (row.metrics.bytes_moved == 0));
    idle += row.metrics.bytes_moved == 0 ? 1 : 0;
  }
  for (const std::string& line : lines) dashes += line.ends_with(" -") ? std::size_t{1} : 0;
  CHECK(idle > 0);
  CHECK(dashes == idle);
  CHECK(count_of(report_html(report), "<td class=\"l\">&ndash;</td>") == idle);

  ComparisonReport one;
  for (const SystemReport& row : report.systems)
    if (row.transfer == "fair-share" || row.metrics.bytes_moved == 0) one.systems.push_back(row);
  CHECK(shared_transfer(blocks_of(one).front()) == "fair-share");
  CHECK(table_text(one).find("transfers by fair-share") != std::string::npos);
  CHECK(table_text(one).find("deadline-pool") == std::string::npos);
}

TEST_CASE("the page names what no schedule exceeds at each SLO scale, if the bound was asked for") {
  ComparisonReport report = shared_report();
  CHECK(report_html(report).find("No schedule has") == std::string::npos);
  const auto proven = [](double share) { return PossibleShare{share, share}; };
  report.possible = {{1, proven(0.875), proven(0.75), proven(0.625), proven(0.5)},
                     {1.5, proven(0.999), {0.9, 0.85}, proven(0.8), proven(0.7)}};
  const std::string page = report_html(report);
  for (const ReportBlock& block : blocks_of(report)) CHECK((block.slo_scale == 1 || block.slo_scale == 1.5));
  CHECK(count_of(page, "above <b>87.5 %</b>") == 2); // without a deposit and with it
  CHECK(count_of(page, "above <b>99.9 %</b>") == 2);
  CHECK(count_of(page, "without pauses the bound is 75.0 %, with KV only on the device 62.5 %") == 2);
  CHECK(count_of(page, "with neither pauses nor the link 50.0 %.") == 2);
  CHECK(count_of(page,
                 "the bound is 90.0 % (not proven the least: its program has an optimum of 85.0 % at the least)") == 2);
  CHECK(count_of(page, "not proven") == 2);

  CHECK_FALSE(json::parse(report_json(report)).at("systems").at(0).contains("slo_possible"));
  report.systems.at(0).slo_possible = PossibleShare{0.875, 0.75};
  const json row = json::parse(report_json(report)).at("systems").at(0);
  CHECK(row.at("slo_possible") == 0.875);
  CHECK(row.at("slo_possible_found") == 0.75);
}

TEST_CASE("a terminal table is aligned ASCII of a readable width, under a line that names its conditions") {
  ComparisonReport report = shared_report();
  report.workload.trace = "made-up";
  const std::string text = table_text(report);
  for (const char c : text) CHECK((c == '\n' || (c >= ' ' && c <= '~')));
  const std::vector<std::string> lines = lines_of(text);
  std::size_t rule = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    CHECK(lines[i].size() <= 170);
    if (!lines[i].empty() && lines[i].find_first_not_of('-') == std::string::npos) rule = lines[i].size();
    if (lines[i].starts_with("OrbitFlow")) {
      CHECK(lines[i].size() == rule); // ends under the last column's header
      CHECK(rule <= 145);
    }
  }
  for (const char* part :
       {"made-up", "seed 7", "llama3-8b", "a5000", "611 token blocks", "SLO 58.9 ms", "first token 8 s"})
    CHECK_MESSAGE(count_of(text, part) >= 2, part);
  CHECK(count_of(text, "OneAtATime (control)") == 8);
  CHECK(count_of(text, "blocks, more than the device has, and the like (") == 4); // once per block, not once per row
}

TEST_CASE("the page contains everything itself and requests nothing") {
  const std::string page = report_html(shared_report());
  CHECK(page == report_html(shared_report()));
  for (const char* part : {"src=", "@import", "url(http", "fetch(", "XMLHttpRequest", "<link rel=\"stylesheet\""})
    CHECK_MESSAGE(page.find(part) == std::string::npos, part);
  CHECK(count_of(page, "http") == 1); // the name of the SVG namespace
  CHECK(page.find("<made up>") == std::string::npos);
  CHECK(page.find("&lt;made up&gt;") != std::string::npos);
  CHECK(count_of(page, "<script") == 2);
  CHECK(count_of(page, "</script>") == 2);

  const std::string open = "<script type=\"application/json\" id=\"data\">";
  const std::size_t from = page.find(open) + open.size();
  const json data = json::parse(page.substr(from, page.find("</script>", from) - from));
  REQUIRE(data.at("systems").size() == shared_report().systems.size());
  std::set<std::string> keys;
  for (const json& system : data.at("systems")) {
    CHECK(system.at("cdf").at("e2e").size() > 10);
    CHECK(system.at("cdf").at("tbt").size() >= 2); // a deposit's gaps have few different values
    CHECK(system.at("cdf").at("tbt").back().at(1) == 1);
    const json& series = system.at("series");
    CHECK(series.at("t").size() > 10);
    for (const char* column :
         {"device", "device_max", "host", "moved", "running", "waiting_max", "preempted_max", "stall"})
      CHECK(series.at(column).size() == series.at("t").size());
    const json& iteration = system.at("iteration");
    CHECK(iteration.at("compute").size() == 32);
    CHECK(iteration.at("placed").size() >= 1);
    for (const json& transfer : iteration.at("transfers")) {
      if (transfer.at(0) == "all") continue; // a rule that knows layers only
      bool host = false;
      for (const json& placed : iteration.at("placed"))
        if (placed.at(0) == transfer.at(0))
          for (const json& layer : placed.at(1)) host |= layer == transfer.at(1).get<int>() % 32;
      CHECK(host);
    }
    for (const auto& [key, value] : system.at("m").items()) keys.insert(key);
  }
  // The script reads only metrics that are written.
  const std::string script = pages::joined(pages::comparison_script);
  std::size_t read = 0;
  for (std::size_t at = script.find("m."); at != std::string::npos; at = script.find("m.", at + 1)) {
    if (at > 0 && (std::isalnum(static_cast<unsigned char>(script[at - 1])) != 0)) continue;
    const std::size_t end = script.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_", at + 2);
    const std::string key = script.substr(at + 2, end - at - 2);
    CHECK_MESSAGE(keys.count(key) == 1, key);
    ++read;
  }
  CHECK(read > 5);
  const std::string costs{pages::costs_js}, named = "{key: '";
  CHECK(count_of(costs, named) == 10);
  for (std::size_t at = costs.find(named); at != std::string::npos; at = costs.find(named, at + 1)) {
    const std::size_t from_key = at + named.size();
    const std::string key = costs.substr(from_key, costs.find('\'', from_key) - from_key);
    CHECK_MESSAGE(keys.count(key) == 1, key);
  }
}

TEST_CASE("the page's six colours contrast with its background, and are distinguishable in grey") {
  const std::string style = std::string{pages::base_css} + std::string{pages::results_css};
  const auto lightness = [&](std::size_t from, const std::string& name) { // relative luminance, as WCAG 2 defines it
    const std::size_t at = style.find("--" + name + ": #", from);
    REQUIRE(at != std::string::npos);
    std::string hex = style.substr(at + name.size() + 5, style.find_first_of(";}", at) - at - name.size() - 5);
    if (hex.size() == 3) hex = {hex[0], hex[0], hex[1], hex[1], hex[2], hex[2]};
    const auto part = [&](std::size_t i) {
      const double c = std::stoi(hex.substr(2 * i, 2), nullptr, 16) / 255.0;
      return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
    };
    return 0.2126 * part(0) + 0.7152 * part(1) + 0.0722 * part(2);
  };
  const auto contrast = [](double a, double b) { return (std::max(a, b) + 0.05) / (std::min(a, b) + 0.05); };
  int schemes = 0;
  for (std::size_t at = style.find(":root {"); at != std::string::npos; at = style.find(":root {", at + 1)) {
    ++schemes;
    std::vector<double> colours;
    for (const char* name : {"c0", "c1", "c2", "c3", "c4", "c5"}) {
      colours.push_back(lightness(at, name));
      CHECK(contrast(colours.back(), lightness(at, "card")) >= 3);
    }
    std::sort(colours.begin(), colours.end());
    for (std::size_t i = 1; i < colours.size(); ++i) CHECK(contrast(colours[i], colours[i - 1]) >= 1.15);
  }
  CHECK(schemes == 3); // light, dark, paper
}

TEST_CASE("printing the page gives no megabytes") {
  // Browsers write an SVG pattern or clip into a PDF as one picture for each shape that uses it.
  const std::string script = pages::joined(pages::comparison_script);
  for (const char* part : {"pattern", "clipPath", "mask", "filter'", "foreignObject", "url(#"})
    CHECK_MESSAGE(script.find("'" + std::string{part}) == std::string::npos, part);
  CHECK(script.find("url(") == std::string::npos);
  CHECK(script.find("beforeprint") != std::string::npos);
}

TEST_CASE("numbers are formatted as a person would write them") {
  CHECK(milliseconds_text(3.05) == "3050");
  CHECK(milliseconds_text(0.0209) == "20.9");
  CHECK(milliseconds_text(2e-6) == "0.0020");
  CHECK(milliseconds_text(2e-9) == "<0.0005");
  CHECK(milliseconds_text(0) == "0");
  CHECK(milliseconds_text(std::numeric_limits<double>::quiet_NaN()) == "-");
  for (double seconds = 1e-9; seconds < 1e6; seconds *= 1.7)
    CHECK(milliseconds_text(seconds).find('e') == std::string::npos);
  CHECK(short_text(0.04213) == "0.0421");
  CHECK(short_text(3.14159) == "3.14");
  CHECK(short_text(27.46) == "27.5");
  CHECK(short_text(1234.5) == "1234");
  CHECK(short_text(0) == "0");
  CHECK(short_text(std::numeric_limits<double>::quiet_NaN()) == "-");
  CHECK(tidy_text(8) == "8");
  CHECK(tidy_text(1.5) == "1.5");
  CHECK(tidy_text(100) == "100");
  CHECK(percent_text(1) == "100.0");
  CHECK(percent_text(0.99999) == ">99.9");
  CHECK(percent_text(0.00001) == "<0.1");
  CHECK(percent_text(0) == "0.0");
  CHECK(bytes_text(1.28e9) == "1.28 GB");
  CHECK(bytes_text(0) == "0 B");
  CHECK(time_text(0.0589) == "58.9 ms");
  CHECK(time_text(3e-6) == "3 us");
  CHECK(time_text(135) == "2 min 15 s");
  CHECK(time_text(7980) == "2 h 13 min");
  CHECK(time_text(std::numeric_limits<double>::infinity()) == "none");
}

TEST_CASE("progress: a bar for a terminal, lines for a file, with the time left") {
  CHECK(Progress::text(5, 10, 12, "OrbitFlow", 10) == "[#####.....]  50 %  OrbitFlow  12 s, 12 s left");
  CHECK(Progress::text(0, 10, 0, "reading", 10) == "[..........]   0 %  reading  0 us");
  CHECK(Progress::text(10, 10, 3, "x", 4) == "[####] 100 %  x  3 s");
  CHECK(Progress::text(1, 0, 3, "x", 0).starts_with("  0 %"));
  std::FILE* file = std::tmpfile();
  REQUIRE(file != nullptr);
  {
    Progress progress(100, file); // not a terminal: lines
    for (int i = 0; i <= 100; ++i) progress.update(i, "step");
  }
  std::rewind(file);
  std::string written(4096, '\0');
  written.resize(std::fread(written.data(), 1, written.size(), file));
  std::fclose(file);
  CHECK(lines_of(written).size() == 2); // the first state and the end, not a hundred lines
  CHECK(written.find('\r') == std::string::npos);
  CHECK(written.find("done in") != std::string::npos);
}
