// SPDX-License-Identifier: Apache-2.0
// compositions.csv and choices.csv: an exploration as tables.
#include "sluice/report/csv_package.hpp"
#include "sluice/report/csv_tables.hpp"
#include "sluice/report/order.hpp"

#include "explore/exploration.hpp"
#include "shared/version.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace explored {

using namespace sluice;

namespace {

constexpr std::array<CsvColumn, 6> row_columns{{
    {"engine", "string", "", "the composition, as one would type it"},
    {"published", "boolean", "", "whether it is a published system"},
    {"control", "boolean", "", "whether it is the control, which is not ranked"},
    {"rank", "integer", "", "from 1, by the means over the seeds; empty: the control's"},
    {"same_as", "string", "", "of rows with the same figures the first one's system; empty: it is the first"},
    {"pareto", "boolean", "", "whether no other has both more tokens a second and more of them in time"},
}};

constexpr std::array<CsvColumn, 12> choice_columns{{
    {"role", "string", "", "the role"},
    {"policy", "string", "", "one of its policies; the first is what the others are compared with"},
    {"spread", "number", "", "of the role: the best policy's TBT attainment less the worst one's, over all else"},
    {"combinations", "integer", "", "that have this policy, and work"},
    {"best_tbt_attainment", "number", "", "of them"},
    {"mean_tbt_attainment", "number", "", "of them"},
    {"pairs", "integer", "", "of combinations with this policy and with the role's first, all else equal"},
    {"gain", "number", "", "of TBT attainment, in the mean over the pairs; empty: there are none"},
    {"gain_least", "number", "", "of several seeds, where the gain's 95 % interval begins"},
    {"gain_most", "number", "", "and where it ends"},
    {"better", "integer", "", "pairs with a gain"},
    {"worse", "integer", "", "pairs with a loss"},
}};

/// "placement_policy" of each role, in the order of the product.
std::vector<std::string> policy_names(const Space& space) {
  std::vector<std::string> names;
  for (const RoleChoices& role : space.roles) {
    std::string name;
    for (const char c : role.role) name += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    names.push_back(name + "_policy");
  }
  return names;
}

void append_rows(std::string& text, const Exploration& found) {
  const std::vector<std::uint64_t> seeds = seeds_served(found.workload);
  for (const Row& row : found.rows) {
    CsvRun run{.system = row.name, .deposit = found.deposit, .slo_scale = found.slo_scale};
    for (std::size_t i = 0; i < seeds.size(); ++i) {
      run.seed = seeds[i];
      CsvRow cells(text);
      detail::cells(cells, run);
      cells.cell(row.engine);
      cells.cell(row.published);
      cells.cell(row.control);
      if (row.control)
        cells.none();
      else
        cells.cell(row.rank);
      cells.cell(row.same_as ? found.rows[*row.same_as].name : std::string{});
      cells.cell(row.pareto);
      for (std::size_t r = 0; r < found.space.roles.size(); ++r)
        if (row.published)
          cells.none();
        else
          cells.cell(found.space.roles[r].models[found.space.model_of(row.number, r)]);
      const bool one = row.per_seed.empty();
      const CsvFigures figures{row.transfer, Seconds{found.workload.slo_ttft_s}, Seconds{found.slo_tbt_s},
                               one ? row.livelock : row.livelocks[i]};
      detail::cells(cells, figures, one ? row.metrics : row.per_seed[i]);
    }
  }
}

void append_choices(std::string& text, const Exploration& found) {
  for (const RoleMarginals& role : found.marginals)
    for (std::size_t m = 0; m < role.models.size(); ++m) {
      const Marginal& of = role.models[m];
      const Interval& gain = of.gain_of_seeds;
      CsvRow cells(text);
      cells.cell(found.space.roles[role.role].role);
      cells.cell(found.space.roles[role.role].models[m]);
      cells.cell(role.spread);
      cells.cell(of.combinations);
      cells.cell(of.best);
      cells.cell(of.mean);
      cells.cell(of.pairs);
      cells.cell(of.pairs > 0 ? of.gain : Interval::absent);
      cells.cell(gain.least);
      cells.cell(gain.most);
      cells.cell(of.better);
      cells.cell(of.worse);
    }
}

} // namespace

std::vector<std::pair<std::string_view, std::string>> exploration_tables(const Exploration& found) {
  std::vector<CsvColumn> columns(row_columns.begin(), row_columns.end());
  const std::vector<std::string> policies = policy_names(found.space);
  for (const std::string& name : policies)
    columns.push_back({name, "string", "", "the composition's policy for that role; empty: of a published system"});
  for (const CsvColumn& column : csv_figure_columns()) columns.push_back(column);
  const std::array<CsvFile, 2> files{
      {{"compositions", "a row for each run of a composition or a published system, by rank", csv_run_columns, columns},
       {"choices", "a row for each policy of each role: what it is worth, all else equal", {}, choice_columns}}};
  std::string compositions = csv_head(csv_run_columns, columns), choices = csv_head({}, choice_columns);
  append_rows(compositions, found);
  append_choices(choices, found);
  return {{"compositions.csv", std::move(compositions)},
          {"choices.csv", std::move(choices)},
          {"datapackage.json", csv_package(files, made_by(), found.workload.command)}};
}

} // namespace explored
