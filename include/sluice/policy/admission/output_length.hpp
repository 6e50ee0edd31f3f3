// SPDX-License-Identifier: Apache-2.0
// OutputLength: what a policy knows of a request's output: nothing, a predicted rank, or all.
#pragma once

#include "sluice/core/math.hpp"
#include "sluice/core/random.hpp"
#include "sluice/state/view/view.hpp"

#include <cstdint>
#include <numbers>

namespace sluice {

/// A policy that does not know a request's output.
struct NoLength {
  static constexpr bool knows_lengths = false;
  struct State {};
  [[nodiscard]] static double tokens(State& /*state*/, const RequestRow& /*row*/) { return 0; }
};

/// The output tokens, as an oracle knows them.
struct KnownLength {
  static constexpr bool knows_lengths = true;
  struct State {};
  [[nodiscard]] double operator()(State& /*state*/, const RequestRow& row) const {
    return static_cast<double>(row.output(LengthPermit<KnownLength>{}).count());
  }
  [[nodiscard]] double tokens(State& state, const RequestRow& row) const { return (*this)(state, row); }
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

  /// The predicted place among all requests, in standard deviations of the logarithm of the output tokens.
  [[nodiscard]] double operator()(State& state, const RequestRow& row) const {
    const double length = math::log(static_cast<double>(row.output(LengthPermit<RankedLength>{}).count()));
    ++state.count;
    const double difference = length - state.mean;
    state.mean += difference / state.count;
    state.squares += difference * (length - state.mean);
    const double deviation = math::sqrt(state.squares / state.count);
    const double score = deviation > 0 ? (length - state.mean) / deviation : 0;
    const double r = math::sin(0.5 * std::numbers::pi * kendall_tau);
    return r * score + math::sqrt(1 - r * r) * noise(row.id);
  }

  /// The output tokens that this place has, if outputs are lognormal as those seen so far.
  [[nodiscard]] double tokens(State& state, const RequestRow& row) const {
    const double score = (*this)(state, row);
    return math::exp(state.mean + score * math::sqrt(state.squares / state.count));
  }

 private:
  /// A standard normal draw (Box and Muller) that depends only on the request's id.
  [[nodiscard]] double noise(RequestId id) const {
    Random random = random_of(id, seed);
    const double radius = math::sqrt(-2 * math::log(1 - random.uniform()));
    return radius * math::cos(2 * std::numbers::pi * random.uniform());
  }
};

} // namespace sluice
