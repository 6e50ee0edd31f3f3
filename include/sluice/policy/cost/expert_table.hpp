// SPDX-License-Identifier: Apache-2.0
// ExpertTable: measured times of a mixture of experts, by tokens and by the experts that they touch.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/policy/cost/measured_grid.hpp"

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

namespace sluice {

/// The experts of one device, and how many of all each token chooses.
struct ExpertShare {
  int all = 0;    ///< of the layer
  int here = 0;   ///< on this device: all, or a share of them (expert parallelism)
  int chosen = 0; ///< by each token, of all

  /// Experts on this device that `tokens` tokens touch on average if each chooses uniformly: a token leaves an expert
  /// out with probability 1 - chosen/all.
  [[nodiscard]] double touched(double tokens) const {
    if (tokens <= 0) return 0;
    return here * (1.0 - std::pow(1.0 - static_cast<double>(chosen) / all, tokens));
  }
};

/// Seconds of one layer's experts (LLMServingSim 2.0's `moe.csv`): tokens that each choose `chosen` experts, which
/// touch some number of experts together. Linear between measured points; the time depends mostly on the number of
/// touched experts, whose weights are read.
///
/// A router that prefers some experts touches fewer of them, so uniform routing is the slowest for few tokens. No
/// recording says how its server's router chose.
class ExpertTable {
 public:
  struct Row {
    std::int64_t tokens = 0;
    MeasuredLine seconds; ///< by touched experts
  };

  /// `rows` ascend; there is at least one.
  ExpertTable(ExpertShare experts, std::vector<Row> rows) : experts_(experts), rows_(std::move(rows)) {
    SLUICE_ASSERT(!rows_.empty() && experts.chosen >= 1 && experts.here >= 1 && experts.here <= experts.all &&
                      experts.chosen <= experts.all,
                  "measured rows, and experts of which tokens choose some");
  }

  /// `tokens` of all devices that share the experts. This device computes its share of their choices, as many as
  /// tokens * here / all tokens would make.
  [[nodiscard]] double seconds(double tokens) const {
    if (tokens <= 0) return 0;
    return at(tokens * experts_.here / experts_.all, experts_.touched(tokens));
  }
  [[nodiscard]] double at(double tokens, double touched) const {
    const detail::Bracket between =
        detail::bracket(rows_, tokens, [](const Row& row) { return static_cast<double>(row.tokens); });
    return detail::blend(between, [&](std::size_t i) { return rows_[i].seconds.at(touched); });
  }
  [[nodiscard]] const ExpertShare& experts() const { return experts_; }

 private:
  ExpertShare experts_;
  std::vector<Row> rows_;
};

} // namespace sluice
