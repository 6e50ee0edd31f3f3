// SPDX-License-Identifier: Apache-2.0
// Turns figures into a ranking, a Pareto front, and the effect of each choice of a policy.
#include "explore/exploration.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace explored {

using namespace sluice;

namespace {

/// The attainment over the whole workload: a livelocked engine has none, whatever it served before.
double attained_by(const Row& row) {
  return row.livelock.empty() ? row.metrics.slo_attainment : std::numeric_limits<double>::quiet_NaN();
}
/// An attainment that does not exist ranks after all that do.
double attainment(const Row& row) { return std::isnan(attained_by(row)) ? -1 : attained_by(row); }
double or_none(double value) { return std::isnan(value) ? -1 : value; }
double or_last(double value) { return std::isnan(value) ? std::numeric_limits<double>::infinity() : value; }

/// The figures that users see. Two engines with equal figures behaved the same, whatever their planners' effort.
auto figures(const Row& row) {
  const Metrics& m = row.metrics;
  return std::tuple{attainment(row),           or_none(m.tbt_attainment),
                    or_last(m.mean_e2e_all_s), or_last(m.longest_gap_all_s),
                    or_last(m.mean_ttft_s),    or_last(m.p99_tbt_s),
                    m.tokens_delivered,        m.tokens_on_time,
                    m.deadlines_missed,        m.refused,
                    m.times_preempted};
}

/// Orders by SLO attainment, goodput and TBT attainment as sluice-compare does (report/order.hpp), then by the mean E2E
/// of all requests, so that refusing gains nothing; if all are equal, systems first, then by number; the control last.
bool ranks_before(const Row& a, const Row& b) {
  const auto key = [](const Row& row) {
    const Metrics& m = row.metrics;
    return std::tuple{row.control,
                      -attainment(row),
                      -or_none(m.goodput_requests_per_s),
                      -or_none(m.tbt_attainment),
                      or_last(m.mean_e2e_all_s),
                      or_last(m.longest_gap_all_s)};
  };
  if (key(a) != key(b)) return key(a) < key(b);
  if (figures(a) != figures(b)) return figures(a) < figures(b);
  return std::tuple{!a.listed, a.number} < std::tuple{!b.listed, b.number};
}

/// Marks the Pareto front of tokens per second and SLO attainment. Controls and oracles are not on it.
void mark_front(std::vector<Row>& rows) {
  const auto competes = [](const Row& row) { return !row.control && !row.oracle; };
  const auto dominates = [](const Metrics& a, const Metrics& b) {
    return a.throughput_tokens_per_s >= b.throughput_tokens_per_s && a.slo_attainment >= b.slo_attainment &&
           (a.throughput_tokens_per_s > b.throughput_tokens_per_s || a.slo_attainment > b.slo_attainment);
  };
  for (Row& row : rows)
    row.pareto =
        competes(row) && !std::isnan(attained_by(row)) && std::none_of(rows.begin(), rows.end(), [&](const Row& other) {
          return competes(other) && other.livelock.empty() && dominates(other.metrics, row.metrics);
        });
}

/// Every combination's attainment, by number; NaN if its parts conflict. For one seed, by its index, or the mean of
/// all.
std::vector<double> attainments(const Exploration& found, std::optional<std::size_t> seed = std::nullopt) {
  const double absent = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> of_engine(found.space.combinations.size(), absent);
  for (const Row& row : found.rows)
    if (!row.listed)
      of_engine[row.number] = seed && row.livelock.empty() ? row.per_seed[*seed].slo_attainment : attained_by(row);
  std::vector<double> all;
  for (const Combination& combination : found.space.combinations)
    all.push_back(combination.works ? of_engine[combination.original] : absent);
  return all;
}

RoleMarginals marginals_of(const Space& space, std::size_t role, const std::vector<double>& attained) {
  const std::size_t models = space.roles[role].models.size(), stride = space.stride_of(role);
  RoleMarginals result{.role = role, .spread = 0, .models = std::vector<Marginal>(models)};
  std::vector<double> sums(models, 0);
  std::size_t contexts = 0;
  for (std::size_t first = 0; first < attained.size(); ++first) {
    if (space.model_of(first, role) != 0) continue;
    double least = std::numeric_limits<double>::infinity(), most = -least;
    std::size_t there = 0;
    for (std::size_t m = 0; m < models; ++m) {
      const double value = attained[first + m * stride];
      if (std::isnan(value)) continue;
      Marginal& marginal = result.models[m];
      ++there;
      ++marginal.combinations;
      sums[m] += value;
      if (!(marginal.best >= value)) marginal.best = value;
      least = std::min(least, value);
      most = std::max(most, value);
      if (m == 0 || std::isnan(attained[first])) continue;
      ++marginal.pairs;
      marginal.gain += value - attained[first];
      if (value > attained[first]) ++marginal.better;
      if (value < attained[first]) ++marginal.worse;
    }
    if (there < 2) continue;
    ++contexts;
    result.spread += most - least;
  }
  if (contexts > 0) result.spread /= static_cast<double>(contexts);
  for (std::size_t m = 0; m < models; ++m) {
    Marginal& marginal = result.models[m];
    if (marginal.combinations > 0) marginal.mean = sums[m] / static_cast<double>(marginal.combinations);
    if (marginal.pairs > 0) marginal.gain /= static_cast<double>(marginal.pairs);
  }
  return result;
}

/// Comparisons that need several seeds: every row with the best published system, and every gain with its interval.
void judge_by_seeds(Exploration& found) {
  constexpr std::size_t least_pairs = judged_figures[judged_figure("slo_attainment")].least_pairs;
  const Row* reference = found.best(true);
  const auto values = [](const Row& row) {
    std::vector<double> all;
    for (const Metrics& metrics : row.per_seed) all.push_back(metrics.slo_attainment);
    return all;
  };
  if (reference != nullptr && reference->livelock.empty()) {
    found.reference = reference->name;
    const std::vector<double> of_reference = values(*reference);
    for (Row& row : found.rows)
      row.against = judged_pairs(values(row), of_reference, found.workload.windows, least_pairs);
  }
  const std::size_t seeds = found.workload.seeds.size();
  std::vector<std::vector<double>> of_each;
  for (std::size_t seed = 0; seed < seeds; ++seed) of_each.push_back(attainments(found, seed));
  for (RoleMarginals& role : found.marginals) {
    std::vector<std::vector<double>> gains(role.models.size());
    for (std::size_t seed = 0; seed < seeds; ++seed) {
      const RoleMarginals of_seed = marginals_of(found.space, role.role, of_each[seed]);
      for (std::size_t m = 0; m < gains.size(); ++m)
        if (of_seed.models[m].pairs > 0) gains[m].push_back(of_seed.models[m].gain);
    }
    for (std::size_t m = 0; m < gains.size(); ++m)
      role.models[m].gain_of_seeds = // a difference in pairs, as of two rows
          judged_pairs(gains[m], std::vector<double>(gains[m].size(), 0.0), found.workload.windows, least_pairs)
              .difference;
  }
}

} // namespace

void analyse(Exploration& found) {
  std::sort(found.rows.begin(), found.rows.end(), ranks_before);
  for (std::size_t i = 0; i < found.rows.size(); ++i) {
    Row& row = found.rows[i];
    row.rank = row.control ? 0 : i + 1;
    if (i == 0 || row.control || figures(found.rows[i - 1]) != figures(row)) continue;
    row.same_as = found.rows[i - 1].same_as.value_or(i - 1);
    row.rank = found.rows[i - 1].rank;
  }
  mark_front(found.rows);
  std::vector<Row*> rows;
  for (Row& row : found.rows) rows.push_back(&row);
  mark_short_horizon(rows);
  const std::vector<double> attained = attainments(found);
  found.marginals.clear();
  for (std::size_t role = 0; role < found.space.roles.size(); ++role)
    found.marginals.push_back(marginals_of(found.space, role, attained));
  if (found.of_seeds()) judge_by_seeds(found);
  std::stable_sort(found.marginals.begin(), found.marginals.end(),
                   [](const RoleMarginals& a, const RoleMarginals& b) { return a.spread > b.spread; });
}

const Row* Exploration::best(bool published) const {
  for (const Row& row : rows)
    if (row.listed == published && !row.own && !row.control && !row.oracle) return &row;
  return nullptr;
}

std::vector<const Row*> Exploration::beats_published() const {
  std::vector<const Row*> found;
  const Row* best_published = best(true);
  for (const Row& row : rows) {
    if (best_published == nullptr || !(attainment(row) > attainment(*best_published))) break;
    if (!row.listed && !row.same_as) found.push_back(&row);
  }
  return found;
}

} // namespace explored
