// SPDX-License-Identifier: Apache-2.0
// Credits: each request takes part in its share of the iterations (SCORPIO).
#pragma once

#include "sluice/core/ids.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

/// Each iteration gives a request its share of credit, and a request with a whole one takes part and pays it (Tang et
/// al., arXiv 2505.23022, section 3.4).
class Credits {
 public:
  /// A new request in `slot` has none.
  void start(Slot slot) {
    if (index(slot) >= credit_.size()) credit_.resize(index(slot) + 1);
    credit_[index(slot)] = 0;
  }
  /// A proposal for the engine's `step` begins. If it is the last one's, that one was discarded, and costs nothing.
  void begin(std::int64_t step) {
    ran_ = step != step_;
    step_ = step;
  }
  /// Whether the request takes part in this step; ask once in a proposal.
  [[nodiscard]] bool takes_part(Slot slot, double share) {
    double& credit = credit_[index(slot)];
    if (ran_) {
      if (is_whole(credit)) credit -= 1; // it took part in the last iteration
      credit = std::min(credit + share, 2.0);
    }
    return is_whole(credit);
  }

 private:
  static bool is_whole(double credit) { return credit >= 1 - 1e-9; }

  std::vector<double> credit_; ///< by slot
  std::int64_t step_ = -1;     ///< of the last proposal
  bool ran_ = false;
};

} // namespace sluice
