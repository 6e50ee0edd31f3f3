// SPDX-License-Identifier: Apache-2.0
// sample: the next token of a sequence from its logits: greedy, or drawn by temperature, top-k and top-p.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/core/random.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <vector>

namespace sluice {

/// How a token is chosen. The default is greedy.
struct Sampling {
  double temperature = 0; ///< logits are divided by this; 0: the largest logit wins, whatever the rest says
  int top_k = 0;          ///< only the so many likeliest tokens; 0: all
  double top_p = 1;       ///< of these only the likeliest whose probabilities first add up to so much; 1: all
  std::uint64_t seed = 0;

  friend bool operator==(const Sampling&, const Sampling&) = default;
};

/// An error if a number makes no sense; it names the flag.
inline Status check(const Sampling& sampling) {
  if (!(std::isfinite(sampling.temperature) && sampling.temperature >= 0)) {
    return Error{ErrorCode::bad_input, "--temperature", "it is " + std::to_string(sampling.temperature),
                 "a number of at least 0 (0: greedy)"};
  }
  if (sampling.top_k < 0) {
    return Error{ErrorCode::bad_input, "--top-k", "it is " + std::to_string(sampling.top_k),
                 "a whole number of at least 0 (0: all tokens)"};
  }
  if (!(sampling.top_p > 0 && sampling.top_p <= 1)) {
    return Error{ErrorCode::bad_input, "--top-p", "it is " + std::to_string(sampling.top_p),
                 "a number above 0 and at most 1 (1: all tokens)"};
  }
  return {};
}

namespace detail {

/// Uniform in [0, 1), from a sequence's position alone: a token draws the same number in whichever batch, on whichever
/// thread and however often it is computed.
[[nodiscard]] constexpr double sampling_draw(std::uint64_t seed, std::uint64_t sequence, std::int64_t position) {
  // A generator's first number scatters its seed: three of them, each stirred into the next one's seed.
  const std::uint64_t first = Random(seed)();
  const std::uint64_t second = Random(first ^ sequence)();
  return Random(second ^ static_cast<std::uint64_t>(position)).uniform();
}

/// The order of logits. A NaN is below every number: a NaN is a caller's mistake, but must not lead a sort out of its
/// range, and is not taken where there is a number, be it -infinity.
[[nodiscard]] inline bool below(float left, float right) {
  return left < right || (std::isnan(left) && !std::isnan(right));
}

/// Sorts the first `count` tokens by falling logit, equals (as NaN are of one another) by rising token: one order for
/// any way of sorting.
inline void sort_likeliest(std::span<std::int32_t> tokens, std::span<const float> logits, std::size_t count) {
  const auto likelier = [logits](std::int32_t a, std::int32_t b) {
    const float left = logits[static_cast<std::size_t>(a)];
    const float right = logits[static_cast<std::size_t>(b)];
    return below(right, left) || (!below(left, right) && a < b);
  };
  const auto middle = tokens.begin() + static_cast<std::ptrdiff_t>(count);
  if (count < tokens.size()) std::nth_element(tokens.begin(), middle, tokens.end(), likelier);
  std::sort(tokens.begin(), middle, likelier);
}

} // namespace detail

/// The token with the largest logit; of equals the lowest. `logits`: one of each token. A NaN is never taken where
/// there is a number, as by the sorting of `sample`; of NaN alone token 0 is.
[[nodiscard]] inline std::int32_t greedy_token(std::span<const float> logits) {
  SLUICE_ASSERT(!logits.empty(), "logits of at least one token");
  return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end(), detail::below) - logits.begin());
}

/// The token that follows: a pure function of its arguments, so that a request which is preempted, recomputed or
/// batched otherwise gets the same text. `logits`: one of each token, some of them finite, none NaN or +infinity
/// (-infinity forbids a token); `position`: of the token to be drawn.
///
/// First temperature, then top-k, then top-p of the tokens that are left (Hugging Face's order; top-p is Holtzman et
/// al., "The Curious Case of Neural Text Degeneration", 2020, 3.1). Sums are of doubles in a fixed order.
[[nodiscard]] inline std::int32_t sample(std::span<const float> logits, const Sampling& sampling,
                                         std::uint64_t sequence, std::int64_t position) {
  SLUICE_ASSERT(check(sampling).ok(), "a valid Sampling");
  const std::int32_t best = greedy_token(logits);
  if (!(sampling.temperature > 0) || sampling.top_k == 1) return best;
  const auto largest = static_cast<double>(logits[static_cast<std::size_t>(best)]);
  SLUICE_ASSERT(std::isfinite(largest), "a logit that is finite, and none above all numbers");
  const auto weight = [&](std::size_t token) {
    return std::exp((static_cast<double>(logits[token]) - largest) / sampling.temperature);
  };
  const double draw = detail::sampling_draw(sampling.seed, sequence, position);

  const bool all = sampling.top_k == 0 || static_cast<std::size_t>(sampling.top_k) >= logits.size();
  if (all && sampling.top_p >= 1) { // nothing to sort
    double total = 0;
    for (std::size_t token = 0; token < logits.size(); ++token) total += weight(token);
    const double target = draw * total;
    double passed = 0;
    std::int32_t chosen = best;
    for (std::size_t token = 0; token < logits.size(); ++token) {
      const double own = weight(token);
      passed += own;
      if (own > 0) chosen = static_cast<std::int32_t>(token);
      if (passed > target) break;
    }
    return chosen;
  }

  std::vector<std::int32_t> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  const std::size_t most = all ? tokens.size() : static_cast<std::size_t>(sampling.top_k);
  double total = 0;
  if (all) {
    for (std::size_t token = 0; token < logits.size(); ++token) total += weight(token);
  }
  // A nucleus is mostly a few tokens of a hundred thousand: more are put in order only where the nucleus is larger.
  std::size_t sorted = all ? std::min<std::size_t>(most, 256) : most;
  for (;;) {
    detail::sort_likeliest(tokens, logits, sorted);
    if (!all) {
      for (std::size_t i = 0; i < most; ++i) total += weight(static_cast<std::size_t>(tokens[i]));
    }
    double kept = 0;
    std::size_t count = 0;
    while (count < sorted && (count == 0 || kept < sampling.top_p * total))
      kept += weight(static_cast<std::size_t>(tokens[count++]));
    if (count == sorted && sorted < most && kept < sampling.top_p * total) {
      sorted = std::min(most, sorted * 16);
      continue;
    }
    const double target = draw * kept;
    double passed = 0;
    for (std::size_t i = 0; i < count; ++i) {
      passed += weight(static_cast<std::size_t>(tokens[i]));
      if (passed > target) return tokens[i];
    }
    return tokens[count - 1];
  }
}

} // namespace sluice
