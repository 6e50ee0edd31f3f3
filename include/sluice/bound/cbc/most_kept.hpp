// SPDX-License-Identifier: Apache-2.0
// most_kept: solves a KeptProblem with CBC, the COIN-OR branch and cut solver.
#pragma once

#include "sluice/bound/kept_problem.hpp"

#include <coin/Cbc_C_Interface.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace sluice {

/// No schedule keeps more than `most` of `counted` requests within their SLOs.
struct KeptBound {
  std::int64_t most = 0, counted = 0;
  double relaxed = 0;     ///< of the linear relaxation, fractions of requests allowed
  std::int64_t found = 0; ///< requests that the program's own solution keeps: `most`, unless the node limit came first
  std::int64_t nodes = 0;

  [[nodiscard]] double share() const { return of_counted(most); }
  /// The same of `found`; equal to `share()` if the bound is the program's proven optimum.
  [[nodiscard]] double found_share() const { return of_counted(found); }

 private:
  [[nodiscard]] double of_counted(std::int64_t requests) const {
    return counted > 0 ? static_cast<double>(requests) / static_cast<double>(counted)
                       : std::numeric_limits<double>::quiet_NaN();
  }
};

namespace detail {

struct SolvedBound {
  std::vector<double> values;
  double best = 0, possible = 0;
  bool proven = false; ///< `best` is the optimum
  std::int64_t nodes = 0;
};

/// The most columns, each at most 1, within `rows`. Rejected: one model for all rounds; CBC's C interface does not let
/// a model be solved twice.
inline SolvedBound solve_by_cbc(std::size_t columns, std::span<const BoundRow> rows, bool whole, int nodes) {
  std::vector<std::vector<std::pair<int, double>>> by_column(columns);
  for (std::size_t row = 0; row < rows.size(); ++row)
    for (const auto& [column, coefficient] : rows[row].terms)
      by_column[column].emplace_back(static_cast<int>(row), coefficient);
  std::vector<CoinBigIndex> starts;
  std::vector<int> indices;
  std::vector<double> values;
  for (const auto& column : by_column) {
    starts.push_back(static_cast<CoinBigIndex>(indices.size()));
    for (const auto& [row, value] : column) {
      indices.push_back(row);
      values.push_back(value);
    }
  }
  starts.push_back(static_cast<CoinBigIndex>(indices.size()));
  const std::vector<double> lowest(columns, 0), highest(columns, 1), objective(columns, -1), none(rows.size(), -1e30);
  std::vector<double> most;
  for (const BoundRow& row : rows) most.push_back(row.most);
  Cbc_Model* const model = Cbc_newModel();
  Cbc_loadProblem(model, static_cast<int>(columns), static_cast<int>(rows.size()), starts.data(), indices.data(),
                  values.data(), lowest.data(), highest.data(), objective.data(), none.data(), most.data());
  Cbc_setLogLevel(model, 0);
  Cbc_setParameter(model, "log", "0");
  if (whole) {
    for (std::size_t i = 0; i < columns; ++i) Cbc_setInteger(model, static_cast<int>(i));
    Cbc_setMaximumNodes(model, nodes);
  }
  Cbc_solve(model);
  SolvedBound solved;
  const double* const found = Cbc_getColSolution(model);
  if (found != nullptr) solved.values.assign(found, found + columns);
  // Values are shares of requests. Without a solution CBC's are 1e50.
  const auto counted = [&](double value) { return std::clamp(value, 0.0, static_cast<double>(columns)); };
  solved.proven = Cbc_isProvenOptimal(model) != 0;
  solved.best = counted(-Cbc_getObjValue(model));
  solved.possible = whole ? counted(-Cbc_getBestPossibleObjValue(model)) : solved.best;
  solved.nodes = whole ? Cbc_getNodeCount(model) : 0;
  Cbc_deleteModel(model);
  return solved;
}

} // namespace detail

/// Solves the linear relaxation, adding the rows that each solution violates until none does, and then the program with
/// whole requests, of at most `nodes` nodes. The answer is a bound even if rounds or nodes run out: a relaxation counts
/// only if CBC has proven its optimum, and at the end CBC's proven bound counts.
[[nodiscard]] inline KeptBound most_kept(const KeptProblem& problem, int nodes = 2000) {
  constexpr int rounds = 40;
  const std::size_t columns = problem.columns().size();
  KeptBound bound{problem.kept_freely(), problem.counted(), static_cast<double>(problem.kept_freely()),
                  problem.kept_freely(), 0};
  if (columns == 0) return bound;
  std::vector<BoundRow> rows{problem.rows().begin(), problem.rows().end()};
  std::vector<double> values(columns, 1);
  double relaxed = static_cast<double>(columns);
  for (int round = 0; round < rounds; ++round) {
    // The first round has the values of no schedule: all requests kept, each at its first part.
    if (round == 0)
      for (std::size_t i = 1; i < columns; ++i)
        values[i] = problem.columns()[i].request == problem.columns()[i - 1].request ? 0 : 1;
    std::vector<BoundRow> more = problem.violated(values);
    if (more.empty() && round > 0) break;
    rows.insert(rows.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
    const detail::SolvedBound solved = detail::solve_by_cbc(columns, rows, false, 0);
    if (!solved.proven || solved.values.empty()) break;
    values = solved.values;
    relaxed = solved.best;
  }
  const auto whole = [](double value) { return static_cast<std::int64_t>(std::floor(value + 1e-5)); };
  bound.relaxed += relaxed;
  const detail::SolvedBound solved = detail::solve_by_cbc(columns, rows, true, nodes);
  bound.most += whole(std::min(relaxed, std::max(solved.possible, solved.best)));
  bound.found += whole(solved.best);
  bound.nodes = solved.nodes;
  return bound;
}

} // namespace sluice
