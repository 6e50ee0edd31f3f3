// SPDX-License-Identifier: Apache-2.0
// placement_milp: a planning instance as a mixed-integer program (stated in docs/planner.md), solved by GLPK.
#pragma once

#include "sluice/state/plan/instance.hpp"

#include <glpk.h>

#include <chrono>
#include <cmath>
#include <cstddef>
#include <vector>

namespace sluice::bench {

struct MilpResult {
  bool solved = false; ///< to optimality, within the time limit
  double step_s = 0;
  double seconds = 0;
};

/// Minimises a cold iteration under `DeadlinePool`, link latency 0, over `candidates`. Times are scaled to the mean
/// layer time and blocks to the sum over requests, otherwise GLPK's tolerances would exceed the differences between
/// plans.
inline MilpResult solve_milp(const Instance& instance, const std::vector<LayerSet>& candidates, int limit_ms) {
  const int layers = instance.layers();
  const int requests = static_cast<int>(instance.requests.size());
  const int choices = static_cast<int>(candidates.size());
  double time_unit = 0;
  for (const double seconds : instance.layer_compute_s) time_unit += seconds / layers;
  double block_unit = 0;
  for (int r = 0; r < requests; ++r) block_unit += instance.blocks_at(static_cast<std::size_t>(r), 0);
  const double per_block = block_unit / instance.link_blocks_per_s / time_unit;
  const double need = (instance.total_blocks() - static_cast<double>(instance.device_blocks.count())) / block_unit;
  const auto compute = [&](int l) { return instance.layer_compute_s[static_cast<std::size_t>(l)] / time_unit; };

  glp_prob* problem = glp_create_prob();
  glp_set_obj_dir(problem, GLP_MIN);
  // Columns: x[r][k], then start[l], then moved[l] (blocks of layers 1..l).
  const auto x = [&](int r, int k) { return 1 + r * choices + k; };
  const auto start = [&](int l) { return 1 + requests * choices + l; };
  const auto moved = [&](int l) { return 1 + requests * choices + layers + l; };
  glp_add_cols(problem, requests * choices + 2 * layers);
  for (int column = 1; column < start(0); ++column) glp_set_col_kind(problem, column, GLP_BV);
  for (int l = 0; l < layers; ++l) {
    glp_set_col_bnds(problem, start(l), GLP_LO, instance.before_s / time_unit, 0);
    glp_set_col_bnds(problem, moved(l), GLP_LO, 0, 0);
  }
  glp_set_obj_coef(problem, start(layers - 1), 1);

  std::vector<int> columns;
  std::vector<double> values;
  const auto term = [&](int column, double value) {
    columns.push_back(column);
    values.push_back(value);
  };
  const auto row = [&](int kind, double bound) {
    const int index = glp_add_rows(problem, 1);
    glp_set_row_bnds(problem, index, kind, bound, bound);
    columns.insert(columns.begin(), 0); // GLPK counts from 1
    values.insert(values.begin(), 0);
    glp_set_mat_row(problem, index, static_cast<int>(columns.size()) - 1, columns.data(), values.data());
    columns.clear();
    values.clear();
  };
  for (int r = 0; r < requests; ++r) { // one candidate per request
    for (int k = 0; k < choices; ++k) term(x(r, k), 1);
    row(GLP_FX, 1);
  }
  for (int l = 0; l < layers; ++l) {
    term(moved(l), 1); // moved[l] = moved[l-1] + the blocks that layer l offloads
    if (l > 0) term(moved(l - 1), -1);
    for (int r = 0; r < requests; ++r)
      for (int k = 0; k < choices; ++k)
        if (candidates[static_cast<std::size_t>(k)].contains(l))
          term(x(r, k), -instance.blocks_at(static_cast<std::size_t>(r), 0) / block_unit);
    row(GLP_FX, 0);
    term(start(l), 1); // the link
    term(moved(l), -per_block);
    row(GLP_LO, 0);
    if (l > 0) { // the layer before
      term(start(l), 1);
      term(start(l - 1), -1);
      row(GLP_LO, compute(l - 1));
    }
    if (l == layers - 1) { // the pool, moved[L] - need, holds every layer
      if (layers > 1) term(moved(l - 1), 1);
    } else {
      term(moved(l), -1);
      if (l > 0) term(moved(l - 1), 1);
      term(moved(layers - 1), 1);
    }
    row(GLP_LO, need);
    for (int j = 0; j < l; ++j) { // layer j's memory is free
      term(start(l), 1);
      term(start(j), -1);
      if (l < layers - 1) {
        term(moved(l), -per_block);
        term(moved(layers - 1), per_block);
      }
      if (j > 0) term(moved(j - 1), per_block);
      row(GLP_LO, compute(j) + need * per_block);
    }
  }

  glp_term_out(GLP_OFF);
  glp_iocp options;
  glp_init_iocp(&options);
  options.presolve = GLP_ON;
  options.gmi_cuts = GLP_ON;
  options.mir_cuts = GLP_ON;
  options.tm_lim = limit_ms;
  const auto begin = std::chrono::steady_clock::now();
  const int status = glp_intopt(problem, &options);
  MilpResult result;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  result.solved = status == 0 && glp_mip_status(problem) == GLP_OPT;
  result.step_s = (glp_mip_obj_val(problem) + compute(layers - 1)) * time_unit + instance.after_s;
  glp_delete_prob(problem);
  return result;
}

} // namespace sluice::bench
