// SPDX-License-Identifier: Apache-2.0
#include "sluice/report/columns.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

using namespace sluice;

namespace {

/// What a table writes of a number, and of a mean.
std::string told(MetricUnit unit, double number) { return number_text(unit)(number); }
std::string told_mean(MetricUnit unit, double number) { return number_text(unit, true)(number); }

} // namespace

TEST_CASE("every column has the number of its key in report.json, and keys and names of --columns occur once") {
  Metrics metrics;
  double next = 1;
  for_each_metric(metrics, [&](std::string_view, auto& number) {
    number = static_cast<std::remove_reference_t<decltype(number)>>(next++);
  });
  for (const MetricColumn& column : metric_columns) {
    double expected = Metrics::absent;
    for_each_metric(metrics, [&](std::string_view name, auto number) {
      if (name == column.key) expected = static_cast<double>(number);
    });
    CHECK_MESSAGE(column(metrics) == expected, column.key);
    CHECK(!column.title.empty());
    const auto same = [&](auto member) {
      return std::count_if(metric_columns.begin(), metric_columns.end(),
                           [&](const MetricColumn& other) { return other.*member == column.*member; });
    };
    CHECK_MESSAGE(same(&MetricColumn::key) == 1, column.key);
    if (!column.choice.empty()) CHECK_MESSAGE(same(&MetricColumn::choice) == 1, column.choice);
  }
  CHECK(std::isnan(MetricColumn{"speed", "", "speed", MetricUnit::number}(metrics)));
}

TEST_CASE("a column that leaves out refused requests is a mean or a P99 of those that were served, or got a token") {
  for (const MetricColumn& column : metric_columns) {
    const bool leaves_out = column.key == "mean_e2e_s" || column.key == "p99_e2e_s" || column.key == "mean_ttft_s" ||
                            column.key == "p99_ttft_s";
    CHECK_MESSAGE(column.leaves_out == leaves_out, column.key);
  }
}

TEST_CASE("each unit has one text; only a count is a whole number in one table and a mean in another") {
  CHECK(told(MetricUnit::share, 0.5) == "50.0");
  CHECK(told(MetricUnit::seconds, 1.5) == "1.50");
  CHECK(told(MetricUnit::milliseconds, 0.0125) == "12.5");
  CHECK(told(MetricUnit::milliseconds, 1e-7) == "<0.0005");
  CHECK(told(MetricUnit::gigabytes, 2.5e9) == "2.50");
  CHECK(told(MetricUnit::number, 1234.4) == "1234");
  CHECK(told(MetricUnit::count, 12) == "12");
  CHECK(told(MetricUnit::count, 3.67) == "4");
  CHECK(told_mean(MetricUnit::count, 3.67) == "3.67");
  for (const MetricUnit unit : {MetricUnit::share, MetricUnit::seconds, MetricUnit::milliseconds, MetricUnit::gigabytes,
                                MetricUnit::number, MetricUnit::count}) {
    CHECK(told(unit, Metrics::absent) == "-");
    CHECK(told_mean(unit, Metrics::absent) == "-");
    for (const double number : {0.0, 0.004, 0.3, 7.25, 41.0, 5e8})
      if (unit != MetricUnit::count) CHECK(told(unit, number) == told_mean(unit, number));
  }
}

TEST_CASE("a head of one line has the unit of times, and of shares where nothing else says it") {
  CHECK(metric_column("p99_tbt_s").one_line_head() == "P99 TBT, ms");
  CHECK(metric_column("mean_e2e_all_s").one_line_head(true) == "mean E2E of all, s");
  CHECK(metric_column("stall_share").one_line_head() == "stall");
  CHECK(metric_column("stall_share").one_line_head(true) == "stall, %");
  CHECK(metric_column("bytes_to_host").one_line_head(true) == "GB out");
  CHECK(metric_column("served").one_line_head(true) == "served");
}

TEST_CASE("a table takes its columns by key, with heads of its own where it says so") {
  constexpr auto columns =
      columns_of("served", metric_column("refused", "turned", "away"), metric_column("stall_share", "stalled"));
  static_assert(columns.size() == 3);
  CHECK(columns[0].group == "requests");
  CHECK(columns[0].head == "served");
  CHECK(columns[1].key == "refused");
  CHECK(columns[1].group == "turned");
  CHECK(columns[1].head == "away");
  CHECK(columns[1].title == "refused");
  CHECK(columns[2].title == "stalled");
  constexpr MetricColumn own =
      metric_column("stall_share"); // clang 14 reads another member of the call's result itself
  CHECK(columns[2].group == own.group);
}
