// SPDX-License-Identifier: Apache-2.0
// MixProgram: the small linear program behind the planner's bound, solved by column generation.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/policy/placement/solver/lanes.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace sluice::detail {

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

} // namespace sluice::detail
