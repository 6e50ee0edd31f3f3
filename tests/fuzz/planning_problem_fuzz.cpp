// SPDX-License-Identifier: Apache-2.0
// A planning problem as sluice-plan reads it; a small problem that was read is solved, with few nodes.
#include "sluice/policy/placement/solver/solve_problem.hpp"
#include "sluice/state/plan/nlohmann/problem_json.hpp"

#include "fuzz/fuzz_support.hpp"

#include <algorithm>

SLUICE_FUZZ_TARGET(planning_problem) {
  const auto object = sluice::parse_json_object(sluice_test::text_of(data, size), "stdin");
  if (!object) {
    sluice_test::require_one_line(object.error());
    return 0;
  }
  auto problem = sluice::read_problem(*object, "stdin");
  if (!problem) {
    sluice_test::require_one_line(problem.error());
    return 0;
  }
  sluice::Instance& instance = problem->instance;
  sluice_test::require(sluice::check(instance).ok(), "a problem that was read is valid");
  if (instance.layers() > 12 || instance.requests.size() > 4 || instance.window_max > 16 || instance.iterations > 3)
    return 0;
  instance.node_limit = std::min<std::int64_t>(instance.node_limit, 100);
  const sluice::PlannerTables tables = sluice::tables_of(*problem);
  sluice::Planner planner{tables.space, tables.rule};
  const sluice::Solution& solution = planner.solve(instance);
  sluice_test::require(solution.offloaded.size() == instance.requests.size(), "a set for each request");
  sluice_test::require(!solution.feasible || solution.lower_bound_s <= solution.step_s, "the bound is a bound");
  return 0;
}
