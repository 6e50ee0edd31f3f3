// SPDX-License-Identifier: Apache-2.0
#include "fleet/page.hpp"

#include "sluice/report/html_data.hpp"
#include "sluice/report/html_tables.hpp"
#include "sluice/report/number_text.hpp"
#include "sluice/report/observer/json_writer.hpp"
#include "sluice/report/pages.hpp"

#include "shared/version.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

namespace fleets {

using namespace sluice;
using sluice::detail::escaped;

namespace {

constexpr std::size_t bins = 240, most_lanes = 32;
constexpr int digits = 4;

/// Values by bin of the run's time.
class Bins {
 public:
  explicit Bins(double end) : width_(std::max(end, 1e-9) / bins), values_(bins) {}
  [[nodiscard]] double width() const { return width_; }
  /// Adds 1 for the time from `from` to `to`: each bin gets the share of it that this covers.
  void cover(double from, double to) {
    for (auto i = at(from); i < bins && static_cast<double>(i) * width_ < to; ++i) {
      const double begin = std::max(from, static_cast<double>(i) * width_);
      values_[i] += std::max(0.0, std::min(to, static_cast<double>(i + 1) * width_) - begin) / width_;
    }
  }
  void add(double when, double value) { values_[at(when)] += value; }
  [[nodiscard]] double operator[](std::size_t i) const { return values_[i]; }

 private:
  [[nodiscard]] std::size_t at(double when) const {
    return std::min(bins - 1, static_cast<std::size_t>(std::max(0.0, when) / width_));
  }
  double width_;
  std::vector<double> values_;
};

struct Curves {
  std::string title, unit;
  std::vector<Curve> curves;
};

/// A mean by bin; a gap where there is none.
Curve mean_curve(const std::string& name, const Bins& sums, const Bins& counts) {
  Curve curve{name, {}};
  for (std::size_t i = 0; i < bins; ++i)
    if (counts[i] > 0) curve.points.emplace_back((static_cast<double>(i) + 0.5) * sums.width(), sums[i] / counts[i]);
  return curve;
}

double end_of(const Ran& run) {
  double end = 0;
  for (const Fate& fate : run.fates) end = std::max(end, fate.last);
  return end;
}

/// How many requests waited at the engine of each request when that was routed: sent there before, without a first
/// token.
std::vector<double> waited_then(const Ran& run) {
  std::vector<double> waited(run.fates.size());
  std::vector<std::vector<const Fate*>> by_engine;
  for (const Fate& fate : run.fates) {
    if (by_engine.size() <= fate.engine) by_engine.resize(fate.engine + 1);
    by_engine[fate.engine].push_back(&fate);
  }
  for (std::vector<const Fate*>& of : by_engine) {
    std::sort(of.begin(), of.end(), [](const Fate* a, const Fate* b) { return a->routed < b->routed; });
    std::vector<double> firsts; // of those sent before, a heap with the soonest on top
    for (const Fate* fate : of) {
      while (!firsts.empty() && firsts.front() <= fate->routed) {
        std::pop_heap(firsts.begin(), firsts.end(), std::greater<>{});
        firsts.pop_back();
      }
      waited[static_cast<std::size_t>(fate->number)] = static_cast<double>(firsts.size());
      firsts.push_back(fate->first);
      std::push_heap(firsts.begin(), firsts.end(), std::greater<>{});
    }
  }
  return waited;
}

void write_curves(JsonWriter& json, std::span<const Curves> charts) {
  json.key("charts").begin_array();
  for (const Curves& chart : charts) {
    json.line().begin_object().field("title", chart.title).field("unit", chart.unit).key("curves").begin_array();
    for (const Curve& curve : chart.curves) {
      json.begin_object().field("name", curve.name).key("points").begin_array();
      for (const auto& [when, value] : curve.points)
        json.begin_array().rounded(when, digits).rounded(value, digits).end_array();
      json.end_array().end_object();
    }
    json.end_array().end_object();
  }
  json.end_array();
}

/// The engines that have lanes: of two pools, the first ones of each.
std::vector<std::size_t> lanes_of(const Ran& run) {
  const std::size_t all = run.summary.engines.size(), second = run.last_pool == 0 ? 0 : all - run.last_pool;
  const std::size_t first = std::min(all - second, most_lanes - std::min(second, most_lanes / 2));
  std::vector<std::size_t> lanes;
  for (std::size_t i = 0; i < first; ++i) lanes.push_back(i);
  for (std::size_t i = all - second; i < all && lanes.size() < most_lanes; ++i) lanes.push_back(i);
  return lanes;
}

/// Draws each engine's requests while they are with it: waiting until their client's first token, running from then.
/// `dies`: when engines die.
void write_fleet(JsonWriter& json, const RouterRuns& of, std::span<const Failure> dies) {
  struct Lane {
    explicit Lane(double end) : waiting(end), running(end), found(end), prompts(end) {}
    Bins waiting, running, found, prompts;
  };
  const Ran& run = of.runs.front();
  const double end = end_of(run);
  const std::vector<std::size_t> drawn = lanes_of(run);
  std::vector<Lane> lanes(drawn.size(), Lane(end));
  std::vector<Lane*> lane_of(run.summary.engines.size()); // by engine
  for (std::size_t i = 0; i < drawn.size(); ++i) lane_of[drawn[i]] = &lanes[i];
  std::vector<double> death(lane_of.size(), std::numeric_limits<double>::infinity());
  for (const Failure& one : dies) death[one.engine] = std::min(death[one.engine], one.at.count());
  std::vector<double> next; // by request: when it goes to the engine after this one, or ends
  for (const Fate& fate : run.fates) next.push_back(fate.last);
  for (auto stay = run.stays.rbegin(); stay != run.stays.rend(); ++stay) {
    const auto number = static_cast<std::size_t>(stay->number);
    const Fate& fate = run.fates[number];
    const double left = std::exchange(next[number], stay->from), to = std::min(left, death[stay->engine]);
    if (!fate.served || lane_of[stay->engine] == nullptr) continue;
    Lane& lane = *lane_of[stay->engine];
    lane.waiting.cover(stay->from, std::min(fate.first, to));
    lane.running.cover(std::max(fate.first, stay->from), to);
    if (stay->from > fate.first || fate.first > left) continue;
    lane.found.add(fate.first, static_cast<double>(fate.found));
    lane.prompts.add(fate.first, static_cast<double>(fate.prompt));
  }
  json.line().begin_object().field("name", of.router).key("engines").begin_array();
  for (const std::size_t engine : drawn) {
    const Lane& lane = *lane_of[engine];
    json.line().begin_object().field("name", run.last_pool == 0 ? fmt::format("engine {}", engine)
                                             : engine < run.last_pool
                                                 ? fmt::format("prefill {}", engine)
                                                 : fmt::format("decode {}", engine - run.last_pool));
    json.key("waiting").begin_array();
    for (std::size_t i = 0; i < bins; ++i) json.rounded(lane.waiting[i], 3);
    json.end_array().key("running").begin_array();
    for (std::size_t i = 0; i < bins; ++i) json.rounded(lane.running[i], 3);
    json.end_array().key("found").begin_array();
    for (std::size_t i = 0; i < bins; ++i)
      if (lane.prompts[i] > 0)
        json.rounded(lane.found[i] / lane.prompts[i], 3);
      else
        json.null();
    json.end_array().end_object();
  }
  json.end_array().field("bin", Bins(end).width()).end_object();
}

std::string table_html(std::span<const RouterRuns> all, bool windows) {
  std::string heads = sluice::detail::html_words_head("router"), rows;
  for (const Figure& figure : figures()) {
    std::string name{figure.group.empty() ? figure.head : figure.group};
    if (!figure.group.empty()) name += " " + std::string{figure.head};
    heads += sluice::detail::html_number_head(name, figure.key);
  }
  for (const RouterRuns& one : all) {
    rows += "<tr><th scope=\"row\">" + escaped(marked(one.router, one.queue_grows())) + "</th>";
    for (const Figure& figure : figures()) {
      const Interval of = interval_of(figure, one.runs, windows);
      const std::string text = sluice::detail::spread_text(of, [&](double value) { return text_of(figure, value); });
      rows += fmt::format("<td data-v=\"{}\">{}</td>", std::isnan(of.mean) ? "" : fmt::format("{}", of.mean),
                          escaped(text));
    }
    rows += "</tr>\n";
  }
  return sluice::detail::html_plain_table("<b>What users get, and what routers knew</b>", heads, rows);
}

std::string page_of(sluice::detail::HtmlPage page, const WorkloadReport& workload, const std::string& table) {
  page.sections = pages::filled(pages::fleet_html, {{"table", table}});
  page.script = pages::fleet_script;
  return sluice::detail::html_page(page, workload, made_by());
}

} // namespace

std::string fleet_page(const Options& options, const compared::Comparison& comparison, std::span<const RouterRuns> all,
                       const std::string& command) {
  std::vector<Curves> charts(4);
  charts[0] = {"Mean TTFT by time of arrival", "time", {}};
  charts[1] = {"Age of the report by which an engine was chosen", "time", {}};
  charts[2] = {"Requests that waited at the chosen engine: by its report, and then", "plain", {}};
  charts[3] = {"Requests under way", "plain", {}};
  for (const RouterRuns& one : all) {
    const Ran& run = one.runs.front();
    const double end = end_of(run);
    const std::string& name = one.router;
    const std::vector<double> waited = waited_then(run);
    Bins ttft(end), age(end), seen(end), real(end), counts(end), seen_counts(end), alive(end);
    for (const Fate& fate : run.fates) {
      if (!fate.served) continue;
      counts.add(fate.sent, 1);
      ttft.add(fate.sent, fate.first - fate.sent);
      alive.cover(fate.sent, fate.last);
      if (fate.seen < 0) continue;
      seen_counts.add(fate.sent, 1);
      age.add(fate.sent, static_cast<double>(fate.age));
      seen.add(fate.sent, fate.seen);
      real.add(fate.sent, waited[static_cast<std::size_t>(fate.number)]);
    }
    charts[0].curves.push_back(mean_curve(name, ttft, counts));
    Curve under_way{name, {}};
    for (std::size_t i = 0; i < bins; ++i)
      under_way.points.emplace_back((static_cast<double>(i) + 0.5) * alive.width(), alive[i]);
    charts[3].curves.push_back(std::move(under_way));
    if (Curve ages = mean_curve(name, age, seen_counts); !ages.points.empty()) {
      charts[1].curves.push_back(std::move(ages));
      charts[2].curves.push_back(mean_curve(name + ", reported", seen, seen_counts));
      charts[2].curves.push_back(mean_curve(name + ", then", real, seen_counts));
    }
  }
  std::erase_if(charts, [](const Curves& chart) { return chart.curves.empty(); });
  sluice::detail::HtmlPage page;
  page.heading = options.preset.empty() ? "Sluice fleet" : "Sluice fleet: " + options.preset;
  page.title = page.heading + ", " + comparison.workload.trace;
  page.under = fmt::format("{} engines of {}, {}",
                           options.prefill ? fmt::format("{} + {}", *options.prefill, *options.decode)
                                           : fmt::format("{}", options.engines),
                           options.system, !options.has_ladder() ? comparison.workload.trace : "a ladder of rates");
  const WorkloadReport& w = comparison.workload;
  page.facts = sluice::detail::html_fact("model", w.model) + sluice::detail::html_fact("device", w.device) +
               sluice::detail::html_fact("token blocks of KV", std::to_string(w.budget_blocks)) +
               sluice::detail::html_fact("reports every", time_text(options.every));
  if (!options.has_ladder()) page.facts += sluice::detail::html_fact("requests", std::to_string(w.requests));
  page.command = command;
  JsonWriter json(page.data, true);
  sluice::detail::begin_page_data(json, "fleet", w);
  json.key("systems").begin_array().end_array();
  const std::size_t engines = all.front().runs.front().summary.engines.size();
  json.field("what", engines > most_lanes
                         ? fmt::format("The first seed's run; lanes of {} of {} engines.", most_lanes, engines)
                         : std::string{"The first seed's run."});
  write_curves(json, charts);
  json.key("fleets").begin_array();
  for (const RouterRuns& one : all) write_fleet(json, one, options.failures);
  json.end_array().end_object();
  return page_of(std::move(page), w, table_html(all, options.workload.windows > 0));
}

std::string replay_page(const std::string& what, std::span<const Chart> charts, const std::string& table,
                        const std::string& command) {
  sluice::detail::HtmlPage page;
  page.heading = "Sluice fleet: " + what;
  page.title = page.heading;
  page.under = "A recorded fleet, and its simulation";
  page.command = command;
  std::vector<Curves> curves;
  for (const Chart& chart : charts) curves.push_back({chart.title + ": tokens per second", "plain", chart.curves});
  const WorkloadReport workload;
  JsonWriter json(page.data, true);
  sluice::detail::begin_page_data(json, "fleet", workload);
  json.key("systems").begin_array().end_array();
  json.field("what", "Output tokens of all engines, by second.");
  write_curves(json, curves);
  json.key("fleets").begin_array().end_array().end_object();
  return page_of(std::move(page), workload, table);
}

} // namespace fleets
