// SPDX-License-Identifier: Apache-2.0
// BatchShare: how many requests run, and which share of each has no KV (eLLM, equation 1), solved exactly.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <limits>

namespace sluice {

/// b and r: the batch size, and the share of every request's tokens, the oldest, that have no KV.
struct BatchShare {
  bool feasible = false;
  std::int64_t requests = 0;
  double uncached = 0;
  double seconds = 0; ///< of one iteration

  /// Tokens per second, the objective.
  [[nodiscard]] constexpr double rate() const {
    return feasible && seconds > 0 ? static_cast<double>(requests) / seconds : 0.0;
  }
};

/// Maximise b / T(b, r) subject to T(b, r) <= `limit_s(b)`, `room(b, r)` <= `room_budget`, `host_room(b, r)` <=
/// `host_budget`, b between `least` and `most`, r between 0 and `most_share`. A solver may use a real b on the way; the
/// answer is whole.
///
/// Requirements that are not checked: T does not fall as r grows; room grows with b and is monotone in r; host room
/// grows with both.
template <class P>
concept BatchShareProblem = requires(const P& problem, double requests, double share) {
  { problem.seconds(requests, share) } -> std::same_as<double>;
  { problem.room(requests, share) } -> std::same_as<double>;
  { problem.host_room(requests, share) } -> std::same_as<double>;
  { problem.limit_s(requests) } -> std::same_as<double>;
  { problem.room_budget } -> std::convertible_to<double>;
  { problem.host_budget } -> std::convertible_to<double>;
  { problem.most_share } -> std::convertible_to<double>;
  { problem.least } -> std::convertible_to<std::int64_t>;
  { problem.most } -> std::convertible_to<std::int64_t>;
};

/// The smallest share with which a batch of this size fits the device; infinity if none does. T grows with the share,
/// so the smallest share is the best.
template <BatchShareProblem P>
[[nodiscard]] double least_share(const P& problem, double requests) {
  const double whole = problem.room(requests, 0.0);
  if (whole <= problem.room_budget) return 0.0;
  const double none = std::numeric_limits<double>::infinity();
  const double most = problem.most_share;
  const double least = problem.room(requests, most);
  if (most <= 0.0 || least > problem.room_budget) return none;
  // Room is nearly linear in the share: start on a straight line, then bisect.
  double fails = 0.0, fits = most;
  const double line = most * (whole - problem.room_budget) / (whole - least);
  if (line < most && problem.room(requests, line) <= problem.room_budget) fits = line;
  const double close = line - 1e-9 * most;
  if (close > 0.0 && problem.room(requests, close) > problem.room_budget) fails = close;
  while (fits - fails > 1e-6 * most) {
    const double middle = 0.5 * (fits + fails);
    (problem.room(requests, middle) <= problem.room_budget ? fits : fails) = middle;
  }
  return fits;
}

/// A whole batch at its smallest share; not feasible if host memory or the SLO forbids it.
template <BatchShareProblem P>
[[nodiscard]] BatchShare at_least_share(const P& problem, std::int64_t requests) {
  const auto batch = static_cast<double>(requests);
  BatchShare answer{false, requests, least_share(problem, batch), 0};
  if (answer.uncached > problem.most_share || problem.host_room(batch, answer.uncached) > problem.host_budget)
    return answer;
  answer.seconds = problem.seconds(batch, answer.uncached);
  answer.feasible = answer.seconds <= problem.limit_s(batch);
  return answer;
}

/// Tries every batch size at its smallest share: exact, and linear in the batch. It is the reference, and the solver
/// that needs no library. eLLM's own solver is `SlsqpBatchShare` (policy/placement/nlopt).
struct ExactBatchShare {
  template <BatchShareProblem P>
  [[nodiscard]] BatchShare operator()(const P& problem) const {
    BatchShare best;
    for (std::int64_t requests = std::max<std::int64_t>(1, problem.least); requests <= problem.most; ++requests) {
      const BatchShare one = at_least_share(problem, requests);
      if (one.uncached > problem.most_share) break; // a larger batch needs even more room
      if (one.rate() > best.rate()) best = one;
    }
    return best;
  }
};

} // namespace sluice
