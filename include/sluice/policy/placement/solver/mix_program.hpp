// SPDX-License-Identifier: Apache-2.0
// Lower bounds of PoolSearch: MixProgram, a small linear program, and PoolPaths, the longest paths of the pipeline.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/policy/transfer/pipeline.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace sluice::detail {

// Reductions in four lanes: the compiler may not reorder them into vector instructions itself.

/// Sum of a[i] * b[i]. Floating-point sums depend on order; four parallel sums are an order that vectorises and is the
/// same on every machine (-ffast-math was rejected: bounds are compared with costs).
inline double dot(const double* a, const double* b, std::size_t size) {
  double lane[4] = {0, 0, 0, 0};
  std::size_t i = 0;
  for (; i + 4 <= size; i += 4)
    for (std::size_t j = 0; j < 4; ++j) lane[j] += a[i + j] * b[i + j];
  for (; i < size; ++i) lane[0] += a[i] * b[i];
  return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}

/// The largest of `size` numbers, at least 0.
inline double largest(const double* a, std::size_t size) {
  double lane[4] = {0, 0, 0, 0};
  std::size_t i = 0;
  for (; i + 4 <= size; i += 4)
    for (std::size_t j = 0; j < 4; ++j) lane[j] = std::max(lane[j], a[i + j]);
  for (; i < size; ++i) lane[0] = std::max(lane[0], a[i]);
  return std::max(std::max(lane[0], lane[1]), std::max(lane[2], lane[3]));
}

// MixProgram: the small linear program behind the planner's bound, solved by column generation.

/// min over mixes p of `choices` columns (p >= 0, sum 1) of max over rows i of sum_k value[i][k] * p[k].
///
/// This is the value of a matrix game. The other player mixes rows: any mix w of rows proves the lower bound min_k
/// sum_i w[i] * value[i][k], in spite of rounding. Rows may be added during the solution. The revised simplex method
/// works on the row player's program (min sum u, u * value >= 1, u >= 0), in which a row is a column: the basis stays
/// `choices` wide, and a new row costs one pivot, O(choices^2).
///
/// Row 0 must be positive everywhere; it makes all values positive.
class MixProgram {
 public:
  /// Restarts with `choices` columns; `first` is row 0.
  void begin(std::size_t choices, std::span<const double> first) {
    choices_ = choices;
    basis_.assign(choices, -1);
    inverse_.assign(choices * choices, 0);
    amount_.assign(choices, 0);
    price_.assign(choices, 0);
    direction_.assign(choices, 0);
    // Basis: row 0 covers its least column exactly; surplus variables absorb the excess of the others.
    std::size_t least = 0;
    for (std::size_t k = 1; k < choices; ++k)
      if (first[k] < first[least]) least = k;
    SLUICE_ASSERT(first[least] > 0, "a first row above 0");
    const double share = 1 / first[least];
    for (std::size_t k = 0; k < choices; ++k) {
      if (k == least) continue;
      at(k, least) = first[k] * share;
      at(k, k) = -1;
      basis_[k] = surplus(k);
      amount_[k] = first[k] * share - 1;
    }
    at(least, least) = share;
    basis_[least] = 0;
    amount_[least] = share;
    update_prices();
  }

  /// The value of the rows entered so far. It falls for the column player and rises for the row player with every
  /// pivot; in every state it is a proven bound.
  [[nodiscard]] double value() const {
    double sum = 0;
    for (std::size_t i = 0; i < choices_; ++i)
      if (basis_[i] >= 0) sum += amount_[i];
    return 1 / sum;
  }

  /// Enters surplus columns until the prices are a mix (up to scale). False if that does not converge.
  bool enter_surpluses() {
    for (int guard = 0; guard < 8 * static_cast<int>(choices_) + 64; ++guard) {
      std::size_t worst = 0;
      for (std::size_t k = 1; k < choices_; ++k)
        if (price_[k] < price_[worst]) worst = k;
      if (price_[worst] >= -1e-11 * price_scale_) return true;
      for (std::size_t i = 0; i < choices_; ++i) direction_[i] = -at(i, worst);
      if (!pivot(surplus(worst))) return false;
    }
    return false;
  }

  /// Writes the column player's best mix against the rows entered so far into `mix`, which has `choices` entries. Call
  /// `enter_surpluses` first.
  void mix(std::span<double> mix) const {
    double sum = 0;
    for (std::size_t k = 0; k < choices_; ++k) sum += std::max(0.0, price_[k]);
    for (std::size_t k = 0; k < choices_; ++k) mix[k] = std::max(0.0, price_[k]) / sum;
  }

  /// How much row `values` would improve the bound: its value at the mix, relative to the present value, minus 1.
  [[nodiscard]] double gain(std::span<const double> values) const {
    return dot(price_.data(), values.data(), choices_) - 1;
  }

  /// Enters row number `row` with these values. False if it does not fit numerically.
  bool enter(int row, std::span<const double> values) {
    for (std::size_t i = 0; i < choices_; ++i) direction_[i] = dot(&inverse_[i * choices_], values.data(), choices_);
    return pivot(row);
  }

  /// Calls `visit(row, weight)` for the rows of the bound's mix; the weights sum to 1.
  template <class Visit>
  void for_each_weight(Visit&& visit) const {
    double sum = 0;
    for (std::size_t i = 0; i < choices_; ++i)
      if (basis_[i] >= 0 && amount_[i] > 0) sum += amount_[i];
    for (std::size_t i = 0; i < choices_; ++i)
      if (basis_[i] >= 0 && amount_[i] > 0) visit(basis_[i], amount_[i] / sum);
  }

 private:
  static int surplus(std::size_t k) { return -2 - static_cast<int>(k); }
  double& at(std::size_t i, std::size_t k) { return inverse_[i * choices_ + k]; }

  void update_prices() {
    std::fill(price_.begin(), price_.end(), 0.0);
    for (std::size_t i = 0; i < choices_; ++i) {
      if (basis_[i] < 0) continue; // only rows have a cost
      const double* line = &inverse_[i * choices_];
      for (std::size_t k = 0; k < choices_; ++k) price_[k] += line[k];
    }
    price_scale_ = 0;
    for (const double price : price_) price_scale_ = std::max(price_scale_, price);
  }

  bool pivot(int entering) {
    std::size_t leaving = choices_;
    double ratio = std::numeric_limits<double>::infinity();
    double scale = 0;
    for (const double d : direction_) scale = std::max(scale, d);
    for (std::size_t i = 0; i < choices_; ++i) {
      if (direction_[i] <= 1e-9 * scale) continue;
      const double candidate = std::max(0.0, amount_[i]) / direction_[i];
      // For equal ratios the largest pivot: numerically more stable, and deterministic.
      if (leaving == choices_ || candidate < ratio - 1e-15 ||
          (candidate <= ratio && direction_[i] > direction_[leaving])) {
        ratio = candidate;
        leaving = i;
      }
    }
    if (leaving == choices_) return false;
    const double inverse_pivot = 1 / direction_[leaving];
    double* row = &inverse_[leaving * choices_];
    for (std::size_t k = 0; k < choices_; ++k) row[k] *= inverse_pivot;
    for (std::size_t i = 0; i < choices_; ++i) {
      if (i == leaving || direction_[i] == 0) continue;
      const double factor = direction_[i];
      double* line = &inverse_[i * choices_];
      for (std::size_t k = 0; k < choices_; ++k) line[k] -= factor * row[k];
      amount_[i] = std::max(0.0, amount_[i] - factor * ratio);
    }
    amount_[leaving] = ratio;
    basis_[leaving] = entering;
    update_prices();
    return true;
  }

  std::size_t choices_ = 0;
  std::vector<int> basis_;        ///< a row number, or a surplus
  std::vector<double> inverse_;   ///< of the basis, in rows of `choices_`
  std::vector<double> amount_;    ///< of each basic variable
  std::vector<double> price_;     ///< the column player's mix, unscaled
  std::vector<double> direction_; ///< inverse * entering column
  double price_scale_ = 0;
};

// PoolPaths: the longest paths of the pooled pipeline, each a linear lower bound on every placement's time.

/// step time >= constant + sum over layers of slope[l] * load[l], for every placement whose pool holds its worst layer.
struct PathCut {
  double constant = 0;
  LayerArray slope;
};

/// Under `DeadlinePool`, layer l starts at the latest of: the end of layer l-1; C_l / rate after the start; and end(j)
/// + (C_l - C_{j-1} - room) / rate for every j < l (trivially true if the blocks fit the room). With room = X - need,
/// where X is the sum of all loads, each of these is linear in the loads. So the step time is the longest path through
/// a graph whose arcs are linear in the loads: it is convex in them, and every single path is a lower bound.
///
/// `need_blocks`: the blocks that must at least be in flight: all blocks, resident or not, less the budget. Link
/// latency is left out: it only adds time.
class PoolPaths {
 public:
  PoolPaths(std::span<const double> compute_s, double before_s, double after_s, double seconds_per_block,
            double need_blocks)
      : compute_s_(compute_s),
        before_s_(before_s),
        after_s_(after_s),
        seconds_per_block_(seconds_per_block),
        need_blocks_(need_blocks) {
    for (const double seconds : compute_s) compute_total_s_ += seconds;
  }

  [[nodiscard]] double compute_total_s() const { return before_s_ + compute_total_s_ + after_s_; }

  /// The path of the compute alone.
  [[nodiscard]] PathCut compute_path() const {
    PathCut cut;
    cut.constant = compute_total_s();
    cut.slope.fill(0);
    return cut;
  }

  /// Writes the longest path at `loads` into `cut`; if the pool would not hold the worst layer, writes that constraint
  /// as a penalty that no feasible placement pays. Returns its value at `loads`.
  double longest(std::span<const double> loads, PathCut& cut) const {
    const std::size_t layers = loads.size();
    double total = 0;
    std::size_t worst = 0;
    for (std::size_t l = 0; l < layers; ++l) {
      total += loads[l];
      if (loads[l] > loads[worst]) worst = l;
    }
    const double room = total - need_blocks_;
    if (loads[worst] > room * (1 + 1e-9) + 1e-9) {
      const double penalty = 64 * seconds_per_block_;
      cut.constant = compute_total_s() + penalty * need_blocks_;
      std::fill_n(cut.slope.begin(), layers, -penalty);
      cut.slope[worst] = 0;
      return cut.constant + penalty * (loads[worst] - total);
    }
    return walk(loads, room, cut);
  }

 private:
  static constexpr int from_compute = -2;
  static constexpr int from_link = -1;

  double walk(std::span<const double> loads, double room, PathCut& cut) const {
    const std::size_t layers = loads.size();
    LayerArray freed_at;
    std::array<int, max_layers>
        before; // what each layer's start waited for: a layer whose room it needs, or one of the above
    double moved = 0;
    double link = 0;
    int link_from = from_link;
    double freed = room;
    std::size_t next = 0;
    double time = before_s_;
    for (std::size_t l = 0; l < layers; ++l) {
      before[l] = from_compute;
      if (loads[l] > 0) {
        moved += loads[l];
        for (; freed < moved && next < l; ++next) {
          if (freed_at[next] > link) {
            link = freed_at[next];
            link_from = static_cast<int>(next);
          }
          freed += loads[next];
        }
        const double arrival = link + moved * seconds_per_block_;
        if (arrival > time) {
          time = arrival;
          before[l] = link_from;
        }
      }
      time += compute_s_[l];
      freed_at[l] = time - (room + moved - loads[l]) * seconds_per_block_;
    }
    trace(before, layers, cut);
    return time + after_s_;
  }

  void trace(const std::array<int, max_layers>& before, std::size_t layers, PathCut& cut) const {
    std::array<int, max_layers + 1>
        change{}; // in the number of segments that contain a layer, from one layer to the next
    int everywhere = 0;
    std::size_t l = layers - 1;
    cut.constant = after_s_ + compute_s_[l];
    for (;;) {
      if (before[l] == from_compute) {
        if (l == 0) {
          cut.constant += before_s_;
          break;
        }
        --l;
        cut.constant += compute_s_[l];
      } else if (before[l] == from_link) {
        ++change[0];
        --change[l + 1];
        break;
      } else {
        const auto j = static_cast<std::size_t>(before[l]);
        cut.constant += compute_s_[j] + need_blocks_ * seconds_per_block_;
        ++change[j];
        --change[l + 1];
        --everywhere;
        l = j;
      }
    }
    int segments = everywhere;
    for (std::size_t i = 0; i < layers; ++i) {
      segments += change[i];
      cut.slope[i] = segments * seconds_per_block_;
    }
  }

  std::span<const double> compute_s_;
  double before_s_;
  double after_s_;
  double seconds_per_block_;
  double need_blocks_;
  double compute_total_s_ = 0;
};

} // namespace sluice::detail
