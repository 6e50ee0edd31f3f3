// SPDX-License-Identifier: Apache-2.0
// SlsqpBatchShare: b and r by sequential least squares programming, as eLLM solves its equation 1 (NLopt's SLSQP).
#pragma once

#include "sluice/policy/placement/ellm_equations.hpp"

#include <nlopt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>

namespace sluice {

/// eLLM's solver (section 4.2.2): SLSQP over real b and r. (Through the C interface, because NLopt's C++ one throws.)
///
/// SLSQP finds a local optimum, so it starts from several batch sizes, each at its smallest share. Since b must be
/// whole, whole batches on both sides of the optimum are then tried at their own smallest share. Gradients are finite
/// differences: one request, a thousandth of a share.
struct SlsqpBatchShare {
  static constexpr std::int64_t evenly = 6;     ///< starts spread over the batch sizes
  static constexpr std::int64_t neighbours = 2; ///< whole batches tried on each side of the best
  int evaluations = 40;                         ///< of the objective, per start

  template <BatchShareProblem P>
  [[nodiscard]] BatchShare operator()(const P& problem) const {
    const std::int64_t least = std::max<std::int64_t>(1, problem.least);
    if (problem.most < least) return {};
    if (problem.most == least) return at_least_share(problem, least);
    Search<P> search{problem, static_cast<double>(least), static_cast<double>(problem.most)};
    BatchShare best;
    // Most optima are at the largest batch that fits without recomputing; the others are at the ends of the range.
    std::int64_t resident = least;
    for (std::int64_t above = problem.most + 1; above - resident > 1;) {
      const std::int64_t middle = resident + (above - resident) / 2;
      (problem.room(static_cast<double>(middle), 0.0) <= problem.room_budget ? resident : above) = middle;
    }
    std::array<std::int64_t, evenly + 2> starts{resident, std::min(resident + 1, problem.most)};
    for (std::int64_t i = 0; i < evenly; ++i)
      starts[static_cast<std::size_t>(i + 2)] = least + (problem.most - least) * i / (evenly - 1);
    for (const std::int64_t start : starts) {
      take(problem, start, best);
      const double found = search.from(static_cast<double>(start), evaluations);
      take(problem, static_cast<std::int64_t>(std::floor(found)), best);
      take(problem, static_cast<std::int64_t>(std::ceil(found)), best);
    }
    // A kink between whole batches (memory or the link starts to bind) can end a search one or two short.
    for (std::int64_t centre = -1; best.feasible && centre != best.requests;) {
      centre = best.requests;
      for (std::int64_t by = -neighbours; by <= neighbours; ++by) take(problem, centre + by, best);
    }
    return best;
  }

 private:
  template <class P>
  static void take(const P& problem, std::int64_t requests, BatchShare& best) {
    const std::int64_t least = std::max<std::int64_t>(1, problem.least);
    const BatchShare one = at_least_share(problem, std::clamp<std::int64_t>(requests, least, problem.most));
    if (one.rate() > best.rate()) best = one;
  }

  /// Variables are scaled to [0, 1], values to about 1.
  template <class P>
  struct Search {
    const P& problem;
    double least;
    double most;
    double scale = 1.0;            ///< of the objective
    nlopt_opt_s* solver = nullptr; ///< the running solver

    [[nodiscard]] double batch(double x) const { return least + std::clamp(x, 0.0, 1.0) * (most - least); }
    [[nodiscard]] double share(double x) const { return std::clamp(x, 0.0, 1.0) * problem.most_share; }

    /// `value(x)` with its gradient by differences within the bounds. SLSQP asks for the value at NaN if its own
    /// subproblem is singular (nearly parallel constraint gradients): the search then ends.
    template <class Value>
    double with_gradient(const double* x, double* gradient, Value&& value) const {
      if (!std::isfinite(x[0]) || !std::isfinite(x[1])) {
        nlopt_force_stop(solver);
        if (gradient != nullptr) std::fill_n(gradient, 2, 0.0);
        return HUGE_VAL;
      }
      const double here = value(x[0], x[1]);
      if (gradient == nullptr) return here;
      const std::array<double, 2> step{1.0 / (most - least), 1e-3};
      for (std::size_t i = 0; i < 2; ++i) {
        std::array<double, 2> moved{x[0], x[1]};
        const double by = moved[i] + step[i] <= 1.0 ? step[i] : -step[i];
        moved[i] += by;
        gradient[i] = (value(moved[0], moved[1]) - here) / by;
      }
      return here;
    }
    static double objective(unsigned, const double* x, double* gradient, void* self) {
      const Search& s = *static_cast<const Search*>(self);
      return s.with_gradient(x, gradient, [&s](double b, double r) {
        return s.problem.seconds(s.batch(b), s.share(r)) / s.batch(b) * s.scale;
      });
    }
    static double late(unsigned, const double* x, double* gradient, void* self) {
      const Search& s = *static_cast<const Search*>(self);
      return s.with_gradient(x, gradient, [&s](double b, double r) {
        const double limit_s = s.problem.limit_s(s.batch(b));
        return std::isinf(limit_s) ? -1.0 : s.problem.seconds(s.batch(b), s.share(r)) / std::max(limit_s, 1e-9) - 1.0;
      });
    }
    static double crowded(unsigned, const double* x, double* gradient, void* self) {
      const Search& s = *static_cast<const Search*>(self);
      return s.with_gradient(x, gradient, [&s](double b, double r) {
        return s.problem.room(s.batch(b), s.share(r)) / std::max(1.0, s.problem.room_budget) - 1.0;
      });
    }
    static double host_crowded(unsigned, const double* x, double* gradient, void* self) {
      const Search& s = *static_cast<const Search*>(self);
      return s.with_gradient(x, gradient, [&s](double b, double r) {
        return s.problem.host_room(s.batch(b), s.share(r)) / std::max(1.0, s.problem.host_budget) - 1.0;
      });
    }

    /// The batch at which a search from `requests` ends. If NLopt stops early (rounding, evaluations used up), its best
    /// point is still a candidate: the problem judges candidates, not the solver.
    double from(double requests, int most_evaluations) {
      const double start_share = std::min(least_share(problem, requests), problem.most_share);
      std::array<double, 2> x{(requests - least) / (most - least),
                              problem.most_share > 0 ? start_share / problem.most_share : 0.0};
      scale = requests / std::max(1e-12, problem.seconds(requests, start_share));
      const std::unique_ptr<nlopt_opt_s, decltype(&nlopt_destroy)> owned(nlopt_create(NLOPT_LD_SLSQP, 2),
                                                                         nlopt_destroy);
      if (owned == nullptr) return requests;
      solver = owned.get();
      nlopt_set_lower_bounds1(solver, 0.0);
      nlopt_set_upper_bounds1(solver, 1.0);
      nlopt_set_min_objective(solver, objective, this);
      nlopt_add_inequality_constraint(solver, late, this, 1e-6);
      nlopt_add_inequality_constraint(solver, crowded, this, 1e-6);
      nlopt_add_inequality_constraint(solver, host_crowded, this, 1e-6);
      nlopt_set_ftol_rel(solver, 1e-5);
      nlopt_set_xtol_rel(solver, 1e-5);
      nlopt_set_maxeval(solver, most_evaluations);
      double value = 0;
      (void)nlopt_optimize(solver, x.data(), &value);
      return std::isfinite(x[0]) ? batch(x[0]) : requests;
    }
  };
};

} // namespace sluice
