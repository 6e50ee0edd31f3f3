// SPDX-License-Identifier: Apache-2.0
// bench_placement: the planners' times and optimality gaps, and a MILP solver's time on the same instances.
//
//   bench_placement [--instances N] [--seed S] [--milp N]
#include "sluice/policy/placement/solver/joint_planner.hpp"
#include "sluice/policy/placement/solver/planner.hpp"

#include "planning_instances.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string_view>
#include <type_traits>
#include <vector>

#ifdef SLUICE_HAVE_GLPK
#include "placement_milp.hpp"
#endif

namespace {

using namespace sluice;
using Clock = std::chrono::steady_clock;

double quantile(std::vector<double> values, double q) { // nearest rank
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<std::size_t>(std::ceil(q * static_cast<double>(values.size())));
  return values[rank == 0 ? 0 : rank - 1];
}

/// This thread's CPU time: the solver's cost, independent of other load. Without POSIX, wall time.
double cpu_seconds() {
#ifdef CLOCK_THREAD_CPUTIME_ID
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
#else
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
#endif
}

constexpr double proof_guard_s = 2; // a proof that would take longer is reported as missing

struct Case {
  const char* space;
  std::size_t requests;
  int layers;
  double deadline_s;
};

/// `draw` returns an instance, and `solve` its Solution.
template <class Rule, class Draw, class Solve>
void time_solver(const Case& what, int instances, Draw&& draw, Solve&& solve) {
  (void)solve(draw()); // allocates its memory once
  std::vector<double> us, cpu_us, gaps, nodes;
  int proven = 0;
  int feasible = 0;
  for (int i = 0; i < instances; ++i) {
    const auto instance = draw();
    const auto begin = Clock::now();
    const double cpu_begin = cpu_seconds();
    const Solution& solution = solve(instance);
    cpu_us.push_back((cpu_seconds() - cpu_begin) * 1e6);
    us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
    nodes.push_back(static_cast<double>(solution.nodes));
    proven += solution.proven_optimal;
    if (!solution.feasible) continue;
    ++feasible;
    gaps.push_back(100 * (solution.step_s / solution.lower_bound_s - 1));
  }
  std::printf("%-8s R%-3zu L%-3d", what.space, what.requests, what.layers);
  if (what.deadline_s < proof_guard_s)
    std::printf(" deadline %.0f ms", what.deadline_s * 1e3);
  else
    std::printf(" to the proof  ");
  if (!std::is_same_v<Rule, DeadlinePool>) std::printf(" %s", Rule::name.data());
  std::printf(" | cpu us p50 %8.1f p99 %8.1f | wall us p50 %8.1f p99 %8.1f | proven %d of %d, feasible %d | gap %% p50 "
              "%.3f p90 "
              "%.3f max %.3f | nodes p50 %.0f\n",
              quantile(cpu_us, .5), quantile(cpu_us, .99), quantile(us, .5), quantile(us, .99), proven, instances,
              feasible, quantile(gaps, .5), quantile(gaps, .9), quantile(gaps, 1), quantile(nodes, .5));
  std::fflush(stdout);
}

template <class Space, class Rule = DeadlinePool>
void run(const Case& what, int instances, std::uint64_t seed) {
  Random random{seed};
  ExactSearch<Space, Rule> planner;
  const auto draw = [&] {
    Instance instance = bench::random_instance(random, what.requests, what.layers);
    instance.deadline_s = what.deadline_s;
    return instance;
  };
  time_solver<Rule>(what, instances, draw, [&](const Instance& one) -> const Solution& { return planner.solve(one); });
}

/// KV in three ways, and four levels of weights, of `run`'s instances.
template <class Rule = DeadlinePool>
void run_joint(const Case& what, int instances, std::uint64_t seed) {
  Random random{seed};
  JointPlanner planner{search_rule_of<Rule>};
  const auto draw = [&] {
    JointInstance joint = bench::random_joint_instance(random, what.requests, what.layers);
    joint.base.deadline_s = what.deadline_s;
    return joint;
  };
  time_solver<Rule>(what, instances, draw,
                    [&](const JointInstance& one) -> const Solution& { return planner.solve(one).solution; });
}

#ifdef SLUICE_HAVE_GLPK
/// Solves the same instances with the planner and as MILPs. The times include MILPs that reach the time limit; their
/// results are not compared.
int compare_with_milp(int instances, std::uint64_t seed, int limit_ms) {
  Random random{seed + 1000};
  ExactSearch<DistanceSpace, DeadlinePool> planner;
  std::vector<LayerSet> candidates;
  DistanceSpace::candidates(LayerSet::all(32), candidates);
  planner.solve(bench::random_instance(random, 4, 32));
  std::vector<double> ratios, seconds;
  int solved = 0;
  int equal = 0;
  for (int i = 0; i < instances; ++i) {
    const Instance instance = bench::random_instance(random, 4, 32);
    const auto begin = Clock::now();
    const double step_s = planner.solve(instance).step_s;
    const double own_s = std::chrono::duration<double>(Clock::now() - begin).count();
    const bench::MilpResult milp = bench::solve_milp(instance, candidates, limit_ms);
    seconds.push_back(milp.seconds);
    ratios.push_back(milp.seconds / own_s);
    solved += milp.solved;
    if (milp.solved && std::abs(milp.step_s - step_s) <= 1e-6 * step_s) ++equal;
  }
  std::printf(
      "MILP (GLPK %s), distance R4 L32, %d instances: solved %d, optima equal %d | s p50 %.3f max %.3f | slower by p50 "
      "%.0fx min %.0fx\n",
      glp_version(), instances, solved, equal, quantile(seconds, .5), quantile(seconds, 1), quantile(ratios, .5),
      quantile(ratios, 0));
  return solved == equal ? 0 : 1;
}
#endif

} // namespace

int main(int argc, char** argv) {
  int instances = 500;
  int milp = 5;
  std::uint64_t seed = 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view flag = argv[i];
    if (flag == "--instances")
      instances = std::atoi(argv[i + 1]);
    else if (flag == "--seed")
      seed = static_cast<std::uint64_t>(std::atoll(argv[i + 1]));
    else if (flag == "--milp")
      milp = std::atoi(argv[i + 1]);
    else {
      std::fprintf(stderr, "%s: unknown flag; expected --instances, --seed or --milp\n", argv[i]);
      return 2;
    }
  }
  run<DistanceSpace>({"distance", 4, 32, proof_guard_s}, instances, seed);
  run<EvenSpace>({"even", 4, 32, proof_guard_s}, instances, seed);
  run<DistanceSpace>({"distance", 8, 32, proof_guard_s}, std::max(1, instances / 5), seed);
  for (const std::size_t requests : {std::size_t{8}, std::size_t{16}, std::size_t{64}}) {
    run<DistanceSpace>({"distance", requests, 80, 0.010}, std::max(1, instances / 5), seed);
    run<EvenSpace>({"even", requests, 80, 0.010}, std::max(1, instances / 5), seed);
  }
  const Case other{"distance", 4, 32, proof_guard_s};
  run<DistanceSpace, NextLayer>(other, std::max(1, instances / 5), seed);
  run<DistanceSpace, EarliestDeadlineFirst>(other, std::max(1, instances / 5), seed);
  run<DistanceSpace, FairShare>(other, std::max(1, instances / 5), seed);
  run_joint({"joint", 4, 32, proof_guard_s}, instances, seed);
  run_joint({"joint", 8, 32, proof_guard_s}, std::max(1, instances / 5), seed);
  run_joint({"joint", 8, 32, 0.010}, std::max(1, instances / 5), seed);
  run_joint<NextLayer>({"joint", 4, 32, proof_guard_s}, std::max(1, instances / 5), seed);
  run_joint<EarliestDeadlineFirst>({"joint", 4, 32, proof_guard_s}, std::max(1, instances / 5), seed);
  run_joint<FairShare>({"joint", 4, 32, proof_guard_s}, std::max(1, instances / 5), seed);
#ifdef SLUICE_HAVE_GLPK
  if (milp > 0) return compare_with_milp(milp, seed, 20'000);
#else
  if (milp > 0) std::printf("MILP: skipped, built without GLPK\n");
#endif
  return 0;
}
