// SPDX-License-Identifier: Apache-2.0
// HostedChoice: how many decodes the host attends in an iteration, for the most tokens per second.
#pragma once

#include "sluice/policy/transfer/estimate.hpp"
#include "sluice/policy/transfer/hosted_work.hpp"
#include "sluice/state/view/view.hpp"

#include <cstddef>
#include <span>

namespace sluice {

/// An iteration of the device's own `work`, and candidates that the host could attend beside it, in order.
struct HostedChoice {
  const View& view;
  const Estimate& estimate;
  Work work; ///< of the device

  /// Tokens generated per second if the host attends these contexts.
  [[nodiscard]] double rate(std::span<const Tokens> contexts) const {
    Work with = work;
    with.hosted = hosted_work(view.geometry, contexts, view.limits.block_tokens);
    with.samples += static_cast<std::int64_t>(contexts.size());
    const double seconds = with.tokens().count() > 0 || !contexts.empty() ? estimate.step(with).count() : 0.0;
    return seconds > 0 ? static_cast<double>(with.samples) / seconds : 0.0;
  }
  /// How many of the candidates, the first ones, and at least `least`, give the most tokens per second; of equal
  /// numbers the largest. All are tried: beyond what fits under the device's attention, another decode costs a second
  /// reading of the weights, which only many decodes repay.
  [[nodiscard]] std::size_t best_count(std::span<const Tokens> contexts, std::size_t least = 0) const {
    std::size_t best = least;
    double best_rate = rate(contexts.first(least));
    for (std::size_t count = least + 1; count <= contexts.size(); ++count)
      if (const double one = rate(contexts.first(count)); one >= best_rate) {
        best = count;
        best_rate = one;
      }
    return best;
  }
};

} // namespace sluice
