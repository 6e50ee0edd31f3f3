// SPDX-License-Identifier: Apache-2.0
// StepFloor: lower bounds of an iteration's computation that are linear in its work.
#pragma once

#include <algorithm>
#include <vector>

namespace sluice {

/// An iteration computes for at least `fixed_s` if it yields a token, plus the sum over its work:
///
///     decodes * decode_s + decode_context * context_s + (chunks' tokens) * token_s + (chunks' pairs) * pair_s
///
/// with the terms of Work; a chunk of x tokens after y has x (y + (x + 1) / 2) pairs.
struct StepLine {
  double fixed_s = 0;
  double decode_s = 0;
  double context_s = 0;
  double token_s = 0;
  double pair_s = 0;

  /// An iteration that decodes one sequence, which reads `context` tokens.
  [[nodiscard]] constexpr double decode(double context) const { return fixed_s + decode_s + context_s * context; }
  /// All iterations that compute a prompt of `tokens`, whatever its chunks: their pairs add up to the same.
  [[nodiscard]] constexpr double prompt(double tokens) const {
    return fixed_s + token_s * tokens + pair_s * 0.5 * tokens * (tokens + 1);
  }
};

/// A weighted mean of two lines, which bounds the time as they do.
[[nodiscard]] constexpr StepLine between(const StepLine& a, const StepLine& b, double share) {
  const auto mixed = [share](double one, double other) { return (1 - share) * one + share * other; };
  return {mixed(a.fixed_s, b.fixed_s), mixed(a.decode_s, b.decode_s), mixed(a.context_s, b.context_s),
          mixed(a.token_s, b.token_s), mixed(a.pair_s, b.pair_s)};
}

/// What a cost model's `step` never undercuts. A roofline takes the longer of FLOPs and bytes, so it is above the line
/// of either.
struct StepFloor {
  std::vector<StepLine> lines;
  double pass_s = 0;    ///< to compute all layers for one token, the output head aside: what rebuilding its KV takes
  double project_s = 0; ///< to compute only K and V of all layers for one token, from kept hidden states

  [[nodiscard]] double decode(double context) const {
    double most = 0;
    for (const StepLine& line : lines) most = std::max(most, line.decode(context));
    return most;
  }
  [[nodiscard]] double prompt(double tokens) const {
    double most = 0;
    for (const StepLine& line : lines) most = std::max(most, line.prompt(tokens));
    return most;
  }
};

} // namespace sluice
