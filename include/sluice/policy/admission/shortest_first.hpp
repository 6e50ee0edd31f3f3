// SPDX-License-Identifier: Apache-2.0
// ShortestFirst: waiting requests join by output length, known or predicted, the shortest first; no running request is
// preempted for them.
#pragma once

#include "sluice/core/random.hpp"
#include "sluice/policy/admission/least_first.hpp"

#include <cmath>
#include <cstdint>
#include <numbers>

namespace sluice {

/// The output tokens, as an oracle knows them.
struct KnownLength {
  static constexpr bool knows_lengths = true;
  struct State {};
  [[nodiscard]] double operator()(State& /*state*/, const RequestRow& row) const {
    return static_cast<double>(row.spec.output.count());
  }
};

/// A predicted length that ranks requests as well as a learned ranker does: it agrees with the true lengths on the
/// order of two random requests with probability (1 + `kendall_tau`) / 2. ("Learning to rank", the LTR baseline of
/// SuperInfer. A length predictor matters only through the order.)
///
/// Gaussian: if r is the correlation between the normal scores of two lengths, Kendall's tau is 2/pi asin(r). Scores
/// use mean and deviation of the logarithms seen so far, so the first few requests are ranked by less data.
struct RankedLength {
  static constexpr bool knows_lengths = true;
  /// LTR's own predictor: 0.55 on ShareGPT, 0.62 on LMSYS-Chat-1M, lengths by Llama-3-70B (its Table 3; the values are
  /// in its released training script). The default is ShareGPT's, SuperInfer's workload and the harder one.
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
  /// A standard normal draw (Box and Muller) that depends only on the request's id.
  [[nodiscard]] double noise(RequestId id) const {
    Random random = random_of(id, seed);
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
