// SPDX-License-Identifier: Apache-2.0
// fleet.html: a lane per engine, and what each router saw and how old it was; or a replay's tokens per second.
#pragma once

#include "compare/comparison.hpp"
#include "fleet/figures.hpp"
#include "fleet/options.hpp"

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace fleets {

/// The page of routers, drawn from the first seed's run.
[[nodiscard]] std::string fleet_page(const Options& options, const compared::Comparison& comparison,
                                     std::span<const RouterRuns> all, const std::string& command);

/// A curve of a chart, by second of the run.
struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;
};
struct Chart {
  std::string title;
  std::vector<Curve> curves;
};
/// The page of a replay: a chart for each recorded fleet. `table`: its figures, as HTML.
[[nodiscard]] std::string replay_page(const std::string& what, std::span<const Chart> charts, const std::string& table,
                                      const std::string& command);

} // namespace fleets
