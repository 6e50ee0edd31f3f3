// SPDX-License-Identifier: Apache-2.0
// bench_coverage: how often the 95 % intervals that tables print contain the truth.
//
// usage: bench_coverage REPORT.JSON [SEEDS]      a comparison with many seeds or windows; SEEDS of each interval (8)
//        bench_coverage CAPACITY.JSON [SEEDS]    the same of --capacity
//        bench_coverage sessions [SEEDS]         of 400 workloads of sessions, which it serves itself with tiers in
//        host
//                                                memory and below
//
// SEEDS seeds (or windows of a trace), drawn at random 1,000 times with one seed, give an interval, as sluice-compare
// would print it. The truth is the mean of the others, which are held out. That mean has an error of its own: of n
// seeds against m, the difference of the means has 1 + n/m times the variance of the interval's own mean. The interval
// is therefore made wider by the root of 1 + n/m, as a prediction interval for the mean of m further seeds is. The
// share of the intervals that contain the truth is their coverage.
//
// The first table is of figures; the name of one that tables print without an interval of so many has a minus
// (`has_interval`). The second is of paired differences from the report's first system that is neither a control nor an
// oracle, where less than half of the pairs are equal; a minus as above. The last lines have what counts for verdicts
// (better or worse, no tie): how many draws give one, how often the mean of the others denies it, and how often the
// others' majority does.
#include "sluice/core/job_queue.hpp"
#include "sluice/core/random.hpp"
#include "sluice/engine/serve.hpp"
#include "sluice/engine/systems/prefix_tiers.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/report/columns.hpp"
#include "sluice/report/seeds.hpp"
#include "sluice/report/statistics/interval.hpp"
#include "sluice/report/statistics/paired.hpp"
#include "sluice/workload/reader.hpp"
#include "sluice/workload/session_generator.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

using namespace sluice;

namespace {

constexpr int draws = 1'000;
constexpr const char* sessions_text =
    "sessions:rate=0.3,sessions=24,turns=uniform(2,6),systems=2,system=300,first=lognormal(900,0.8),"
    "growth=lognormal(300,0.8),output=lognormal(120,0.6),user=lognormal(8,1.0)";

/// Calls `visit(drawn, others, wider)` for every draw of `count` of the values that exist: their places, the mean of
/// all other values, and the factor of an interval for that mean. Never, with too few values.
template <class Visit>
void each_draw(const std::vector<double>& values, std::size_t count, Visit&& visit) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!std::isnan(values[i])) places.push_back(i);
  if (places.size() < 2 * count) return;
  const auto rest = static_cast<double>(places.size() - count);
  Random random(1);
  for (int draw = 0; draw < draws; ++draw) {
    for (std::size_t i = 0; i < count; ++i) std::swap(places[i], places[i + random.below(places.size() - i)]);
    double others = 0;
    for (const std::size_t place : std::span{places}.subspan(count)) others += values[place];
    visit(std::span<const std::size_t>{places}.first(count), others / rest,
          std::sqrt(1 + static_cast<double>(count) / rest));
  }
}

std::vector<double> at(const std::vector<double>& values, std::span<const std::size_t> places) {
  std::vector<double> some;
  for (const std::size_t place : places) some.push_back(values[place]);
  return some;
}

struct Share {
  int of = 0, all = 0;

  void count(bool one) { ++all, of += one ? 1 : 0; }
  /// NaN if hardly any draw counts: most values are equal.
  [[nodiscard]] double value() const { return all < draws / 20 ? Metrics::absent : static_cast<double>(of) / all; }
};

bool covers(const Interval& of, double others, double wider) {
  return of.mean - wider * (of.mean - of.least) <= others && others <= of.mean + wider * (of.most - of.mean);
}

template <class Make>
double coverage_of_mean(const std::vector<double>& values, std::size_t count, Make&& interval) {
  Share share;
  each_draw(values, count, [&](std::span<const std::size_t> drawn, double others, double wider) {
    if (const Interval of = interval(at(values, drawn)); of.known()) share.count(covers(of, others, wider));
  });
  return share.value();
}

/// In shares: the coverage of the intervals; the draws that give a verdict; and of these verdicts those that the
/// others' mean, or the sign of most of them, denies.
struct OfDifference {
  double coverage, verdicts, denied_by_mean, denied_by_most;
};
OfDifference coverage_of_difference(const JudgedValues& of, std::size_t count, bool windows, std::size_t least_pairs) {
  std::vector<double> differences;
  for (std::size_t i = 0; i < of.row.size(); ++i) differences.push_back(of.row[i] - of.reference[i]);
  const auto sign = [](double value) { return value > 0 ? 1 : value < 0 ? -1 : 0; };
  std::int64_t all_signs = 0;
  for (const double one : differences) all_signs += sign(one);
  Share covered, verdicts, by_mean, by_most;
  each_draw(differences, count, [&](std::span<const std::size_t> drawn, double others, double wider) {
    const Paired pairs = judged_pairs(at(of.row, drawn), at(of.reference, drawn), windows, least_pairs);
    if (const Paired by_interval = paired(at(of.row, drawn), at(of.reference, drawn)); !mostly_equal(by_interval))
      covered.count(covers(by_interval.difference, others, wider));
    verdicts.count(pairs.judged() && !pairs.tie());
    if (!pairs.judged() || pairs.tie()) return;
    std::int64_t most = all_signs;
    for (const std::size_t place : drawn) most -= sign(differences[place]);
    const int told = pairs.first_is_larger() ? 1 : -1;
    by_mean.count(told * sign(others) <= 0);
    by_most.count(told * sign(static_cast<double>(most)) <= 0);
  });
  return {covered.value(), verdicts.value(), by_mean.value(), by_most.value()};
}

/// A system of a report, with what intervals need.
SystemReport row_of(const nlohmann::json& json) {
  SystemReport row;
  row.name = json.at("name").get<std::string>();
  row.control = json.at("control").get<bool>();
  row.oracle = json.at("oracle").get<bool>();
  const nlohmann::json& per_seed = json.at("per_seed");
  row.per_seed.resize(per_seed.front().size());
  for (std::size_t i = 0; i < row.per_seed.size(); ++i)
    for_each_metric(row.per_seed[i], [&](std::string_view name, auto& value) {
      const auto found = per_seed.find(name);
      if (found == per_seed.end()) return; // in_json(): 0 or absent
      const nlohmann::json& number = found->at(i);
      using Number = std::remove_reference_t<decltype(value)>;
      if (number.is_number())
        value = number.get<Number>();
      else if constexpr (std::is_floating_point_v<Number>)
        value = Metrics::absent;
    });
  return row;
}

/// Prints a line of a table: a figure's coverage over the systems, and the systems outside of 92 to 98 %.
void print(const std::string& figure, const std::vector<std::pair<std::string, double>>& of) {
  std::vector<double> all;
  std::string outside;
  for (const auto& [name, share] : of) {
    if (std::isnan(share)) continue;
    all.push_back(share);
    if (share < 0.92 || share > 0.98)
      outside += fmt::format("{}{} {:.0f}", outside.empty() ? "" : ", ", name, 100 * share);
  }
  if (all.empty()) return;
  std::sort(all.begin(), all.end());
  fmt::print("{:<30} {:>8} {:>6.1f} {:>6.1f} {:>6.1f}  {}\n", figure, all.size(), 100 * all.front(),
             100 * all[all.size() / 2], 100 * all.back(), outside);
}

void print_head(std::string_view what) {
  fmt::print("{:<30} {:>8} {:>6} {:>6} {:>6}  {}\n", what, "systems", "least", "median", "most",
             "below 92 or above 98");
}

/// Prints the coverage of every figure of which tables have a column.
void print_figures(const std::vector<SystemReport>& rows, bool windows, std::size_t seeds) {
  fmt::print("coverage of nominal 95 % by {} {}, in %: over the systems; -: printed without an interval\n", seeds,
             windows ? "windows" : "seeds");
  print_head("figure");
  for (const MetricColumn& column : metric_columns) {
    std::vector<std::pair<std::string, double>> all;
    for (const SystemReport& row : rows)
      all.emplace_back(row.name, coverage_of_mean(seed_values(row, column), seeds,
                                                  [](const auto& values) { return mean_interval(values); }));
    print((has_interval(column.key, windows, seeds) ? "" : "- ") + std::string{column.key}, all);
  }
}

/// Serves the sessions of every seed with a tier in host memory and one below it, on an SSD of 3 GB/s.
template <class E>
SystemReport sessions_served(const char* name, const SessionSpec& spec, const Server& server) {
  using Observed = With<E, Summary>;
  SystemReport row;
  row.name = name;
  row.per_seed.resize(400);
  const Status status = run_each(row.per_seed.size(), 1, [&](std::size_t i) -> Status {
    typename Observed::Config config = configure<Observed>(server);
    if constexpr (has_tiers<Observed>)
      config.lower_tiers = {{.capacity = 4 * config.tier.capacity,
                             .read_rate = BytesPerSecond{3e9},
                             .write_rate = BytesPerSecond{3e9},
                             .latency = Seconds{100e-6}}};
    Shaped<SessionGenerator> requests{SessionGenerator{spec, i + 1},
                                      {.slo = {.ttft = Seconds{5}, .tbt = Seconds{0.05}}}};
    Expected<Metrics> metrics = detail::serve_configured<Observed>(std::move(config), requests);
    if (!metrics) return metrics.error();
    row.per_seed[i] = *std::move(metrics);
    return {};
  });
  if (!status) {
    std::fprintf(stderr, "bench_coverage: %s: %s\n", name, status.error().line().c_str());
    std::exit(1);
  }
  return row;
}

/// Prints the coverage of figures of sessions and tiers, for two sizes of the tier in host memory.
void print_sessions(std::size_t seeds) {
  const SessionSpec spec = *parse_sessions(sessions_text);
  for (const std::int64_t gigabytes : {1, 4}) {
    Device device = a5000();
    device.host_memory = Bytes{gigabytes * 1'000'000'000};
    const Server server{llama3_8b(), device, TokenBlocks{1200}, {.batch = 8, .batch_tokens = Tokens{2048}}};
    std::vector<SystemReport> rows;
    rows.push_back(sessions_served<VllmRecompute>("VllmRecompute", spec, server));
    rows.push_back(sessions_served<VllmPrefixCaching>("VllmPrefixCaching", spec, server));
    rows.push_back(sessions_served<VllmOffload>("VllmOffload", spec, server));
    rows.push_back(sessions_served<HiCache>("HiCache", spec, server));
    rows.push_back(sessions_served<CachedAttention>("CachedAttention", spec, server));
    fmt::print("{}, {} GB of host memory\n", sessions_text, gigabytes);
    print_figures(rows, false, seeds);
    std::fflush(stdout);
  }
}

/// Prints the coverage of the capacities' geometric means, by Student's t of the logarithms, of the share at the
/// capacity, which tables print without an interval, and of the ratios to the first system. Seeds beyond the tried
/// rates have no number and are left out.
void print_capacities(const nlohmann::json& report, std::size_t seeds) {
  fmt::print("coverage of nominal 95 % by {} seeds, in %: over the systems\n", seeds);
  print_head("capacity");
  struct Row {
    std::string name;
    std::vector<double> rates, scales, shares; // the first two in base-2 logarithms
  };
  std::vector<Row> rows;
  for (const nlohmann::json& row : report.at("cells").at(0).at("systems")) {
    Row& of = rows.emplace_back();
    of.name = row.at("name").get<std::string>();
    for (const nlohmann::json& seed : row.at("per_seed")) {
      const bool there = seed.at("found") == "between";
      of.rates.push_back(there ? std::log2(seed.at("requests_per_s").get<double>()) : Metrics::absent);
      of.scales.push_back(there ? std::log2(seed.at("rate_scale").get<double>()) : Metrics::absent);
      of.shares.push_back(Metrics::absent);
      for (const nlohmann::json& probe : seed.at("probes"))
        if (there && probe.at("rate_scale") == seed.at("rate_scale"))
          of.shares.back() = probe.at("slo_attainment").get<double>();
    }
  }
  const auto print_all = [&](const std::string& figure, std::vector<double> Row::*values) {
    std::vector<std::pair<std::string, double>> all;
    for (const Row& row : rows)
      all.emplace_back(row.name,
                       coverage_of_mean(row.*values, seeds, [](const auto& drawn) { return t_interval(drawn); }));
    print(figure, all);
  };
  print_all("requests/s", &Row::rates);
  print_all("of the rate", &Row::scales);
  print_all("- SLO there", &Row::shares);
  std::vector<std::pair<std::string, double>> all;
  for (const Row& row : rows) {
    if (&row == &rows.front()) continue;
    std::vector<double> ratios;
    for (std::size_t i = 0; i < row.rates.size(); ++i) ratios.push_back(row.rates[i] - rows.front().rates[i]);
    all.emplace_back(row.name, coverage_of_mean(ratios, seeds, [](const auto& drawn) { return t_interval(drawn); }));
  }
  print("ratio to " + rows.front().name, all);
}

} // namespace

int main(int argc, char** argv) {
  std::size_t seeds = 8;
  if (argc > 2) {
    const std::string_view text = argv[2];
    const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), seeds);
    if (wrong != std::errc{} || end != text.data() + text.size() || seeds < 2) argc = 0;
  }
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "usage: bench_coverage REPORT.JSON|CAPACITY.JSON|sessions [SEEDS, at least 2]\n");
    return 2;
  }
  if (std::string_view{argv[1]} == "sessions") {
    print_sessions(seeds);
    return 0;
  }
  std::ifstream file(argv[1]);
  const nlohmann::json report = nlohmann::json::parse(file, nullptr, false);
  if (report.is_object() && report.contains("capacity")) {
    print_capacities(report, seeds);
    return 0;
  }
  if (!report.is_object() || !report.contains("systems")) {
    std::fprintf(stderr,
                 "bench_coverage: %s: it is no report; expected report.json of sluice-compare --seeds 1..N --out\n",
                 argv[1]);
    return 2;
  }
  const bool windows = report.at("workload").at("redrawn").get<std::string>().find("windows") != std::string::npos;
  std::vector<SystemReport> rows;
  for (const nlohmann::json& row : report.at("systems"))
    if (row.contains("per_seed")) rows.push_back(row_of(row));
  print_figures(rows, windows, seeds);
  std::vector<std::pair<std::string, double>> all;
  const auto reference =
      std::find_if(rows.begin(), rows.end(), [](const SystemReport& row) { return !row.control && !row.oracle; });
  if (reference == rows.end()) return 0;
  print_head("\ndifference from " + reference->name);
  std::string denied;
  for (const JudgedFigure& by : judged_figures) {
    all.clear();
    for (const SystemReport& row : rows) {
      if (&row == &*reference) continue;
      const OfDifference of =
          coverage_of_difference(judged_values(row, *reference, by), seeds, windows, by.least_pairs);
      all.emplace_back(row.name, of.coverage);
      if (!std::isnan(of.denied_by_mean))
        denied += fmt::format("{:<30} {:>16} {:>8.1f} {:>8.1f} {:>8.1f}\n", by.key, row.name, 100 * of.verdicts,
                              100 * of.denied_by_mean, 100 * of.denied_by_most);
    }
    print((windows || by.least_pairs == 0 || seeds < by.least_pairs ? "- " : "") + std::string{by.key}, all);
  }
  fmt::print("\n{:<30} {:>16} {:>8} {:>8} {:>8}\n{}", "verdicts, % of the draws", "system", "given", "by mean",
             "by most", denied);
}
