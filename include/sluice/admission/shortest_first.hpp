// SPDX-License-Identifier: Apache-2.0
// ShortestFirst: waiting requests join by length, known or predicted, the shortest first; no running one gives way.
#pragma once

#include "sluice/admission/least_first.hpp"
#include "sluice/core/random.hpp"

#include <cmath>
#include <cstdint>
#include <numbers>

namespace sluice {

/// Output tokens, as an oracle knows them.
struct KnownLength {
  static constexpr bool knows_lengths = true;
  struct State {};
  [[nodiscard]] double operator()(State& /*state*/, const RequestRow& row) const {
    return static_cast<double>(row.spec.output.count());
  }
};

/// A length that ranks like the true one as well as a learned ranker does, and no better: the two agree on the order of
/// two random requests with probability (1 + `kendall_tau`) / 2. ("Learning to rank", the baseline LTR of SuperInfer. A
/// predictor of lengths matters through the order alone.)
///
/// Gaussian: with correlation r between the normal scores of two lengths, Kendall's tau is 2/pi asin(r). Scores are
/// taken by mean and deviation of the logarithms seen so far, so that the first few requests are ranked by less.
struct RankedLength {
  static constexpr bool knows_lengths = true;
  /// LTR's own predictor: 0.55 on ShareGPT, 0.62 on LMSYS-Chat-1M, lengths by Llama-3-70B (its Table 3; the values
  /// stand in its released training script). ShareGPT's is the default: SuperInfer's load, and the harder one.
  double kendall_tau = 0.55;
  std::uint64_t seed = 1;

  struct State {
    double count = 0;
    double mean = 0;
    double squares = 0; ///< sum of squared differences from the mean (Welford)
  };

  [[nodiscard]] double operator()(State& state, const RequestRow& row) const {
    const double length = std::log(static_cast<double>(row.spec.output.count()));
    ++state.count;
    const double difference = length - state.mean;
    state.mean += difference / state.count;
    state.squares += difference * (length - state.mean);
    const double deviation = std::sqrt(state.squares / state.count);
    const double score = deviation > 0 ? (length - state.mean) / deviation : 0;
    const double r = std::sin(0.5 * std::numbers::pi * kendall_tau);
    return r * score + std::sqrt(1 - r * r) * noise(row.id);
  }

 private:
  /// Standard normal (Box and Muller), the same for the same request whatever came before it.
  [[nodiscard]] double noise(RequestId id) const {
    Random random(seed + 0x9e3779b97f4a7c15u * (index(id) + 1));
    const double radius = std::sqrt(-2 * std::log(1 - random.uniform()));
    return radius * std::cos(2 * std::numbers::pi * random.uniform());
  }
};

/// Shortest job first: BasicLeastFirst by the length of a request's output.
template <class Length = KnownLength, Batching B = Batching::chunked>
using BasicShortestFirst = BasicLeastFirst<Length, B>;
using ShortestKnownFirst = BasicShortestFirst<KnownLength>;
using ShortestRankedFirst = BasicShortestFirst<RankedLength>;

static_assert(Admission<ShortestKnownFirst> && Admission<ShortestRankedFirst>);

} // namespace sluice
