// SPDX-License-Identifier: Apache-2.0
// Exploration: every engine of the space and every published system on one workload, ranked; and the effect of each
// choice of a policy.
#pragma once

#include "sluice/report/report.hpp"
#include "sluice/report/seeds.hpp"
#include "sluice/report/statistics/paired.hpp"

#include "compare/comparison.hpp"
#include "explore/space.hpp"

#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace explored {

/// One row of the ranking: an engine of the space, or a system of the list.
struct Row {
  std::string name;       ///< `Engine<…>`, or the system's name
  std::string engine;     ///< `Engine<…>` in both cases
  bool listed = false;    ///< a system of the list
  bool own = false;       ///< of these, this project's or one of the program's own (sluice_add_programs)
  bool control = false;   ///< never ranked
  bool oracle = false;    ///< knows how long answers will be: ranked and marked, never the reference
  std::size_t number = 0; ///< the combination's; for a system its index in the comparison
  std::vector<std::pair<std::string, std::int64_t>> refusals;
  std::string transfer;                  ///< the rule's name
  std::string livelock;                  ///< why the run was ended early; empty: it was not. Ranks after all others
  sluice::Metrics metrics;               ///< with several seeds their means
  std::vector<sluice::Metrics> per_seed; ///< empty with one seed
  std::vector<std::string> livelocks;    ///< one per seed; empty with one seed
  sluice::Paired against;                ///< with several seeds: SLO attainment minus that of Exploration::reference

  std::size_t rank = 0;               ///< from 1, over all rows except the control; equal figures have equal ranks
  std::optional<std::size_t> same_as; ///< index in `Exploration::rows` of a row with the same figures
  bool short_horizon = false;         ///< of all rows: requests take longer than the time until `--horizon`
  bool pareto = false;                ///< no other row has both more tokens per second and a higher SLO attainment

  [[nodiscard]] bool published() const { return listed && !own; }
};

/// The effect of one policy of a role, over all combinations that work. A combination that repeats an engine counts
/// with that engine's figures. Otherwise a role's policies would be averaged over different combinations of the other
/// roles.
struct Marginal {
  std::size_t combinations = 0;
  double best = std::numeric_limits<double>::quiet_NaN(); ///< SLO attainment
  double mean = std::numeric_limits<double>::quiet_NaN();
  // Compared with the role's first policy: over the pairs of combinations that differ only in this role.
  std::size_t pairs = 0;
  std::size_t better = 0, worse = 0; ///< pairs
  double gain = 0;                   ///< mean difference of SLO attainment
  sluice::Interval gain_of_seeds;    ///< with several seeds: each seed's gain
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
  std::string reference;                ///< with several seeds: the published system that rows are compared with
  std::vector<RoleMarginals> marginals; ///< largest spread first
  sluice::RunCount runs{};

  [[nodiscard]] bool of_seeds() const { return workload.seeds.size() > 1; }
  [[nodiscard]] const Row* best(bool published) const;
  /// Engines with a higher SLO attainment than every published system, best first, without rows of equal figures. With
  /// several seeds by their means: `Row::against` says which of them are ties.
  [[nodiscard]] std::vector<const Row*> beats_published() const;
};

/// A row's figure over its seeds, or windows of a trace (`windows`), where some columns have no interval; with one seed
/// without an interval.
template <class Figure>
[[nodiscard]] sluice::Interval spread_of(const Row& row, Figure figure, bool windows) {
  std::vector<double> values;
  for (const sluice::Metrics& metrics : row.per_seed) values.push_back(figure(metrics));
  if (row.per_seed.empty()) values.push_back(figure(row.metrics));
  if constexpr (std::is_same_v<Figure, sluice::MetricColumn>)
    return sluice::metric_interval(figure.key, values, windows);
  return sluice::mean_interval(values);
}

/// Runs everything, with progress on stderr unless quiet. Results do not depend on how runs are distributed. If another
/// process leads the crew, there are no rows. After an interrupt the rows are those that have run on every seed.
sluice::Expected<Exploration> explore(const compared::Options& options, const compared::Comparison& comparison,
                                      sluice::Crew& crew);

/// Computes ranks, equal figures, the front and the marginals from rows that have their figures.
void analyse(Exploration& exploration);

// The findings as text for a terminal, as JSON for programs and as one page that needs no network.
std::string exploration_text(const Exploration& exploration, std::size_t top);
std::string exploration_json(const Exploration& exploration);
std::string exploration_html(const Exploration& exploration);
/// compositions.csv, choices.csv and the datapackage.json that describes them, by their names.
std::vector<std::pair<std::string_view, std::string>> exploration_tables(const Exploration& exploration);

/// The program: parses the command line, does what it asks and prints. Returns the exit status.
int program(int argc, char** argv);

} // namespace explored
