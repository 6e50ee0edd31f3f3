// SPDX-License-Identifier: Apache-2.0
// Serializes a run's figures for another process.
#include "compare/rows.hpp"
#include <nlohmann/json.hpp>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace compared {

using namespace sluice;

namespace {

using nlohmann::json;

/// Returns the figures that forget_curves() keeps, and the rows of tables. (Curves stay in their process, which also
/// draws them.)
json figures_of(const Outcome& outcome) {
  const SystemReport& report = outcome.report;
  json figures{{"name", report.name},       {"deposit", report.deposit},   {"control", report.control},
               {"oracle", report.oracle},   {"scale", report.slo_scale},   {"tbt", report.slo_tbt_s},
               {"ttft", report.slo_ttft_s}, {"transfer", report.transfer}, {"engine", report.engine_type},
               {"note", report.note},       {"livelock", report.livelock}, {"refusals", report.refusals}};
  figures["unpaid"] = {report.unpaid.decisions, report.unpaid.processor_s};
  figures["waits_for_memory"] = report.waits_for_memory;
  if (report.beyond_grid) {
    const BeyondReport& of = *report.beyond_grid;
    figures["beyond_grid"] = {of.iterations, of.beyond, of.axis, of.size, of.last};
  }
  const CsvRows& csv = outcome.csv;
  figures["csv"] = {csv.requests, csv.series, csv.iterations, csv.iterations_left_out};
  const TimeReport& time = report.time; // its sums, which are added over all seeds
  const MissCauses& misses = time.misses;
  figures["time"] = {time.seen,
                     time.spent,
                     time.covered,
                     time.missed,
                     time.turned_away,
                     time.prompts,
                     misses.unwritten.count(),
                     misses.evicted.count(),
                     misses.late.count(),
                     misses.cut.count()};
  json& numbers = figures["numbers"] = json::array();
  for_each_metric(report.metrics, [&numbers](std::string_view, auto number) { numbers.push_back(number); });
  if (!csv.tokens.empty()) figures["tokens"] = json::binary({csv.tokens.begin(), csv.tokens.end()});
  json& classes = figures["classes"] = json::array();
  for (const SystemReport& part : report.classes) classes.push_back(figures_of({.report = part, .trace = {}}));
  json& tenants = figures["tenants"] = json::array();
  for (const Outcome& tenant : outcome.tenants) tenants.push_back(figures_of(tenant));
  return figures;
}

void read_figures(const json& figures, Outcome& outcome) {
  SystemReport& report = outcome.report;
  figures.at("name").get_to(report.name);
  figures.at("deposit").get_to(report.deposit);
  figures.at("control").get_to(report.control);
  figures.at("oracle").get_to(report.oracle);
  figures.at("scale").get_to(report.slo_scale);
  figures.at("tbt").get_to(report.slo_tbt_s);
  figures.at("ttft").get_to(report.slo_ttft_s);
  figures.at("transfer").get_to(report.transfer);
  figures.at("engine").get_to(report.engine_type);
  figures.at("note").get_to(report.note);
  figures.at("livelock").get_to(report.livelock);
  figures.at("refusals").get_to(report.refusals);
  report.unpaid = {figures.at("unpaid").at(0), figures.at("unpaid").at(1)};
  figures.at("waits_for_memory").get_to(report.waits_for_memory);
  if (figures.contains("beyond_grid")) {
    const json& of = figures.at("beyond_grid");
    report.beyond_grid = BeyondReport{of.at(0), of.at(1), of.at(2), of.at(3), of.at(4)};
  }
  const json& csv = figures.at("csv");
  csv.at(0).get_to(outcome.csv.requests);
  csv.at(1).get_to(outcome.csv.series);
  csv.at(2).get_to(outcome.csv.iterations);
  csv.at(3).get_to(outcome.csv.iterations_left_out);
  const json& time = figures.at("time");
  time.at(0).get_to(report.time.seen);
  time.at(1).get_to(report.time.spent);
  time.at(2).get_to(report.time.covered);
  time.at(3).get_to(report.time.missed);
  time.at(4).get_to(report.time.turned_away);
  time.at(5).get_to(report.time.prompts);
  const auto tokens = [&](std::size_t at) { return Tokens{time.at(at).get<std::int64_t>()}; };
  report.time.misses = {tokens(6), tokens(7), tokens(8), tokens(9)};
  std::size_t at = 0;
  for_each_metric(report.metrics,
                  [&](std::string_view, auto& number) { figures.at("numbers").at(at++).get_to(number); });
  if (figures.contains("tokens")) {
    const auto& bytes = figures.at("tokens").get_binary();
    outcome.csv.tokens.assign(bytes.begin(), bytes.end());
  }
  for (const json& of : figures.at("classes")) {
    Outcome part;
    read_figures(of, part);
    report.classes.push_back(std::move(part.report));
  }
  for (const json& tenant : figures.at("tenants")) read_figures(tenant, outcome.tenants.emplace_back());
}

} // namespace

std::string packed(const Outcome& outcome) {
  const std::vector<std::uint8_t> bytes = json::to_cbor(figures_of(outcome));
  return {bytes.begin(), bytes.end()};
}

Status unpack(std::string_view bytes, Outcome& outcome) {
  try {
    Outcome read;
    read_figures(json::from_cbor(bytes), read);
    outcome = std::move(read);
  } catch (const json::exception& error) {
    return flag_error("--mpi", std::string{"a run's figures cannot be read: "} + error.what(),
                      "the same build of this program on every rank");
  }
  return {};
}

} // namespace compared
