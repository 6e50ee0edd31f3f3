// SPDX-License-Identifier: Apache-2.0
// Defines the available columns, and makes tables of them.
#include "compare/columns.hpp"

#include "sluice/core/text.hpp"
#include "sluice/report/columns.hpp"
#include "sluice/report/number_text.hpp"
#include "sluice/report/seed_tables.hpp"

#include "compare/drawn_table.hpp"
#include "compare/tenants.hpp"
#include "compare/verdicts.hpp"
#include "engines/registry.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace compared {

using namespace sluice;

namespace {

/// The run that a number is taken from.
struct Of {
  const Comparison& c;
  const SystemReport& r;
  const Metrics& m;
};

/// One number of a row, by name: a metric, or one that also depends on the row's SLO, model or workload.
struct Column {
  std::string_view name;
  std::string head;
  MetricUnit unit;
  std::function<double(const Of&)> number;
  std::string (*beside)(const SystemReport&) = nullptr; ///< what a table says beside the number; null: nothing
  std::string_view metric{};                            ///< the metric's key; empty: the number is no metric

  [[nodiscard]] double of(const Comparison& comparison, const SystemReport& row) const {
    return number({comparison, row, row.metrics});
  }
  /// Returns the number over the row's seeds; with one seed only the number. A number that is no metric has no
  /// interval, because its coverage is not measured (bench/bench_coverage.cpp).
  [[nodiscard]] Interval spread(const Comparison& comparison, const SystemReport& row) const {
    const Interval of = spread_of(row, [&](const Metrics& metrics) { return number({comparison, row, metrics}); });
    return !metric.empty() && has_interval(metric, row.windows, row.per_seed.size())
               ? of
               : Interval{of.mean, Interval::absent, Interval::absent, of.count};
  }
  /// Returns the number of the trace as recorded; NaN if that did not run.
  [[nodiscard]] double recorded(const Comparison& comparison, const SystemReport& row) const {
    return row.as_recorded ? number({comparison, row, *row.as_recorded}) : Metrics::absent;
  }
};

double per(double a, double b) { return b > 0 ? a / b : std::numeric_limits<double>::quiet_NaN(); }
double real(std::int64_t n) { return static_cast<double>(n); }

/// Streamed weights are fetched again in every iteration, so the bytes fetched per iteration are the bytes on the host.
double weights_on_host(const Of& x) { return per(real(x.m.bytes_of_weights), real(x.m.iterations)); }
/// Returns a figure of the row's own model; NaN for the row of all tenants, which have several models.
template <class Figure>
double of_model(const Of& x, Figure&& figure) {
  const Setup* setup = setup_of(x.c, x.r);
  return setup == nullptr ? std::numeric_limits<double>::quiet_NaN() : figure(setup->geometry);
}
double layer_bytes(const Of& x) {
  return of_model(x, [](const Geometry& geometry) { return real(geometry.layer_weight_bytes.count()); });
}
double layers_bytes(const Of& x) {
  return of_model(x, [](const Geometry& geometry) {
    return real(geometry.layer_weight_bytes.count()) * geometry.streamable_layers();
  });
}
double token_bytes(const Of& x) {
  return of_model(x, [&x](const Geometry& geometry) {
    if (!geometry.alike()) return std::numeric_limits<double>::quiet_NaN(); // no number of bytes is a token's
    return real(geometry.layer_block_bytes.count()) * geometry.layers / real(x.c.workload.block_tokens);
  });
}

/// " (33 out)": the requests that a figure leaves out.
std::string out_of(const SystemReport& row) { return left_out_text(mean_left_out(row)); }
/// " (95.8)": the optimum of an unproven bound's program is at least this.
std::string unproven_of(const SystemReport& row) {
  return row.slo_possible && !row.slo_possible->proven() ? " (" + percent_text(row.slo_possible->found) + ")" : "";
}

/// Numbers that are no metric.
std::vector<Column> further_columns() {
  using enum MetricUnit;
  return {
      {"slo", "SLO, ms", milliseconds, [](const Of& x) { return x.r.slo_tbt_s; }},
      {"slo-possible", "possible", share,
       [](const Of& x) { return x.r.slo_possible ? x.r.slo_possible->most : Metrics::absent; }, unproven_of},
      {"found-device", "found on the device", share, [](const Of& x) { return x.m.found_share - x.m.loaded_share; }},
      {"found-host", "in the first tier", share, [](const Of& x) { return x.m.loaded_share - x.m.fetched_share; }},
      {"left-out", "left out", count, [](const Of& x) { return left_out(x.m); }},
      {"batch", "tokens an iteration", number,
       [](const Of& x) { return per(real(x.m.tokens_delivered), real(x.m.iterations)); }},
      {"tbt-of-slo", "P50 TBT / SLO", number, [](const Of& x) { return x.m.p50_tbt_s / x.r.slo_tbt_s; }},
      {"busy", "device busy", share, [](const Of& x) { return per(x.m.busy_s - x.m.stall_s, x.m.end_s); }},
      {"step", "mean step, ms", milliseconds, [](const Of& x) { return per(x.m.busy_s, real(x.m.iterations)); }},
      {"rebuilt", "K and V rebuilt", share,
       [](const Of& x) { return per(real(x.m.times_rebuilt), real(x.m.tokens_delivered)); }},
      {"gb-in-step", "GB in an iteration", number,
       [](const Of& x) { return per(real(x.m.bytes_to_device) / 1e9, real(x.m.iterations)); }},
      {"weights-host", "weights on the host, GB", number, [](const Of& x) { return weights_on_host(x) / 1e9; }},
      {"weights-share", "of the layers", share, [](const Of& x) { return per(weights_on_host(x), layers_bytes(x)); }},
      {"host-layers", "layers on the host", number,
       [](const Of& x) { return per(weights_on_host(x), layer_bytes(x)); }},
      {"interval", "interval", number, [](const Of& x) { return per(layers_bytes(x), weights_on_host(x)); }},
      {"kv-room", "KV room, tokens", number,
       [](const Of& x) { return per(real(x.m.device_capacity_bytes), token_bytes(x)); }},
      {"plans-request", "plans a request", number, [](const Of& x) { return per(real(x.m.plans), real(x.m.served)); }},
      {"planning", "planning", share, [](const Of& x) { return per(x.m.planning_s, x.m.end_s); }},
      {"plan-of-step", "a plan, of a step", share,
       [](const Of& x) { return per(per(x.m.planning_s, real(x.m.plans)), per(x.m.busy_s, real(x.m.iterations))); }},
      {"plan-p99", "P99 plan, ms", milliseconds, [](const Of& x) { return 1e-6 * x.m.planning_p99_us; }},
  };
}

const std::vector<Column>& columns() {
  static const std::vector<Column> all = [] {
    std::vector<Column> made;
    for (const MetricColumn& metric : metric_columns) {
      if (metric.choice.empty()) continue;
      const bool bytes = metric.unit == MetricUnit::gigabytes; // for programs, too, in gigabytes
      made.push_back({metric.choice, metric.one_line_head(), bytes ? MetricUnit::number : metric.unit,
                      [&metric, unit = bytes ? 1e9 : 1](const Of& x) { return metric(x.m) / unit; },
                      metric.leaves_out ? out_of : nullptr, metric.key});
    }
    std::vector<Column> further = further_columns();
    std::move(further.begin(), further.end(), std::back_inserter(made));
    return made;
  }();
  return all;
}

const Column* find_column(std::string_view name) {
  for (const Column& column : columns())
    if (column.name == name) return &column;
  return nullptr;
}

/// A column of a table: a name, "case", "system", or one number at one SLO scale.
struct Chosen {
  const Column* column = nullptr; ///< null: `name` selects the text
  std::string_view name;
  std::optional<double> scale;
};

/// The names of the columns that are text; "judged-..." are verdicts by a figure of judged_figures.
constexpr std::array<std::string_view, 11> text_columns{"case",       "system",     "marks",     "class",
                                                        "scale",      "deposit",    "tuned",     "gap-near",
                                                        "judged-tbt", "judged-slo", "judged-e2e"};

constexpr std::string_view usual_columns =
    "case,system,tbt,per-token,ttft,slo-met,p99-tbt,p99-ttft,e2e,gap,tokens,goodput,stall,refused";

Expected<std::vector<Chosen>> chosen_columns(const std::string& list) {
  const std::string_view names = list.empty() ? usual_columns : std::string_view{list};
  std::vector<Chosen> chosen;
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find(',', begin), names.size());
    const std::string_view word = names.substr(begin, end - begin);
    begin = end + 1;
    const std::size_t at = word.find('@');
    Chosen one{find_column(word.substr(0, at)), word.substr(0, at), {}};
    bool good =
        one.column != nullptr || std::find(text_columns.begin(), text_columns.end(), word) != text_columns.end();
    if (at != std::string_view::npos) {
      const std::string_view text = word.substr(at + 1);
      double scale = 0;
      const auto [stopped, wrong] = std::from_chars(text.data(), text.data() + text.size(), scale);
      good = good && one.column != nullptr && wrong == std::errc{} && stopped == text.data() + text.size() && scale > 0;
      one.scale = scale;
    }
    if (word.find('=') != std::string_view::npos)
      return flag_error("--columns", fmt::format("'{}' is no column of a table", excerpt(word)),
                        "names that --columns help lists; to name a trace's columns use --trace-columns");
    if (!good) {
      std::vector<std::string_view> known(text_columns.begin(), text_columns.end());
      std::string all;
      for (const std::string_view name : text_columns) all += (all.empty() ? "" : ", ") + std::string{name};
      for (const Column& column : columns()) all += ", " + std::string{column.name}, known.push_back(column.name);
      return flag_error("--columns", fmt::format("there is no column '{}'{}", excerpt(word), did_you_mean(word, known)),
                        "any of " + all);
    }
    chosen.push_back(one);
  }
  return chosen;
}

/// Returns whether a comparison has rows of several names.
bool has_several_systems(const Ran& ran) {
  const std::vector<SystemReport>& rows = ran.report.systems;
  return std::any_of(rows.begin(), rows.end(), [&](const SystemReport& row) { return row.name != rows[0].name; });
}

/// Gaps are comparable only among systems that keep about as many deadlines: within this distance of the best TBT
/// attainment.
constexpr double near_tbt = 0.1;

/// Returns whether the row is within `near_tbt` of the best at its SLO scale and with the same delivery; controls and
/// oracles do not count.
bool is_near(const Ran& ran, const SystemReport& row) {
  double best = -1;
  for (const SystemReport& other : ran.report.systems)
    if (!other.control && !other.oracle && other.deposit == row.deposit && other.slo_scale == row.slo_scale)
      best = std::max(best, other.metrics.tbt_attainment);
  return row.metrics.tbt_attainment >= best - near_tbt;
}

std::string raw_text(double value) { return std::isnan(value) ? std::string{} : fmt::format("{:.10g}", value); }

const SystemReport* row_of(const Ran& ran, std::string_view system, bool deposit, double scale) {
  for (const SystemReport& row : ran.report.systems)
    if (row.name == system && row.deposit == deposit && row.slo_scale == scale) return &row;
  return nullptr;
}

/// A row of a comparison, for all its requests or for those of one SLO class.
struct Place {
  const Ran& ran;
  const SystemReport& row;
  const SystemReport& whole; ///< the row of all requests
  std::string_view of_class = "all";
  bool recorded = false; ///< the line of the trace as recorded
};

/// A column of a table that is drawn.
struct Shown {
  std::string head;
  bool left; ///< text, aligned to the left
  std::function<std::string(const Place&)> cell;
};

const SystemReport* row_at(const Chosen& one, const Place& at) {
  return one.scale ? row_of(at.ran, at.row.name, at.row.deposit, *one.scale) : &at.row;
}
Interval value_at(const Chosen& one, const Place& at) {
  const SystemReport* of = row_at(one, at);
  if (of != nullptr && at.recorded) return Interval{one.column->recorded(at.ran.comparison, *of)};
  return of == nullptr ? Interval{} : one.column->spread(at.ran.comparison, *of);
}

/// Returns the marks of a line of a table. `pivoted`: the line has all SLO scales of a system, and the marks of each.
std::vector<std::string_view> marks_at(const Place& at, bool pivoted) {
  std::vector<std::string_view> marks = marks_of(at.whole, true);
  if (!pivoted) return marks;
  for (const SystemReport& row : at.ran.report.systems)
    if (row.name == at.whole.name && row.deposit == at.whole.deposit)
      for (const std::string_view mark : marks_of(row, true))
        if (std::find(marks.begin(), marks.end(), mark) == marks.end()) marks.push_back(mark);
  return marks;
}

void show_text(std::vector<Shown>& shown, std::string_view name, bool raw, bool pivoted, const Verdicts& verdicts) {
  const auto cell = [name, raw, pivoted, &verdicts](const Place& at) -> std::string {
    if (name == "case") return at.ran.label;
    if (name == "class") return std::string{at.of_class};
    if (name == "scale") return tidy_text(at.whole.slo_scale);
    if (name == "deposit") return at.whole.deposit ? "on" : "off";
    if (at.recorded) return name == "system" ? "- as recorded" : "";
    if (name == "tuned") return at.whole.tuned;
    if (name == "gap-near") {
      const double gap = at.row.metrics.longest_gap_all_s;
      if (!is_near(at.ran, at.whole)) return raw ? "" : "-";
      return raw ? raw_text(gap) : short_text(gap);
    }
    if (name == "judged-slo") return verdicts.text(at.row, judged_figure("slo_attainment"));
    if (name == "judged-tbt") return verdicts.text(at.row, judged_figure("tbt_attainment"));
    if (name == "judged-e2e") return verdicts.text(at.row, judged_figure("mean_e2e_all_s"));
    if (name == "system" && raw) return at.whole.name;
    const std::vector<std::string_view> marks = marks_at(at, pivoted);
    return name == "marks" ? fmt::format("{}", fmt::join(marks, "; ")) : marked(at.whole.name, marks);
  };
  shown.push_back({std::string{name}, true, cell});
}

/// Adds a number: `raw` for programs; with several seeds also half of its 95 % interval as a separate column, and the
/// figure as recorded, which other tables have in a line of its own.
void show_number(std::vector<Shown>& shown, const Chosen& one, bool raw, const WorkloadReport& workload) {
  std::string head{raw ? one.column->name : one.column->head};
  if (one.scale) head += (raw ? "@" : " x") + tidy_text(*one.scale);
  if (!raw) {
    shown.push_back({head, false, [one](const Place& at) {
                       const Interval value = value_at(one, at);
                       const NumberText text = number_text(one.column->unit);
                       const std::string half = detail::half_width_text(value, text);
                       const SystemReport* of = one.column->beside != nullptr ? row_at(one, at) : nullptr;
                       const std::string beside = of == nullptr ? std::string{}
                                                  : at.recorded
                                                      ? left_out_text(of->as_recorded ? left_out(*of->as_recorded) : 0)
                                                      : one.column->beside(*of);
                       return text(value.mean) + (half.empty() ? "" : " ± " + half) + beside;
                     }});
    return;
  }
  shown.push_back({head, false, [one](const Place& at) { return raw_text(value_at(one, at).mean); }});
  if (workload.seeds.size() > 1)
    shown.push_back(
        {head + "-half", false, [one](const Place& at) { return raw_text(value_at(one, at).half_width()); }});
  if (!workload.as_recorded.empty())
    shown.push_back({head + "-recorded", false, [one](const Place& at) {
                       const SystemReport* of = row_at(one, at);
                       return raw_text(of == nullptr ? Metrics::absent : one.column->recorded(at.ran.comparison, *of));
                     }});
}

/// Returns the columns of a table: a grid's axes, then the selected ones.
std::vector<Shown> shown_columns(const std::vector<Chosen>& chosen, const Ran& first, bool raw, bool pivoted,
                                 const Verdicts& verdicts) {
  std::vector<Shown> shown;
  for (std::size_t axis = 0; axis < first.at.size(); ++axis)
    shown.push_back({first.at[axis].first, false, [axis](const Place& at) { return at.ran.at[axis].second; }});
  for (const Chosen& one : chosen)
    if (one.column == nullptr)
      show_text(shown, one.name, raw, pivoted, verdicts);
    else
      show_number(shown, one, raw, first.report.workload);
  return shown;
}

/// Returns the rows of one table: those with, or those without, a deposit. If columns name SLO scales, each row has all
/// scales of a system. `by_class`: a system's row is followed by rows of each SLO class; `recorded`: and each of these
/// by a row of the trace as recorded.
std::vector<std::vector<std::string>> cells_of(const std::vector<Shown>& shown, std::span<const Ran> all, bool deposit,
                                               bool pivoted, bool by_class, bool recorded) {
  std::vector<std::vector<std::string>> rows;
  for (const Ran& ran : all) {
    std::vector<std::string_view> seen;
    for (const SystemReport& row : ran.report.systems) {
      if (row.deposit != deposit) continue;
      if (pivoted) {
        if (std::find(seen.begin(), seen.end(), row.name) != seen.end()) continue;
        seen.push_back(row.name);
      }
      const auto add = [&](const Place& at) {
        std::vector<std::string>& cells = rows.emplace_back();
        for (const Shown& column : shown) cells.push_back(column.cell(at));
      };
      const auto add_both = [&](Place at) {
        add(at);
        at.recorded = recorded && at.row.as_recorded.has_value();
        if (at.recorded) add(at);
      };
      add_both({ran, row, row});
      if (by_class)
        for (const SystemReport& part : row.classes) add_both({ran, part, row, part.name});
    }
  }
  return rows;
}

/// Returns the subject of a table in a paper, as LaTeX comments: a caption and the remarks of each comparison.
std::string heads_of(std::span<const Ran> all) {
  std::string text = "% \\usepackage{booktabs}\n";
  for (const Ran& ran : all)
    for (const ReportBlock& block : blocks_of(ran.report)) {
      text += "% " + caption_of(ran.report.workload, block) + ", " + title_of(block) + "\n";
      for (const std::string& remark : remarks_of(block)) text += "%   " + remark + "\n";
    }
  return text;
}

/// The default columns of a grid's table on a terminal. They are few, because each may have an interval and the axes
/// need room, too.
constexpr std::string_view grid_columns = "case,system,tbt,slo-met,ttft,p99-tbt,p99-ttft,e2e,goodput,stall";

} // namespace

std::string columns_text() {
  std::string text = "columns of --table md, latex and csv (NAME@2: NAME at SLO scale 2):\n  text:";
  for (const std::string_view name : text_columns) text += " " + std::string{name};
  text += "\n";
  for (const Column& column : columns()) text += fmt::format("  {:<18} {}\n", column.name, column.head);
  return text;
}

Status check_columns(const Options& options) {
  if (options.table != "full" && options.table != "md" && options.table != "csv" && options.table != "latex")
    return flag_error("--table", fmt::format("it is '{}'", excerpt(options.table)), "full, md, latex or csv");
  const Expected<std::vector<Chosen>> chosen = chosen_columns(options.columns);
  if (!chosen) return chosen.error();
  if (options.table == "full" && !options.columns.empty() && options.preset.empty())
    return flag_error("--columns", "the full table has columns of its own", "--table md, latex or csv as well");
  const auto is_findable = [](const Chosen& column) { return column.name == findable_column; };
  if (!options.node.tenants.empty() && std::any_of(chosen->begin(), chosen->end(), is_findable))
    return flag_error("--columns", fmt::format("{} bounds what one engine's requests find", findable_column),
                      "other columns, or no --tenants");
  return {};
}

std::string column_table(const Options& options, std::span<const Ran> all) {
  const bool grid = !all.front().at.empty();
  // The selected columns point into their list.
  const std::string list{
      grid && options.table == "full" && options.columns.empty() ? grid_columns : std::string_view{options.columns}};
  const Expected<std::vector<Chosen>> checked = chosen_columns(list);
  SLUICE_ASSERT(checked.has_value(), "columns that passed check_columns()");
  std::vector<Chosen> chosen = *checked;
  const bool csv = options.table == "csv";
  const auto named = [&chosen](std::string_view name) {
    return std::any_of(chosen.begin(), chosen.end(), [name](const Chosen& c) { return c.name == name; });
  };
  const bool one_table = csv || all.size() == 1 || grid || named("case");
  const bool cases = std::any_of(all.begin(), all.end(), [](const Ran& ran) { return !ran.label.empty(); });
  if (all.size() == 1 || !cases) std::erase_if(chosen, [](const Chosen& c) { return c.name == "case"; });
  const bool pivoted = std::any_of(chosen.begin(), chosen.end(), [](const Chosen& c) { return c.scale.has_value(); });
  if (grid && options.slo_scales.size() > 1 && !named("scale") &&
      !pivoted) { // otherwise several rows would look the same
    const auto system = std::find_if(chosen.begin(), chosen.end(), [](const Chosen& c) { return c.name == "system"; });
    chosen.insert(system == chosen.end() ? system : system + 1, Chosen{nullptr, "scale", {}});
  }
  // Otherwise rows would look the same: of several systems, and in CSV, which is one table, of both deliveries.
  const auto add_behind = [&](std::string_view behind, std::string_view name) { // without that one: first
    const auto at = std::find_if(chosen.begin(), chosen.end(), [&](const Chosen& c) { return c.name == behind; });
    chosen.insert(at == chosen.end() ? chosen.begin() : at + 1, Chosen{nullptr, name, {}});
  };
  const bool recorded = !csv && std::any_of(all.begin(), all.end(), [](const Ran& ran) {
    return !ran.report.workload.as_recorded.empty(); // a line for each system, which needs its name
  });
  if (!named("system") && (recorded || std::any_of(all.begin(), all.end(), has_several_systems)))
    add_behind("case", "system");
  if (csv && options.deposit == "both" && !named("deposit")) add_behind(named("system") ? "system" : "case", "deposit");
  if (csv && options.columns.empty()) add_behind("system", "marks"); // other tables have them beside the name
  const auto insert_after = [&](std::string_view behind, std::string_view name) {
    const auto at = std::find_if(chosen.begin(), chosen.end(), [&](const Chosen& c) { return c.name == behind; });
    if (at != chosen.end()) chosen.insert(at + 1, Chosen{nullptr, name, {}});
  };
  const bool seeds =
      std::any_of(all.begin(), all.end(), [](const Ran& ran) { return ran.report.workload.seeds.size() > 1; });
  const bool classes =
      std::any_of(all.begin(), all.end(), [](const Ran& ran) { return !ran.report.workload.slo_classes.empty(); });
  if (classes && !pivoted && options.columns.empty()) insert_after("system", "class");
  if (grid && seeds && options.columns.empty()) {
    insert_after("tbt", "judged-tbt");
    insert_after("slo-met", "judged-slo");
  }
  const bool judges =
      std::any_of(chosen.begin(), chosen.end(), [](const Chosen& c) { return c.name.starts_with("judged-"); });
  const Verdicts verdicts = judges ? verdicts_of(all, options.baseline) : Verdicts{};
  const std::vector<Shown> shown = shown_columns(chosen, all.front(), csv, pivoted, verdicts);
  std::vector<std::string> heads;
  std::vector<bool> left;
  for (const Shown& column : shown) {
    heads.push_back(column.head);
    left.push_back(column.left);
  }
  const std::string comment = options.table == "latex" ? "% " : "";
  std::string text;
  if (!comment.empty()) text += heads_of(all);
  const auto add = [&](std::span<const Ran> of, const std::string& title) {
    if (csv) { // one table, so that a program reads one header
      auto rows = cells_of(shown, of, false, pivoted, named("class"), false);
      auto more = cells_of(shown, of, true, pivoted, named("class"), false);
      std::move(more.begin(), more.end(), std::back_inserter(rows));
      if (!rows.empty()) text += drawn_table(options.table, heads, rows, left);
      return;
    }
    for (const bool deposit : {false, true}) {
      const auto rows = cells_of(shown, of, deposit, pivoted, named("class"), recorded);
      if (rows.empty()) continue;
      text += fmt::format("{}{}{}{}:\n\n", comment, title, title.empty() ? "" : ", ",
                          deposit ? "with deposit" : "without deposit");
      text += drawn_table(options.table, heads, rows, left);
    }
  };
  if (one_table)
    add(all, "");
  else
    for (std::size_t i = 0; i < all.size(); ++i) add(all.subspan(i, 1), all[i].label);
  if (!csv)
    for (std::string rest = verdicts.note(options.baseline, text); !rest.empty();) {
      const std::size_t end = std::min(rest.find('\n'), rest.size() - 1) + 1;
      text += comment + rest.substr(0, end);
      rest.erase(0, end);
    }
  if (!csv && comment.empty()) { // LaTeX's comments have the remarks of each comparison
    std::vector<const SystemReport*> rows;
    for (const Ran& ran : all)
      for (const SystemReport& row : ran.report.systems) rows.push_back(&row);
    if (const std::string beyond = beyond_remark(rows); !beyond.empty()) text += beyond + "\n";
  }
  return text;
}

namespace {

/// Returns the figure in one comparison; NaN if its rows did not run. `base_ran` may be another comparison.
double figure_in(const PaperFigure& figure, const Ran& ran, const Ran& base_ran, double scale) {
  const double none = std::numeric_limits<double>::quiet_NaN();
  const Column* column = find_column(figure.column);
  const SystemReport* row = row_of(ran, figure.system, figure.deposit, scale);
  if (column == nullptr || row == nullptr) return none;
  const double value = column->of(ran.comparison, *row);
  if (figure.form == Form::value) return value;
  const SystemReport* base = row_of(base_ran, figure.base, figure.base_deposit, scale);
  if (base == nullptr) return none;
  const double other = column->of(base_ran.comparison, *base);
  switch (figure.form) {
  case Form::ratio:
    return value / other;
  case Form::gain:
    return value / other - 1;
  case Form::fall:
    return 1 - value / other;
  case Form::points:
    return value - other;
  case Form::value:
    break;
  }
  return value;
}

std::string figure_text(const PaperFigure& figure, double value) {
  if (std::isnan(value)) return "-";
  switch (figure.form) {
  case Form::ratio:
    return fixed_text(value, 2) + "x";
  case Form::gain:
    return fmt::format("{:+.1f} %", 100 * value);
  case Form::fall:
    return fmt::format("{:+.1f} %", -100 * value);
  case Form::points:
    return fmt::format("{:+.1f} points", 100 * value);
  case Form::value:
    break;
  }
  const MetricUnit unit = find_column(figure.column)->unit;
  return number_text(unit)(value) + (unit == MetricUnit::share ? " %" : "");
}

/// Whether a case's label is `where`, or ends with it after a comma: "x1, steps" and "x2, steps" are at "steps".
bool is_at(std::string_view label, std::string_view where) {
  return label == where || (label.ends_with(where) && label.substr(0, label.size() - where.size()).ends_with(", "));
}

} // namespace

Status check_figures(const Preset& preset) {
  const auto is_case = [&preset](std::string_view where) {
    return where.empty() || std::any_of(preset.cases.begin(), preset.cases.end(),
                                        [where](const PresetCase& one) { return is_at(one.label, where); });
  };
  const auto is_system = [](std::string_view row) {
    const std::string_view name = row.substr(0, row.find('/')); // a tenant's row
    return std::any_of(engines::simulated_systems().begin(), engines::simulated_systems().end(),
                       [name](const System& one) { return one.name == name; });
  };
  for (const PaperFigure& figure : preset.figures) {
    const auto wrong = [&](std::string_view what, std::string_view name) {
      return flag_error("--preset",
                        fmt::format("{}: the figure '{}' names {} '{}'", preset.name, figure.what, what, name),
                        "an existing one");
    };
    if (find_column(figure.column) == nullptr) return wrong("the column", figure.column);
    if (!is_system(figure.system)) return wrong("the system", figure.system);
    if (figure.form != Form::value && !is_system(figure.base)) return wrong("the system", figure.base);
    if (!is_case(figure.where)) return wrong("the case", figure.where);
    if (!is_case(figure.base_where)) return wrong("the case", figure.base_where);
  }
  return {};
}

std::string figures_table(std::span<const PaperFigure> figures, std::span<const Ran> all) {
  std::vector<std::vector<std::string>> rows;
  for (const PaperFigure& figure : figures) {
    std::vector<double> values;
    for (const Ran& ran : all) {
      if (!figure.where.empty() && !ran.label.empty() && !is_at(ran.label, figure.where)) continue;
      const Ran* base = &ran;
      if (!figure.base_where.empty())
        for (const Ran& other : all)
          if (other.label == figure.base_where) base = &other;
      std::vector<double> scales;
      for (const SystemReport& row : ran.report.systems)
        if ((std::isnan(figure.scale) || row.slo_scale == figure.scale) &&
            std::find(scales.begin(), scales.end(), row.slo_scale) == scales.end())
          scales.push_back(row.slo_scale);
      for (const double scale : scales)
        if (const double value = figure_in(figure, ran, *base, scale); !std::isnan(value)) values.push_back(value);
    }
    if (values.empty()) continue;
    double value = 0;
    switch (figure.over) {
    case Over::most:
      value = *std::max_element(values.begin(), values.end());
      break;
    case Over::least:
      value = *std::min_element(values.begin(), values.end());
      break;
    case Over::mean:
      for (const double one : values) value += one / static_cast<double>(values.size());
      break;
    }
    rows.push_back({std::string{figure.what}, figure_text(figure, figure.paper), figure_text(figure, value),
                    fixed_text(value / figure.paper, 2)});
  }
  if (rows.empty()) return {};
  return drawn_table("md", {"figure", "paper", "here", "here / paper"}, rows, {true, false, false, false});
}

} // namespace compared
