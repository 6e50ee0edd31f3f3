// SPDX-License-Identifier: Apache-2.0
// FutureClaim: what a request holds and is expected to generate, and what a batch holds until all have ended.
#pragma once

#include "sluice/core/random.hpp"
#include "sluice/state/view/view.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace sluice {

/// How many tokens a request is expected to generate, by the lengths of past requests (`View::lengths`).
struct ExpectedOutput {
  std::size_t enough = 20;  ///< ended requests before their lengths are used
  Tokens first_guess{1024}; ///< the whole output that is expected until then
  Tokens least{1};          ///< tokens still to come that are expected then, at least
  std::uint64_t seed = 1;   ///< of the requests' draws

  /// The request's own number in [0, 1), for life: with it as their quantile, requests end as past ones did, and not
  /// all at the mean.
  [[nodiscard]] double draw(const RequestRow& row) const { return random_of(row.id, seed).uniform(); }
  /// Tokens still to come, at least 1, if the output is the `quantile` of all past ones longer than what it is now.
  [[nodiscard]] double remaining(const OutputLengths& lengths, const RequestRow& row, double quantile) const {
    const auto guess = static_cast<double>(std::max(least, first_guess - row.generated).count());
    return lengths.remaining(row.generated, quantile, enough, guess);
  }
};

/// A request's expected memory.
struct FutureClaim {
  double context = 0;    ///< tokens that it holds, or will hold when it joins
  double remaining = 0;  ///< tokens that it is expected to generate
  std::size_t place = 0; ///< in its policy's order; 0 if the policy has no use for it

  /// The request in `row`, its blocks counted as tokens plus half a block: its last block is half empty on average.
  [[nodiscard]] static FutureClaim of(const View& view, const RequestRow& row, double remaining,
                                      std::size_t place = 0) {
    const double half_block = 0.5 * static_cast<double>(view.limits.block_tokens.count());
    return {static_cast<double>(row.context().count()) + half_block, remaining, place};
  }
  /// The order that `at_each_end` needs.
  [[nodiscard]] static bool longest_first(const FutureClaim& a, const FutureClaim& b) {
    return a.remaining != b.remaining ? a.remaining > b.remaining : a.place < b.place;
  }
};

/// Looks ahead to the end of each of `claims`, which all decode one token a step, the last end first: just before it
/// the batch holds the most until the next end. At request i's end, with the longest remaining first, requests 1..i
/// still run, each grown by i's remaining tokens. Calls `visit(requests, tokens)` for each until it returns false;
/// returns whether it never did. Only the requests with a place below `places` count. (Gong et al., "Past-Future
/// Scheduler for LLM Serving under SLA Guarantees", ASPLOS 2025.)
template <class Visit>
bool at_each_end(std::span<const FutureClaim> claims, Visit&& visit,
                 std::size_t places = std::numeric_limits<std::size_t>::max()) {
  double held = 0;
  std::size_t left = 0;
  for (const FutureClaim& claim : claims) {
    if (claim.place >= places) continue;
    held += claim.context;
    ++left;
    if (!visit(left, held + static_cast<double>(left) * claim.remaining)) return false;
  }
  return true;
}

/// The most tokens that these requests will hold together at any time.
[[nodiscard]] inline double future_peak(std::span<const FutureClaim> claims) {
  double peak = 0;
  at_each_end(claims, [&peak](std::size_t /*requests*/, double tokens) {
    peak = std::max(peak, tokens);
    return true;
  });
  return peak;
}

} // namespace sluice
