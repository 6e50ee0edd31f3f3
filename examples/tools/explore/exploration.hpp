// SPDX-License-Identifier: Apache-2.0
// Exploration: every engine of the space and every published system on one workload, ranked; and what each choice of a
// model is worth.
#pragma once

#include "sluice/report/report.hpp"
#include "sluice/report/statistics/paired.hpp"

#include "compare/comparison.hpp"
#include "explore/space.hpp"

#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace explored {

/// One row of the ranking: an engine of the space, or a published system.
struct Row {
  std::string name;   ///< `Engine<…>`, or the system's
  std::string engine; ///< `Engine<…>` of either
  bool published = false;
  bool control = false;   ///< never ranked
  std::size_t number = 0; ///< of the combination; of a published system its place in the comparison
  std::vector<std::pair<std::string, std::int64_t>> refusals;
  std::string transfer;    ///< the rule's name
  std::string livelock;    ///< why the run was ended before its requests; empty: it was not. Ranks behind all others
  sluice::Metrics metrics; ///< of several seeds their means
  std::vector<sluice::Metrics> per_seed; ///< empty of one seed
  std::vector<std::string> livelocks;    ///< of each of these; empty of one seed
  sluice::Paired against;                ///< of several seeds: the TBT attainment less Exploration::reference's

  std::size_t rank = 0;               ///< from 1, of all rows but the control; equal figures, equal rank
  std::optional<std::size_t> same_as; ///< the row, by place in `Exploration::rows`, that has the same figures
  bool pareto = false;                ///< none has both more tokens a second and more of them in time
};

/// What one model of a role is worth, over all combinations that work. A combination that repeats an engine counts with
/// that engine's figures: else a role would be judged by the company that it could not be pruned from.
struct Marginal {
  std::size_t combinations = 0;
  double best = std::numeric_limits<double>::quiet_NaN(); ///< TBT attainment
  double mean = std::numeric_limits<double>::quiet_NaN();
  // All else equal, against the role's first model: over the pairs of combinations that differ in this role alone.
  std::size_t pairs = 0;
  std::size_t better = 0, worse = 0; ///< pairs
  double gain = 0;                   ///< mean difference of TBT attainment
  sluice::Interval gain_of_seeds;    ///< of several seeds: the same of each seed
};

struct RoleMarginals {
  std::size_t role = 0; ///< in Space::roles
  double spread =
      0; ///< mean over all else of the best model's attainment less the worst one's: what the choice is worth
  std::vector<Marginal> models;
};

struct Exploration {
  Space space;
  sluice::WorkloadReport workload;
  double slo_scale = 1, slo_tbt_s = 0;
  bool deposit = false;
  std::vector<Row> rows;                ///< by rank, the control last
  std::string reference;                ///< of several seeds: the published system that rows are judged against
  std::vector<RoleMarginals> marginals; ///< the role that matters most first
  sluice::RunCount runs{};

  [[nodiscard]] bool of_seeds() const { return workload.seeds.size() > 1; }
  [[nodiscard]] const Row* best(bool published) const;
  /// Engines that have a higher TBT attainment than every published system, best first, no two of the same figures. Of
  /// several seeds in the mean: who of them is no tie, `Row::against` says.
  [[nodiscard]] std::vector<const Row*> beats_published() const;
};

/// The figure of a row over its seeds; of one seed without limits.
template <class Figure>
[[nodiscard]] sluice::Interval spread_of(const Row& row, Figure figure) {
  std::vector<double> values;
  for (const sluice::Metrics& metrics : row.per_seed) values.push_back(figure(metrics));
  if (row.per_seed.empty()) values.push_back(figure(row.metrics));
  return sluice::mean_interval(values);
}

/// Runs everything, with progress on stderr unless quiet. The same whoever runs what. Where the crew is led by another
/// process there is nothing to tell: no rows. After an interrupt the rows are those that have run on every seed.
sluice::Expected<Exploration> explore(const compared::Options& options, const compared::Comparison& comparison,
                                      sluice::Crew& crew);

/// Rank, equal figures, the front and the marginals of rows that hold their figures.
void analyse(Exploration& exploration);

// What it found, as text for a terminal, for programs and as one page that needs no network.
std::string exploration_text(const Exploration& exploration, std::size_t top);
std::string exploration_json(const Exploration& exploration);
std::string exploration_html(const Exploration& exploration);
/// compositions.csv, choices.csv and the datapackage.json that describes them, by their names.
std::vector<std::pair<std::string_view, std::string>> exploration_tables(const Exploration& exploration);

} // namespace explored
