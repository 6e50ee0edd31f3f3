// SPDX-License-Identifier: Apache-2.0
// OutputLengths: how long the outputs of past requests were. A server knows nothing else about lengths in advance.
#pragma once

#include "sluice/core/units.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

/// The output lengths of the last `window` requests that ended with all their tokens. The engine has one for all its
/// policies (`View::lengths`). Rejected: each policy learns by itself from the requests that its views no longer show.
/// It then learns again what another policy knows, and cannot tell an end from a cancellation.
///
/// After Gong et al., "Past-Future Scheduler for LLM Serving under SLA Guarantees" (ASPLOS 2025): a request that has
/// `generated` tokens is like the past ones whose outputs were longer.
class OutputLengths {
 public:
  static constexpr std::size_t window = 1000; ///< LightLLM's

  /// A request ended with this output. The oldest of `window` lengths is forgotten.
  void learn(Tokens output) {
    if (past_.size() == window) {
      sorted_.erase(std::lower_bound(sorted_.begin(), sorted_.end(), past_[oldest_]));
      past_[oldest_] = output.count();
      oldest_ = (oldest_ + 1) % window;
    } else {
      past_.push_back(output.count());
    }
    sorted_.insert(std::upper_bound(sorted_.begin(), sorted_.end(), output.count()), output.count());
  }

  /// How many lengths are known.
  [[nodiscard]] std::size_t known() const { return sorted_.size(); }
  /// The known lengths above `generated`, the shortest first.
  [[nodiscard]] std::span<const std::int64_t> longer_than(Tokens generated) const {
    return {std::upper_bound(sorted_.begin(), sorted_.end(), generated.count()), sorted_.end()};
  }
  /// Tokens still to come after `generated`, at least 1, if this request's length is the `quantile` (in [0, 1]) of the
  /// longer ones; `otherwise` if fewer than `enough` are known, or none is longer.
  [[nodiscard]] double remaining(Tokens generated, double quantile, std::size_t enough, double otherwise) const {
    const std::span<const std::int64_t> longer = longer_than(generated);
    if (known() < enough || longer.empty()) return otherwise;
    const auto at = static_cast<std::size_t>(quantile * static_cast<double>(longer.size()));
    return static_cast<double>(longer[std::min(at, longer.size() - 1)] - generated.count());
  }

 private:
  std::vector<std::int64_t> past_;   ///< in the order of their ends, from `oldest_` around
  std::vector<std::int64_t> sorted_; ///< the same, by length
  std::size_t oldest_ = 0;
};

} // namespace sluice
