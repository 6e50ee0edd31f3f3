// SPDX-License-Identifier: Apache-2.0
// The figures of a fleet's run, in the order of tables, and their intervals over seeds.
#pragma once

#include "sluice/report/seeds.hpp"

#include "fleet/run.hpp"

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fleets {

enum class Unit : std::uint8_t { rate, share, seconds, milliseconds, count, plain };

struct Figure {
  std::string_view key; ///< in JSON; names that metrics have mean what they mean there
  std::string_view group, head;
  Unit unit = Unit::plain;
  double (*of)(const Ran&) = nullptr;
};
[[nodiscard]] std::span<const Figure> figures();

/// A router's runs, one per seed.
struct RouterRuns {
  std::string router;
  std::vector<Ran> runs;

  /// The share of the runs whose queue grows to the end; NaN if one has too few requests to say.
  [[nodiscard]] double queue_grows() const;
};
/// A row's name in tables, with a mark if the queue grows to the end in most of its runs.
[[nodiscard]] std::string marked(const std::string& name, double queue_grows);

/// Returns a figure's mean over the runs, and its interval if the metric of that name has one.
[[nodiscard]] sluice::Interval interval_of(const Figure& figure, std::span<const Ran> runs, bool windows);
[[nodiscard]] std::string text_of(const Figure& figure, double value);

/// Returns the table of all routers, and, with several seeds, what each differs from the first by.
[[nodiscard]] std::string table_of(std::span<const RouterRuns> all, bool windows);
/// Returns a line for each reason why routers' engines first refused a request; empty if none did.
[[nodiscard]] std::string refusals_of(std::span<const RouterRuns> all);
[[nodiscard]] std::string json_of(std::span<const RouterRuns> all, std::span<const std::uint64_t> seeds, bool windows);

} // namespace fleets
