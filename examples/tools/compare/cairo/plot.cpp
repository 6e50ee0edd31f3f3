// SPDX-License-Identifier: Apache-2.0
// Draws the figures of --plot.
#include "compare/plot.hpp"

#include "sluice/report/columns.hpp"
#include "sluice/report/number_text.hpp"
#include "sluice/report/order.hpp"
#include "sluice/report/seeds.hpp"

#include "compare/cairo/canvas.hpp"
#include "shared/sizes.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace compared {

using namespace sluice;

namespace {

constexpr double width = 240; // 3.33 inches: one of two columns on letter paper

/// A figure that decides a comparison, in its own unit.
struct Drawn {
  const char* name;
  const char* brief; ///< used where three figures are next to each other
  MetricColumn of;
};
constexpr std::array<Drawn, 3> drawn{// Of all requests: a figure has no room to say how many a mean leaves out.
                                     {{"TBT attainment, %", "TBT met, %", metric_column("tbt_attainment")},
                                      {"SLO attainment, %", "SLO met, %", metric_column("slo_attainment")},
                                      {"mean E2E of all, s", "E2E of all, s", metric_column("mean_e2e_all_s")}}};
constexpr bool is_share(std::size_t figure) { return figure < 2; }

Interval value_of(const SystemReport& row, std::size_t figure) {
  const Interval of = spread_of(row, drawn[figure].of);
  if (!is_share(figure)) return of;
  Interval percent{100 * of.mean};
  if (of.known()) percent.least = 100 * std::max(of.least, 0.0), percent.most = 100 * std::min(of.most, 1.0);
  return percent;
}

/// Returns the end of an axis: 100 for shares, otherwise a round number above all values.
double axis_end(std::size_t figure, double most) {
  if (is_share(figure)) return 100;
  if (!(most > 0)) return 1;
  const double power = std::pow(10, std::floor(std::log10(most)));
  for (const double step : {1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0})
    if (step * power >= most) return step * power;
  return 10 * power;
}

struct Axes {
  double from, to, begin, end; ///< two places, and the numbers there
  bool log = false;
  [[nodiscard]] double operator()(double value) const {
    const auto scaled = [this](double number) { return log ? std::log(number) : number; };
    const double within = std::clamp(value, std::min(begin, end), std::max(begin, end));
    return from + (scaled(within) - scaled(begin)) / (scaled(end) - scaled(begin)) * (to - from);
  }
  /// Returns the numbers to write next to the axis: both ends and the middle, or powers of ten.
  [[nodiscard]] std::vector<double> ticks() const {
    if (!log) return {begin, 0.5 * (begin + end), end};
    std::vector<double> powers;
    for (double power = begin; power <= end; power *= 10) powers.push_back(power);
    return powers;
  }
};

/// Returns the axis of a figure between two places. If the E2E of systems differs twentyfold, its axis is logarithmic.
Axes axis_of(std::size_t figure, double from, double to, double least, double most) {
  const bool log = !is_share(figure) && least > 0 && most > 20 * least;
  if (!log) return {from, to, 0, axis_end(figure, most)};
  return {from, to, std::pow(10, std::floor(std::log10(least))), 1.1 * most, true};
}

/// Extends a range to include a value and its interval.
void widen(const Interval& value, double& least, double& most) {
  if (std::isnan(value.mean)) return;
  least = std::min(least, value.known() && value.least > 0 ? value.least : value.mean);
  most = std::max(most, value.known() ? value.most : value.mean);
}

/// "500", "10k".
std::string tick_text(double value) { return value >= 1000 ? tidy_text(value / 1000) + "k" : tidy_text(value); }

void tick_x(Canvas& canvas, double x, double top, double bottom, const std::string& text) {
  canvas.ink(.82, .82, .82);
  canvas.line({x, top}, {x, bottom}, 0.4);
  canvas.ink(0, 0, 0);
  canvas.text({x, bottom + 8}, text, Align::middle);
}

/// "mean of 3 seeds, 95 % intervals of TBT, SLO": of which figures, if not of all.
std::string seeds_note(const WorkloadReport& workload) {
  if (workload.seeds.size() < 2) return seeds_of(workload);
  std::string names;
  std::size_t count = 0;
  for (const Drawn& one : drawn) {
    if (!has_interval(one.of.key, workload.windows, workload.seeds.size())) continue;
    names += (names.empty() ? "" : ", ") + std::string{one.brief, std::string_view{one.brief}.find(' ')};
    ++count;
  }
  return fmt::format("mean of {} {}{}{}", workload.seeds.size(), seeds_or_windows(workload.windows),
                     count > 0 ? ", 95 % intervals" : "", count < drawn.size() && count > 0 ? " of " + names : "");
}

/// Draws one comparison: a row for each system, with the figures next to each other. The same system with the other
/// delivery has a hollow marker below its row.
class Rows {
 public:
  Rows(const std::string& path, const ComparisonReport& report)
      : workload_(report.workload),
        blocks_(blocks_of(report)),
        first_(blocks_.front()),
        canvas_(path, width, top + row_height * static_cast<double>(first_.rows.size()) + 33) {}

  std::string draw() {
    double label = 0;
    for (const SystemReport* row : first_.rows) label = std::max(label, canvas_.width_of(label_of(*row, true)));
    label = std::min(label, 92.0);
    for (std::size_t r = 0; r < first_.rows.size(); ++r) {
      canvas_.ink(0, 0, 0);
      canvas_.text({label, middle_of(r) + 2.4}, label_of(*first_.rows[r], true), Align::right);
    }
    const double panel = (width - label - 3 * gap - 6) / 3;
    for (std::size_t figure = 0; figure < drawn.size(); ++figure)
      draw_figure(figure, label + gap + static_cast<double>(figure) * (panel + gap), panel);
    canvas_.ink(.3, .3, .3);
    canvas_.text({0, bottom() + 20}, seeds_note(workload_));
    std::string marks = blocks_.size() > 1 ? "hollow: with token deposit" : "";
    if (std::any_of(first_.rows.begin(), first_.rows.end(), [](const SystemReport* row) { return row->control; }))
      marks += (marks.empty() ? "" : "; ") + std::string{"diamond: control"};
    canvas_.text({0, bottom() + 29}, marks);
    return canvas_.finish();
  }

 private:
  static constexpr double top = 14, gap = 13, row_height = 10;
  [[nodiscard]] double middle_of(std::size_t row) const { return top + row_height * (static_cast<double>(row) + 0.5); }
  [[nodiscard]] double bottom() const { return top + row_height * static_cast<double>(first_.rows.size()); }

  void draw_figure(std::size_t figure, double left, double panel) {
    double least = INFINITY, most = 0;
    for (const ReportBlock& block : blocks_)
      for (const SystemReport* row : block.rows) widen(value_of(*row, figure), least, most);
    const Axes x = axis_of(figure, left, left + panel, least, most);
    canvas_.ink(0, 0, 0);
    canvas_.text({left, top - 4}, drawn[figure].brief);
    for (const double tick : x.ticks()) tick_x(canvas_, x(tick), top, bottom(), tick_text(tick));
    for (const ReportBlock& block : blocks_)
      for (const SystemReport* row : block.rows)
        for (std::size_t r = 0; r < first_.rows.size(); ++r)
          if (first_.rows[r]->name == row->name)
            spot(*row, figure, x, middle_of(r) + (&block == &first_ ? 0 : 2.8), block);
  }
  void spot(const SystemReport& row, std::size_t figure, const Axes& x, double y, const ReportBlock& block) {
    const Interval value = value_of(row, figure);
    if (std::isnan(value.mean)) return;
    row.control ? canvas_.ink(.45, .45, .45) : canvas_.ink(styles[&block == &first_ ? 0 : 1]);
    if (value.known()) canvas_.line(Point{x(value.least), y}, Point{x(value.most), y}, 0.9);
    canvas_.marker({x(value.mean), y}, row.control ? 3 : 0, 1.8, &block == &first_);
  }
  const WorkloadReport& workload_;
  std::vector<ReportBlock> blocks_;
  const ReportBlock& first_;
  Canvas canvas_;
};

/// Draws a grid over one flag: the figures below each other, with a line for each system. If the flag's values are
/// names, it draws only markers.
class Lines {
 public:
  Lines(const std::string& path, std::span<const Ran> all, const Axis& axis)
      : all_(all), axis_(axis), systems_(systems_of(all)), canvas_(path, width, height_of(systems_.size())) {}

  std::string draw() {
    for (std::size_t figure = 0; figure < drawn.size(); ++figure) draw_figure(figure);
    const double below = top + 3 * (panel + between) - between + 18;
    canvas_.ink(0, 0, 0);
    canvas_.text({width - right, below}, axis_.name, Align::right);
    canvas_.ink(.3, .3, .3);
    canvas_.text({0, below}, seeds_note(all_.front().report.workload));
    for (std::size_t s = 0; s < systems_.size(); ++s) {
      const Point at{s % 2 == 0 ? 2 : width / 2, below + 11 + 10 * static_cast<double>(s / 2)};
      canvas_.ink(styles[s]);
      const std::array<Point, 2> sample{{{at.x, at.y - 2.4}, {at.x + 20, at.y - 2.4}}};
      if (axis_.numbers) canvas_.line(sample, 1.1, styles[s].dash);
      canvas_.marker({at.x + 10, at.y - 2.4}, styles[s].marker, 2);
      canvas_.ink(0, 0, 0);
      canvas_.text({at.x + 25, at.y}, label_of_line(systems_[s]));
    }
    return canvas_.finish();
  }

 private:
  static constexpr double left = 24, right = 8, top = 12, panel = 76, between = 26;
  static double height_of(std::size_t systems) {
    return top + 3 * (panel + between) - between + 26 + 10 * static_cast<double>((systems + 1) / 2);
  }
  static std::vector<std::string> systems_of(std::span<const Ran> all) {
    std::vector<std::string> names;
    for (const Ran& ran : all)
      for (const SystemReport& row : ran.report.systems)
        if (std::find(names.begin(), names.end(), row.name) == names.end()) names.push_back(row.name);
    if (names.size() > styles.size()) names.resize(styles.size()); // check_plot() has refused more names
    return names;
  }
  /// Returns a system's name with the marks that it has in any cell.
  [[nodiscard]] std::string label_of_line(const std::string& system) const {
    std::vector<std::string_view> marks;
    for (const Ran& ran : all_)
      for (const SystemReport& row : ran.report.systems)
        if (row.name == system)
          for (const std::string_view mark : marks_of(row, true))
            if (std::find(marks.begin(), marks.end(), mark) == marks.end()) marks.push_back(mark);
    return marked(system, marks);
  }
  /// Returns a cell's number on the axis; for names their index.
  [[nodiscard]] double place_of(const Ran& ran) const {
    const std::string& value = ran.at.front().second;
    if (axis_.numbers) return read_quantity(value).value_or(0);
    return static_cast<double>(std::find(axis_.values.begin(), axis_.values.end(), value) - axis_.values.begin());
  }

  void draw_figure(std::size_t figure) {
    double least = INFINITY, most = 0, first = INFINITY, last = -INFINITY;
    for (const Ran& ran : all_) {
      first = std::min(first, place_of(ran));
      last = std::max(last, place_of(ran));
      for (const SystemReport& row : ran.report.systems) widen(value_of(row, figure), least, most);
    }
    const double pad = axis_.numbers ? 0.04 * (last - first) : 0.5;
    const double above = top + static_cast<double>(figure) * (panel + between), below = above + panel;
    const Axes x{left, width - right, first - pad, last + pad}, y = axis_of(figure, below, above, least, most);
    canvas_.ink(0, 0, 0);
    canvas_.text({left, above - 3}, drawn[figure].name);
    for (const double tick : y.ticks()) {
      canvas_.ink(.82, .82, .82);
      canvas_.line(Point{left, y(tick)}, Point{width - right, y(tick)}, 0.4);
      canvas_.ink(0, 0, 0);
      canvas_.text({left - 3, y(tick) + 2.4}, tick_text(tick), Align::right);
    }
    double free_from = -1;
    for (const Ran& ran : all_) {
      const double at = x(place_of(ran)), half = canvas_.width_of(ran.at.front().second) / 2;
      tick_x(canvas_, at, above, below, at - half > free_from ? ran.at.front().second : "");
      if (at - half > free_from) free_from = at + half + 2;
    }
    for (std::size_t s = 0; s < systems_.size(); ++s) draw_line(s, figure, x, y);
  }
  void draw_line(std::size_t s, std::size_t figure, const Axes& x, const Axes& y) {
    std::vector<Point> points;
    canvas_.ink(styles[s]);
    const double aside =
        (static_cast<double>(s) - 0.5 * static_cast<double>(systems_.size() - 1)) * (axis_.numbers ? 1.2 : 6);
    for (const Ran& ran : all_)
      for (const SystemReport& row : ran.report.systems) {
        if (row.name != systems_[s]) continue;
        const Interval value = value_of(row, figure);
        if (std::isnan(value.mean)) continue;
        const double at = x(place_of(ran)) + aside;
        if (value.known()) canvas_.line(Point{at, y(value.least)}, Point{at, y(value.most)}, 0.6);
        canvas_.marker({at, y(value.mean)}, styles[s].marker, 2);
        points.push_back({at, y(value.mean)});
      }
    std::sort(points.begin(), points.end(), [](const Point& a, const Point& b) { return a.x < b.x; });
    if (axis_.numbers) canvas_.line(points, 1.1, styles[s].dash);
  }

  std::span<const Ran> all_;
  const Axis& axis_;
  std::vector<std::string> systems_;
  Canvas canvas_;
};

} // namespace

bool can_plot() { return true; }

Status write_plot(const std::string& path, std::span<const Ran> all, const std::vector<Axis>& axes) {
  const std::string wrong =
      axes.empty() ? Rows(path, all.front().report).draw() : Lines(path, all, axes.front()).draw();
  if (wrong.empty()) return {};
  return flag_error("--plot", fmt::format("{} cannot be written: {}", path, wrong), "a path that can be written to");
}

} // namespace compared
