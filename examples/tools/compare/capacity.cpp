// SPDX-License-Identifier: Apache-2.0
// Runs the searches of --capacity, each system on each seed, and writes the results as a table and as JSON.
//
// All searches of a seed use one workload: the same requests in the same order, with arrivals closer together or
// further apart, as with --rate-scale. Systems are therefore compared in pairs, and any rate that was tried can be run
// again by hand.
#include "compare/capacity.hpp"

#include "sluice/report/observer/json_writer.hpp"
#include "sluice/report/seed_tables.hpp"
#include "sluice/workload/reader.hpp"
#include "sluice/workload/workload.hpp"

#include "compare/drawn_table.hpp"
#include "compare/rows.hpp"
#include "shared/crew.hpp"
#include "shared/progress.hpp"
#include "shared/version.hpp"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace compared {

using namespace sluice;

std::size_t CapacityRow::count(Found found) const {
  return static_cast<std::size_t>(
      std::count_if(seeds.begin(), seeds.end(), [found](const CapacitySearch& one) { return one.found == found; }));
}
std::size_t CapacityRow::doubted() const {
  return static_cast<std::size_t>(
      std::count_if(seeds.begin(), seeds.end(), [](const CapacitySearch& one) { return !one.monotone(); }));
}
std::vector<double> CapacityRow::scales(const RateLattice& lattice) const {
  std::vector<double> all;
  for (const CapacitySearch& seed : seeds)
    all.push_back(seed.found == Found::between ? std::log2(lattice.rate(seed.step))
                  : seed.found == Found::below ? lies_below
                                               : lies_above);
  return all;
}
std::vector<double> CapacityRow::rates(const RateLattice& lattice) const {
  std::vector<double> all = scales(lattice);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] += std::log2(own_rates[i]);
  return all;
}
double CapacityRow::attained() const {
  std::vector<double> all;
  if (count(Found::between) == seeds.size())
    for (const CapacitySearch& seed : seeds) all.push_back(seed.at(seed.step).attained);
  return mean_of(all);
}

Status check_capacity(const CommandLine& asked, const Sweep& sweep) {
  if (asked.given("--columns"))
    return flag_error("--columns", "the table of capacities has fixed columns", "no columns, or no --capacity");
  if (asked.given("--trace-at"))
    return flag_error("--trace-at", "--capacity leaves no traces", "a comparison at one rate, or no --trace-at");
  if (asked.given("--wall-times"))
    return flag_error("--wall-times", "--capacity reports no planning times", "a comparison at one rate");
  for (const Axis& axis : sweep.axes)
    if (axis.name == "rate-scale")
      return flag_error("--rate-scale", "--capacity searches the rate", "one rate to search from, or no --capacity");
  for (const Cell& cell : sweep.cells) {
    const Options& options = cell.run.options;
    if (*options.capacity > 1)
      return flag_error("--capacity", fmt::format("it is {:g}", *options.capacity), "a share above 0, at most 1");
    if (!options.node.tenants.empty())
      return flag_error("--capacity", "there are tenants, each with a rate of its own", "one model");
    if (options.cells)
      return flag_error("--cells", "--capacity writes one report for all comparisons",
                        "--cells or --capacity, not both");
  }
  return {};
}

namespace {

/// One search to make.
struct Search {
  std::size_t cell, row, seed;
};

std::uint64_t seed_of(const Options& options, std::size_t seed) {
  return options.workload.seeds.empty() ? options.workload.seed : options.workload.seeds[seed];
}

nlohmann::json as_json(const CapacitySearch& search, const CapacityRow& row) {
  nlohmann::json probes = nlohmann::json::array();
  for (const Probe& probe : search.probes) probes.push_back({probe.step, probe.attained, probe.livelocked});
  return {{"found", static_cast<int>(search.found)},
          {"step", search.step},
          {"probes", probes},
          {"against", search.against},
          {"rate", row.own_rates.front()},
          {"engine", row.engine},
          {"tbt", row.slo_tbt_s},
          {"ttft", row.slo_ttft_s}};
}
void from_json(const nlohmann::json& json, CapacitySearch& search, CapacityRow& row) {
  search.found = static_cast<Found>(json.at("found").get<int>());
  search.step = json.at("step");
  for (const nlohmann::json& probe : json.at("probes"))
    search.probes.push_back({probe.at(0), probe.at(1), probe.at(2)});
  search.against = json.at("against").get<std::vector<int>>();
  row.own_rates = {json.at("rate").get<double>()};
  row.engine = json.at("engine");
  row.slo_tbt_s = json.at("tbt");
  row.slo_ttft_s = json.at("ttft");
}

/// The result of a search, and those cells of its row that only a run can provide.
struct Searched {
  CapacitySearch search;
  CapacityRow row;
};

Status search_one(const Options& options, const Comparison& c, const Row& row, std::size_t seed, double share,
                  const RateLattice& lattice, Searched& into) {
  const auto attain = [&](int step) -> Expected<Probe> {
    Options at = options;
    at.workload.seed = seed_of(options, seed);
    at.workload.rate_scale = lattice.rate(step);
    Expected<Comparison> prepared = prepare(at, c.workload.command);
    if (!prepared) return prepared.error();
    if (into.row.own_rates.empty()) {
      const Expected<Requests> reader = prepared->setup.open({});
      if (!reader) return reader.error();
      Requests requests = *reader;
      const Expected<std::vector<RequestSpec>> all = read_all(requests);
      if (!all) return all.error();
      into.row.own_rates = {totals(*all).rate / lattice.rate(step)};
    }
    Outcome outcome;
    if (Status ran = run_row(
            options, c, row, prepared->setup, seed, false, [](std::int64_t) { drop_if_interrupted(); }, outcome);
        !ran)
      return ran.error();
    into.row.engine = outcome.report.engine_type;
    into.row.slo_tbt_s = outcome.report.slo_tbt_s;
    into.row.slo_ttft_s = outcome.report.slo_ttft_s;
    return Probe{step, outcome.report.metrics.slo_attainment, !outcome.report.livelock.empty()};
  };
  Expected<CapacitySearch> search = search_capacity(share, lattice, attain);
  if (!search) return search.error();
  into.search = *std::move(search);
  return {};
}

} // namespace

Expected<CapacityReport> find_capacities(const Sweep& sweep, const Grid& grid, Crew& crew) {
  const Options& first = sweep.cells.front().run.options;
  CapacityReport report{*first.capacity, RateLattice::near(first.workload.rate_scale), sweep.axes, {}, grid.command,
                        grid.note};
  std::vector<std::vector<Row>> rows;
  std::vector<Search> searches;
  for (std::size_t i = 0; i < sweep.cells.size(); ++i) {
    const Comparison& c = grid.cells[i].comparison;
    Expected<std::vector<Row>> of = rows_of(c);
    if (!of) return of.error();
    for (std::size_t row = 0; row < of->size(); ++row)
      for (std::size_t seed = 0; seed < seeds_in(c); ++seed) searches.push_back({i, row, seed});
    rows.push_back(*std::move(of));
  }
  Progress progress(static_cast<double>(searches.size()), stderr,
                    first.quiet ? Progress::Style::silent : Progress::Style::detect);
  std::mutex telling;
  double done = 0;
  std::vector<Searched> found(searches.size());
  std::vector<bool> finished(searches.size(), false);
  Jobs jobs;
  jobs.count = searches.size();
  const auto name = [&](std::size_t i) {
    const auto& [cell, row, seed] = searches[i];
    return name_of_run(sweep.cells[cell].run.options, grid.cells[cell].comparison, rows[cell][row], seed);
  };
  jobs.run = [&](std::size_t i) {
    {
      const std::lock_guard lock(telling);
      progress.update(done, name(i));
    }
    const auto& [cell, row, seed] = searches[i];
    return search_one(sweep.cells[cell].run.options, grid.cells[cell].comparison, rows[cell][row], seed, report.share,
                      report.lattice, found[i]);
  };
  jobs.pack = [&](std::size_t i) {
    const std::vector<std::uint8_t> bytes = nlohmann::json::to_cbor(as_json(found[i].search, found[i].row));
    return std::string{bytes.begin(), bytes.end()};
  };
  jobs.unpack = [&](std::size_t i, std::string_view bytes) -> Status {
    try {
      from_json(nlohmann::json::from_cbor(bytes), found[i].search, found[i].row);
    } catch (const nlohmann::json::exception& error) {
      return flag_error("--mpi", std::string{"a search cannot be read: "} + error.what(),
                        "the same build of this program on every rank");
    }
    return {};
  };
  jobs.ended = [&](std::size_t i) {
    const std::lock_guard lock(telling);
    progress.update(++done, name(i));
    finished[i] = true;
  };
  if (Status ran = crew.run(jobs); !ran) return ran.error();
  if (!crew.leads()) return report;
  report.searches = {static_cast<std::size_t>(std::count(finished.begin(), finished.end(), true)), searches.size()};
  if (!report.searches.whole()) progress.finish("interrupted after");
  std::size_t next = 0;
  for (std::size_t i = 0; i < sweep.cells.size(); ++i) {
    const Comparison& c = grid.cells[i].comparison;
    CapacityCell cell{grid.cells[i].at, grid.cells[i].label, c.workload, sweep.cells[i].run.options.baseline, {}};
    for (const Row& row : rows[i]) {
      CapacityRow of = found[next].row;
      of.name = row.system->name;
      of.control = row.system->control;
      of.oracle = row.system->foresees;
      of.deposit = row.deposit;
      of.windows = c.workload.windows;
      of.slo_scale = row.scale;
      of.own_rates.clear();
      bool whole = true; // all seeds have run; otherwise the row cannot be compared with others
      for (std::size_t seed = 0; seed < seeds_in(c); ++seed, ++next) {
        whole = whole && finished[next];
        if (!whole) continue;
        of.seeds.push_back(std::move(found[next].search));
        of.own_rates.push_back(found[next].row.own_rates.front());
      }
      if (whole) cell.rows.push_back(std::move(of));
    }
    if (!cell.rows.empty()) report.cells.push_back(std::move(cell));
  }
  return report;
}

std::vector<const CapacityRow*> ranked(const CapacityCell& cell, const RateLattice& lattice, bool deposit,
                                       double slo_scale) {
  struct Place {
    const CapacityRow* row;
    double median, mean;
  };
  std::vector<Place> places;
  for (const CapacityRow& row : cell.rows) {
    if (row.deposit != deposit || row.slo_scale != slo_scale) continue;
    const std::vector<double> logs = row.scales(lattice);
    double sum = 0; // a seed beyond an end counts as that end
    for (const double log : logs)
      sum += std::clamp(log, std::log2(lattice.rate(lattice.first())), std::log2(lattice.rate(lattice.last())));
    places.push_back({&row, median_of(row.rates(lattice)), sum / static_cast<double>(logs.size())});
  }
  std::stable_sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
    if (a.row->control != b.row->control) return b.row->control;
    return a.median != b.median ? a.median > b.median : a.mean > b.mean;
  });
  std::vector<const CapacityRow*> rows;
  for (const Place& place : places) rows.push_back(place.row);
  return rows;
}

const CapacityRow* rival_of(const CapacityCell& cell, const RateLattice& lattice, const CapacityRow& row) {
  const std::vector<const CapacityRow*> rows = ranked(cell, lattice, row.deposit, row.slo_scale);
  const CapacityRow* best = nullptr;
  for (const CapacityRow* other : rows)
    if (other->name == cell.baseline) best = other;
  const auto first = std::find_if(rows.begin(), rows.end(), [](const CapacityRow* of) { return !of->oracle; });
  if (cell.baseline.empty() && first != rows.end() && !(*first)->control &&
      (*first)->count(Found::below) < (*first)->seeds.size())
    best = *first;
  return best == &row ? nullptr : best;
}

std::string remark_of(const CapacityReport& report, const CapacityRow& row) {
  const auto of = [&](std::size_t count) {
    return row.seeds.size() < 2 ? std::string{}
                                : fmt::format("of {} {} {} ", row.seeds.size(), seeds_or_windows(row.windows), count);
  };
  std::vector<std::string> parts;
  if (const std::size_t below = row.count(Found::below)) {
    const auto stuck =
        static_cast<std::size_t>(std::count_if(row.seeds.begin(), row.seeds.end(), [](const CapacitySearch& seed) {
          return seed.found == Found::below && seed.probes.front().livelocked;
        }));
    parts.push_back(fmt::format("{}not even at rate x{:.3g}", of(below), report.lattice.rate(report.lattice.first())));
    if (stuck > 0) parts.back() += stuck == below ? ", where it livelocks" : fmt::format(", where {} livelock", stuck);
  }
  if (const std::size_t above = row.count(Found::above))
    parts.push_back(fmt::format("{}still at the highest rate tried, x{:.3g}", of(above),
                                report.lattice.rate(report.lattice.last())));
  if (const std::size_t doubted = row.doubted()) {
    std::string where;
    for (const CapacitySearch& seed : row.seeds)
      if (!seed.monotone() && where.empty())
        where = fmt::format("at rate x{:.3g} not met", report.lattice.rate(seed.against.back()));
    parts.push_back(fmt::format("{}not monotone: {}", of(doubted), where));
  }
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : "; ") + part;
  return text;
}

std::string ratio_text(const Interval& ratio, std::string_view from, std::string_view to, std::string_view end) {
  if (!std::isfinite(ratio.mean)) return "-";
  const auto percent = [](double of) { return detail::signed_text(100 * (of - 1)); };
  std::string text = percent(ratio.mean);
  if (ratio.known()) (text += from) += percent(ratio.least) + std::string{to} + percent(ratio.most) + std::string{end};
  return text;
}

std::string factor_text(const Interval& geometric) {
  if (!geometric.known() || geometric.least == geometric.most) return short_text(geometric.mean);
  return fmt::format("{} ×/÷ {:.3g}", short_text(geometric.mean), factor_of(geometric));
}

namespace {

std::vector<double> scales_of(const CapacityCell& cell) {
  std::vector<double> scales;
  for (const CapacityRow& row : cell.rows) scales.push_back(row.slo_scale);
  std::sort(scales.begin(), scales.end());
  scales.erase(std::unique(scales.begin(), scales.end()), scales.end());
  return scales;
}

} // namespace

namespace {

/// The table of capacities: its columns, and a row's cells in the same order. As CSV (`raw`), interval limits are
/// separate columns.
class CapacityTable {
 public:
  CapacityTable(const CapacityReport& report, std::string_view style)
      : report_(report), style_(style), raw_(style == "csv"), seeds_(report.cells.front().workload.seeds.size() > 1) {
    for (const CapacityCell& cell : report.cells) {
      cases_ |= !cell.label.empty();
      for (const CapacityRow& row : cell.rows) scales_ |= row.slo_scale != report.cells.front().rows.front().slo_scale;
    }
    add_heads();
  }

  [[nodiscard]] bool raw() const { return raw_; }
  [[nodiscard]] bool scales() const { return scales_; }
  [[nodiscard]] bool seeds() const { return seeds_; }

  /// Returns the rows with or without a deposit; as CSV, all rows.
  [[nodiscard]] std::string text(bool deposit) const {
    std::vector<std::vector<std::string>> lines;
    for (const CapacityCell& cell : report_.cells)
      for (const CapacityRow* row : in_order(cell, deposit)) lines.push_back(line_of(cell, *row));
    if (lines.empty()) return {};
    const std::string title = raw_ ? "" : std::string{deposit ? "with deposit" : "without deposit"} + ":\n\n";
    return title + drawn_table(style_, heads_, lines, left_);
  }

 private:
  using Line = std::vector<std::string>;

  void head(std::string name, bool words) {
    heads_.push_back(std::move(name));
    left_.push_back(words);
  }
  void figure_head(const char* name, const char* csv) {
    head(raw_ ? csv : name, false);
    if (!raw_ || !seeds_) return;
    head(std::string{csv} + "-least", false);
    head(std::string{csv} + "-most", false);
  }
  void add_heads() {
    for (const auto& [axis, value] : report_.cells.front().at) head(axis, false);
    if (cases_) head("case", true);
    head("system", true);
    if (raw_) head("deposit", true);
    if (scales_ || raw_) head("scale", false);
    figure_head("requests/s", "requests-per-s");
    if (seeds_) head(raw_ ? "requests-per-s-median" : "median", false);
    figure_head("of the rate", "rate-scale");
    head(raw_ ? "slo-met" : "SLO there, %", false);
    if (seeds_) head(raw_ ? "against" : "to the best's, %", false);
    if (seeds_ && raw_)
      for (const char* name : {"ratio", "ratio-least", "ratio-most"}) head(name, false);
    if (seeds_) head("judged", true);
    head("remark", true);
  }

  /// As CSV, rows have their original order; otherwise they are ordered by rank within each SLO scale.
  [[nodiscard]] std::vector<const CapacityRow*> in_order(const CapacityCell& cell, bool deposit) const {
    std::vector<const CapacityRow*> order;
    if (raw_) {
      for (const CapacityRow& row : cell.rows) order.push_back(&row);
      return order;
    }
    for (const double scale : scales_of(cell))
      for (const CapacityRow* row : ranked(cell, report_.lattice, deposit, scale)) order.push_back(row);
    return order;
  }

  [[nodiscard]] Line line_of(const CapacityCell& cell, const CapacityRow& row) const {
    Line line;
    for (const auto& [axis, value] : cell.at) line.push_back(value);
    if (cases_) line.push_back(cell.label);
    line.push_back(raw_ ? row.name : row.label());
    if (raw_) line.emplace_back(row.deposit ? "yes" : "no");
    if (scales_ || raw_) line.push_back(tidy_text(row.slo_scale));
    add_geometric(line, row.rates(report_.lattice), fewest_for_rate, row.windows);
    if (seeds_) line.push_back(median_text(median_of(row.rates(report_.lattice))));
    add_geometric(line, row.scales(report_.lattice), fewest_for_scale, row.windows);
    line.push_back(raw_ ? full(row.attained()) : percent_text(row.attained()));
    if (seeds_) add_rival(line, row, rival_of(cell, report_.lattice, row));
    line.push_back(remark_of(report_, row));
    return line;
  }

  static std::string full(double value) { return std::isfinite(value) ? fmt::format("{:.10g}", value) : ""; }
  void add_geometric(Line& line, const std::vector<double>& logs, std::size_t fewest, bool windows) const {
    const Interval of = geometric_interval(logs, fewest, windows);
    line.push_back(raw_ ? full(of.mean) : factor_text(of));
    if (!raw_ || !seeds_) return;
    line.push_back(full(of.least));
    line.push_back(full(of.most));
  }
  [[nodiscard]] std::string median_text(double median) const {
    return raw_                   ? full(number_of(median))
           : median == lies_below ? "below all"
           : median == lies_above ? "above all"
                                  : short_text(number_of(median));
  }
  /// Adds the comparison of the row with its best rival, seed by seed.
  void add_rival(Line& line, const CapacityRow& row, const CapacityRow* rival) const {
    if (rival == nullptr) {
      line.emplace_back(raw_ ? "" : "-");
      if (raw_) line.insert(line.end(), 3, "");
      line.emplace_back(raw_ ? "" : "-");
      return;
    }
    const CapacityPairs of = capacity_pairs(row.rates(report_.lattice), rival->rates(report_.lattice), row.windows);
    if (raw_) {
      line.push_back(rival->name);
      for (const double value : {of.ratio.mean, of.ratio.least, of.ratio.most}) line.push_back(full(value));
    } else {
      line.push_back(ratio_text(of.ratio, " (", " .. ", ")"));
    }
    line.push_back(of.verdict());
  }

  const CapacityReport& report_;
  std::string_view style_;
  bool raw_, seeds_, scales_ = false, cases_ = false;
  std::vector<std::string> heads_;
  std::vector<bool> left_; ///< columns that contain text
};

} // namespace

std::string kept_slos(const WorkloadReport& workload, const CapacityRow& row) {
  if (slos_by_class(workload)) return classes_line(workload);
  if (std::isnan(row.slo_tbt_s) || std::isnan(row.slo_ttft_s)) return "each request's own";
  return fmt::format("first token within {} and TPOT within {}", time_text(row.slo_ttft_s), time_text(row.slo_tbt_s));
}

std::string capacity_text(const CapacityReport& report, std::string_view style) {
  const CapacityTable table(report, style);
  if (table.raw()) return table.text(false);
  const WorkloadReport& w = report.cells.front().workload;
  const CapacityRow& row = report.cells.front().rows.front();
  std::string cautions;
  if (!w.times.empty()) cautions += "; " + w.times;
  for (const std::string& caution : w.cautions) cautions += "; " + caution;
  const std::string title = fmt::format(
      "Capacity: the highest arrival rate at which {:g} % of the requests keep both SLOs, {}{};\n{}, {} requests, {}; "
      "{} on {}{}; rates in steps of {:.2g} %, from "
      "{:.3g} to {:.3g} times the workload's own{}\n\n",
      100 * report.share, kept_slos(w, row), table.scales() || report.cells.size() > 1 ? " (of the first row)" : "",
      w.trace, w.requests, seeds_of(w), w.model, w.device, cautions, 100 * (report.lattice.rate(1) - 1),
      report.lattice.rate(report.lattice.first()), report.lattice.rate(report.lattice.last()),
      !table.seeds() ? ""
      : w.windows    ? "; geometric means of the windows, and the rate that at least half of them sustain"
                     : "; geometric means of the seeds ×/÷ the factor of the 95 % interval, if there is one, and the "
                       "rate that at least half of them sustain");
  return title + table.text(false) + table.text(true);
}

std::string capacity_json(const CapacityReport& report) {
  std::string text;
  JsonWriter json(text);
  json.begin_object().line(2);
  detail::write_made_by(json, made_by());
  json.line(2).key("capacity").begin_object().field("share", report.share);
  json.field("lowest", report.lattice.rate(report.lattice.first()));
  json.field("highest", report.lattice.rate(report.lattice.last())).field("step", report.lattice.rate(1));
  json.field("command", report.command).field("note", report.note).key("axes").begin_array();
  for (const Axis& axis : report.axes) write_axis(json, axis);
  json.end_array().end_object().line(2).key("cells").begin_array();
  const auto number = [&](const char* key, const std::vector<double>& logs, std::size_t fewest, bool windows) {
    const Interval of = geometric_interval(logs, fewest, windows);
    json.field(key, of.mean).key(std::string{key} + "_interval").begin_array().value(of.least).value(of.most);
    json.end_array().field("median_" + std::string{key}, number_of(median_of(logs))); // null if beyond an end
  };
  for (const CapacityCell& cell : report.cells) {
    json.line(4).begin_object().key("at");
    write_at(json, cell.at, cell.label);
    json.line(6).key("workload");
    detail::write_workload(json, cell.workload);
    json.line(6).key("systems").begin_array();
    for (const CapacityRow& row : cell.rows) {
      json.line(8).begin_object().field("name", row.name).field("deposit", row.deposit).field("control", row.control);
      json.field("oracle", row.oracle);
      json.field("slo_scale", row.slo_scale).field("slo_tbt_s", row.slo_tbt_s).field("slo_ttft_s", row.slo_ttft_s);
      json.field("engine", row.engine);
      number("requests_per_s", row.rates(report.lattice), fewest_for_rate, row.windows);
      number("rate_scale", row.scales(report.lattice), fewest_for_scale, row.windows);
      json.field("slo_attainment", row.attained()).field("below", row.count(Found::below));
      json.field("above", row.count(Found::above)).field("not_monotone", row.doubted());
      json.field("remark", remark_of(report, row));
      if (const CapacityRow* rival = rival_of(cell, report.lattice, row)) {
        const CapacityPairs of = capacity_pairs(row.rates(report.lattice), rival->rates(report.lattice), row.windows);
        json.key("pairs").begin_object().field("against", rival->name).field("ratio", of.ratio.mean);
        json.key("interval").begin_array().value(of.ratio.least).value(of.ratio.most).end_array();
        json.field("tie", of.tie()).field("more", of.wins).field("less", of.losses).field("pairs", of.ordered);
        json.field("chance", of.chance).field("verdict", of.verdict());
        json.end_object();
      }
      json.key("per_seed").begin_array();
      const std::vector<std::uint64_t> served = seeds_served(cell.workload);
      for (std::size_t i = 0; i < row.seeds.size(); ++i) {
        const CapacitySearch& seed = row.seeds[i];
        const auto scale = [&](int step) { return report.lattice.rate(step); };
        json.line(10).begin_object().field("seed", served[i]);
        json.field("found", name_of(seed.found));
        json.field("rate_scale", scale(seed.step))
            .field("requests_per_s", report.lattice.rate(seed.step) * row.own_rates[i]);
        json.field("monotone", seed.monotone()).key("probes").begin_array();
        for (const Probe& probe : seed.probes) {
          json.begin_object().field("rate_scale", scale(probe.step));
          json.field("requests_per_s", report.lattice.rate(probe.step) * row.own_rates[i]);
          json.field("slo_attainment", probe.attained).field("livelocked", probe.livelocked).end_object();
        }
        json.end_array().end_object();
      }
      json.end_array().end_object();
    }
    json.line(6).end_array().end_object();
  }
  json.line(2).end_array().line().end_object();
  text += '\n';
  return text;
}

} // namespace compared
