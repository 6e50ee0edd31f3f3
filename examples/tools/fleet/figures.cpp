// SPDX-License-Identifier: Apache-2.0
#include "fleet/figures.hpp"

#include "sluice/report/number_text.hpp"
#include "sluice/report/observer/json_writer.hpp"
#include "sluice/report/seed_tables.hpp"
#include "sluice/report/statistics/paired.hpp"

#include "shared/version.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fleets {

using namespace sluice;

namespace {

double share(double part, double whole) { return whole > 0 ? part / whole : Interval::absent; }

/// Other figures leave refused requests out, except the SLO, which they miss.
constexpr std::string_view refused_key = "refused";

constexpr std::array<Figure, 14> all_figures{{
    {"throughput_tokens_per_s", "", "tokens/s", Unit::rate, [](const Ran& r) { return r.summary.tokens_per_s(); }},
    {"slo_attainment", "SLO", "met, %", Unit::share, [](const Ran& r) { return r.summary.attainment(); }},
    {"mean_ttft_s", "TTFT, s", "mean", Unit::seconds, [](const Ran& r) { return r.summary.ttft.mean(); }},
    {"p50_ttft_s", "TTFT, s", "P50", Unit::seconds, [](const Ran& r) { return r.summary.ttft.quantile(0.5); }},
    {"p90_ttft_s", "TTFT, s", "P90", Unit::seconds, [](const Ran& r) { return r.summary.ttft.quantile(0.9); }},
    {"p99_ttft_s", "TTFT, s", "P99", Unit::seconds, [](const Ran& r) { return r.summary.ttft.quantile(0.99); }},
    {"mean_tpot_s", "TPOT, ms", "mean", Unit::milliseconds, [](const Ran& r) { return r.summary.tpot.mean(); }},
    {"p90_tpot_s", "TPOT, ms", "P90", Unit::milliseconds, [](const Ran& r) { return r.summary.tpot.quantile(0.9); }},
    {"found_share", "prompts", "found, %", Unit::share,
     [](const Ran& r) {
       return share(static_cast<double>(r.summary.found.count()), static_cast<double>(r.summary.prompts.count()));
     }},
    {"loaded_share", "prompts", "loaded, %", Unit::share,
     [](const Ran& r) {
       return share(static_cast<double>(r.summary.loaded.count()), static_cast<double>(r.summary.prompts.count()));
     }},
    {"mean_report_age_s", "report, ms", "age", Unit::milliseconds, [](const Ran& r) { return r.summary.age.mean(); }},
    {"p90_report_age_s", "report, ms", "P90", Unit::milliseconds,
     [](const Ran& r) { return r.summary.age.quantile(0.9); }},
    {"imbalance", "", "imbalance", Unit::plain, [](const Ran& r) { return r.imbalance(); }},
    {refused_key, "", "refused", Unit::count, [](const Ran& r) { return static_cast<double>(r.summary.refused); }},
}};

std::vector<double> values_of(const Figure& figure, std::span<const Ran> runs) {
  std::vector<double> values;
  for (const Ran& run : runs) values.push_back(figure.of(run));
  return values;
}

/// A figure by which routers are judged, seed by seed.
struct Judged {
  std::string_view key;
  std::size_t least_pairs; ///< the fewest with which a difference has an interval, as in `JudgedFigure`; 0: never
};
constexpr std::array<Judged, 3> judged_by{{
    {"throughput_tokens_per_s", 0}, // nobody has measured how often intervals of these differences hold the truth
    {"slo_attainment", judged_figures[judged_figure("slo_attainment")].least_pairs},
    {"mean_ttft_s", 0},
}};

/// "precise: SLO +4.1 points [+2.0, +6.2], better, wins 8 of 8" of each judged figure, against the first router's runs.
/// Where the difference has no interval, the signs decide.
std::string differences_of(std::span<const RouterRuns> all, bool windows) {
  std::string out;
  const RouterRuns& first = all.front();
  for (const RouterRuns& one : all.subspan(1)) {
    out += fmt::format("{} against {}:", one.router, first.router);
    const char* between = " ";
    for (const auto& [key, least_pairs] : judged_by) {
      const auto figure = std::find_if(all_figures.begin(), all_figures.end(),
                                       [&, key = key](const Figure& f) { return f.key == key; });
      const std::vector<double> a = values_of(*figure, one.runs), b = values_of(*figure, first.runs);
      if (std::isnan(a.front()) || std::isnan(b.front())) continue;
      const Paired pair = judged_pairs(a, b, windows, least_pairs);
      const double scale = figure->unit == Unit::share ? 100 : 100 / std::abs(mean_of(b));
      out += fmt::format("{}{} {} {}", between, figure->group.empty() ? figure->head : figure->group,
                         sluice::detail::signed_text(pair.difference.mean * scale),
                         figure->unit == Unit::share ? "points" : "%");
      if (pair.difference.known())
        out += fmt::format(" [{}, {}]", sluice::detail::signed_text(pair.difference.least * scale),
                           sluice::detail::signed_text(pair.difference.most * scale));
      out += ", " + verdict_of(pair, key == "mean_ttft_s");
      between = "; ";
    }
    out += "\n";
  }
  const std::string note = too_few_note(first.runs.size(), windows);
  return note.empty() ? out : out + note + "\n";
}

} // namespace

double RouterRuns::queue_grows() const {
  double sum = 0;
  for (const Ran& run : runs) sum += run.queue_grows;
  return sum / static_cast<double>(runs.size());
}

std::string marked(const std::string& name, double queue_grows) {
  return queue_grows > 0.5 ? name + " (queue grows)" : name;
}

std::span<const Figure> figures() { return all_figures; }

Interval interval_of(const Figure& figure, std::span<const Ran> runs, bool windows) {
  return metric_interval(figure.key, values_of(figure, runs), windows);
}

std::string text_of(const Figure& figure, double value) {
  switch (figure.unit) {
  case Unit::rate:
    return fixed_text(value, 0);
  case Unit::share:
    return percent_text(value);
  case Unit::milliseconds:
    return milliseconds_text(value);
  case Unit::count:
    return tidy_text(value);
  case Unit::seconds:
  case Unit::plain:
    break;
  }
  return short_text(value);
}

std::string table_of(std::span<const RouterRuns> all, bool windows) {
  std::vector<TextTable::Column> columns{{"", "router"}};
  std::vector<const Figure*> shown;
  for (const Figure& figure : all_figures) { // a figure that no router has is left out
    const bool any = std::any_of(all.begin(), all.end(), [&](const RouterRuns& one) {
      const Interval of = interval_of(figure, one.runs, windows);
      return !std::isnan(of.mean) && (of.mean != 0 || (figure.key != "loaded_share" && figure.key != refused_key));
    });
    if (!any) continue;
    columns.push_back({std::string{figure.group}, std::string{figure.head}});
    shown.push_back(&figure);
  }
  TextTable table(columns);
  for (const RouterRuns& one : all) {
    std::vector<std::string> row{marked(one.router, one.queue_grows())};
    for (const Figure* figure : shown)
      row.push_back(sluice::detail::spread_text(interval_of(*figure, one.runs, windows),
                                                [&](double value) { return text_of(*figure, value); }));
    table.row(std::move(row));
  }
  return table.text() + (all.front().runs.size() > 1 && all.size() > 1 ? "\n" + differences_of(all, windows) : "");
}

std::string refusals_of(std::span<const RouterRuns> all) {
  std::vector<std::pair<std::string, std::string>> lines; // what was refused, and the routers
  for (const RouterRuns& one : all) {
    std::int64_t refused = 0;
    std::string_view why;
    for (const Ran& run : one.runs) {
      refused += run.summary.refused;
      if (why.empty()) why = run.refusal;
    }
    if (refused == 0 || why.empty()) continue;
    const std::string what = fmt::format("refused {}, the first because {}", refused, why);
    const auto alike = std::find_if(lines.begin(), lines.end(), [&](const auto& line) { return line.first == what; });
    if (alike == lines.end())
      lines.emplace_back(what, one.router);
    else
      alike->second += ", " + one.router;
  }
  std::string text;
  for (const auto& [what, routers] : lines) text += fmt::format("{}: {}\n", routers, what);
  return text;
}

std::string json_of(std::span<const RouterRuns> all, std::span<const std::uint64_t> seeds, bool windows) {
  std::string text;
  JsonWriter json(text);
  json.begin_object().field("made_by", made_by().line()).key("seeds").begin_array();
  for (const std::uint64_t seed : seeds) json.value(seed);
  json.end_array().key("rows").begin_array();
  for (const RouterRuns& one : all) {
    json.line().begin_object().field("router", one.router);
    for (const Figure& figure : all_figures) {
      if (figure.key == refused_key) continue; // below, over all runs
      const Interval of = interval_of(figure, one.runs, windows);
      json.key(figure.key).value(of.mean);
      if (of.known())
        json.key(std::string{figure.key} + "_interval").begin_array().value(of.least).value(of.most).end_array();
      if (one.runs.size() < 2) continue;
      json.key(std::string{figure.key} + "_each").begin_array();
      for (const double value : values_of(figure, one.runs)) json.value(value);
      json.end_array();
    }
    const auto sum = [&](auto count) {
      std::int64_t total = 0;
      for (const Ran& run : one.runs) total += count(run.summary);
      return total;
    };
    json.field("requests", sum([](const FleetSummary& s) { return s.requests; }));
    json.field("served", sum([](const FleetSummary& s) { return s.served; }));
    json.field("refused", sum([](const FleetSummary& s) { return s.refused; }));
    json.field("interrupted", sum([](const FleetSummary& s) { return s.interrupted; }));
    json.field("handed_over", sum([](const FleetSummary& s) { return s.handed; }));
    json.field("queue_grows", one.queue_grows());
    json.key("digests").begin_array();
    for (const Ran& run : one.runs) json.value(run.summary.digest.text());
    json.end_array().end_object();
  }
  json.end_array().end_object();
  return text + "\n";
}

} // namespace fleets
