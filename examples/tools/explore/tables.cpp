// SPDX-License-Identifier: Apache-2.0
// compositions.csv and choices.csv: an exploration as tables.
#include "sluice/report/csv.hpp"
#include "sluice/report/csv_tables.hpp"
#include "sluice/report/order.hpp"

#include "explore/exploration.hpp"
#include "shared/version.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace explored {

using namespace sluice;

namespace {

/// A row of an exploration.
struct Ranked {
  const Exploration& found;
  const Row& row;
};
constexpr CsvColumnOf<Ranked> row_cells[] = {
    {"engine", "", "the composition, as one would type it", [](auto& of) { return std::string_view{of.row.engine}; }},
    {"published", "", "whether it is a published system", [](auto& of) { return of.row.published(); }},
    {"own", "", "whether it is a system of this project or of the program, and no published one",
     [](auto& of) { return of.row.own; }},
    {"control", "", "whether it is the control, which is not ranked", [](auto& of) { return of.row.control; }},
    {"rank", "", "from 1, by the means over the seeds; empty: the control's",
     [](auto& of) { return of.row.control ? std::nullopt : std::optional{of.row.rank}; }},
    {"same_as", "", "of rows with the same figures the first one's system; empty: it is the first",
     [](auto& of) { return of.row.same_as ? std::string_view{of.found.rows[*of.row.same_as].name} : ""; }},
    {"pareto", "", "whether no other has both more tokens a second and a higher SLO attainment",
     [](auto& of) { return of.row.pareto; }},
};

/// A policy of a role.
struct Choice {
  const RoleChoices& role;
  const RoleMarginals& marginals;
  std::size_t model;

  [[nodiscard]] const Marginal& of() const { return marginals.models[model]; }
};
constexpr CsvColumnOf<Choice> choice_cells[] = {
    {"role", "", "the role", [](auto& choice) { return std::string_view{choice.role.role}; }},
    {"policy", "", "one of its policies; the first is what the others are compared with",
     [](auto& choice) { return std::string_view{choice.role.models[choice.model]}; }},
    {"spread", "", "of the role: the best policy's SLO attainment less the worst one's, over all else",
     [](auto& choice) { return choice.marginals.spread; }},
    {"combinations", "", "that have this policy, and work", [](auto& choice) { return choice.of().combinations; }},
    {"best_slo_attainment", "", "of them", [](auto& choice) { return choice.of().best; }},
    {"mean_slo_attainment", "", "of them", [](auto& choice) { return choice.of().mean; }},
    {"pairs", "", "of combinations with this policy and with the role's first, all else equal",
     [](auto& choice) { return choice.of().pairs; }},
    {"gain", "", "of SLO attainment, in the mean over the pairs; empty: there are none",
     [](auto& choice) { return choice.of().pairs > 0 ? choice.of().gain : Interval::absent; }},
    {"gain_least", "", "of several seeds, where the gain's 95 % interval begins",
     [](auto& choice) { return choice.of().gain_of_seeds.least; }},
    {"gain_most", "", "and where it ends", [](auto& choice) { return choice.of().gain_of_seeds.most; }},
    {"better", "", "pairs with a gain", [](auto& choice) { return choice.of().better; }},
    {"worse", "", "pairs with a loss", [](auto& choice) { return choice.of().worse; }},
};
constexpr auto choice_columns = csv_columns(choice_cells);

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
      append_cells(cells, csv_run_cells, run);
      append_cells(cells, row_cells, {found, row});
      for (std::size_t r = 0; r < found.space.roles.size(); ++r)
        if (row.listed)
          cells.cell("");
        else
          cells.cell(found.space.roles[r].models[found.space.model_of(row.number, r)]);
      const bool one = row.per_seed.empty();
      const CsvFigures figures{row.transfer, Seconds{found.workload.slo_ttft_s}, Seconds{found.slo_tbt_s}, row.oracle,
                               one ? row.livelock : row.livelocks[i]};
      append_figures(cells, figures, one ? row.metrics : row.per_seed[i]);
    }
  }
}

void append_choices(std::string& text, const Exploration& found) {
  for (const RoleMarginals& role : found.marginals)
    for (std::size_t m = 0; m < role.models.size(); ++m) {
      CsvRow row(text);
      append_cells(row, choice_cells, {found.space.roles[role.role], role, m});
    }
}

} // namespace

std::vector<std::pair<std::string_view, std::string>> exploration_tables(const Exploration& found) {
  std::vector<CsvColumn> columns(std::begin(row_cells), std::end(row_cells));
  const std::vector<std::string> policies = policy_names(found.space);
  for (const std::string& name : policies)
    columns.push_back({name, "string", "", "the composition's policy for that role; empty: of a system"});
  for (const CsvColumn& column : csv_figure_columns()) columns.push_back(column);
  const std::array<CsvFile, 2> files{
      {{"compositions", "a row for each run of a composition or a system, by rank", csv_run_columns, columns},
       {"choices", "a row for each policy of each role: what it is worth, all else equal", {}, choice_columns}}};
  std::string compositions = csv_head(csv_run_columns, columns), choices = csv_head({}, choice_columns);
  append_rows(compositions, found);
  append_choices(choices, found);
  return {{"compositions.csv", std::move(compositions)},
          {"choices.csv", std::move(choices)},
          {"datapackage.json", csv_package(files, made_by(), found.workload.command, found.workload.notes)}};
}

} // namespace explored
