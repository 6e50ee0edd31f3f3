// SPDX-License-Identifier: Apache-2.0
// Random gaps and lengths; a seed gives the same workload on every platform.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/core/random.hpp"
#include "sluice/core/units.hpp"

#include <cmath>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace sluice {

/// The arrival process.
enum class ArrivalKind : std::uint8_t {
  even,      ///< equal gaps
  poisson,   ///< exponential gaps
  gamma,     ///< gamma gaps with a given coefficient of variation
  lognormal, ///< lognormal gaps with a given coefficient of variation
};

/// Gaps between arrivals: mean 1 / rate, and standard deviation cv / rate for gamma and lognormal.
struct ArrivalProcess {
  ArrivalKind kind = ArrivalKind::poisson;
  double rate = 1.0; ///< requests per second
  double cv = 1.0;   ///< for gamma and lognormal; a Poisson process has 1, even gaps 0

  friend constexpr bool operator==(const ArrivalProcess&, const ArrivalProcess&) = default;
};

struct FixedLength {
  Tokens tokens{1};
  friend constexpr bool operator==(const FixedLength&, const FixedLength&) = default;
};
/// Whole numbers from `least` to `most` with equal probabilities.
struct UniformLength {
  Tokens least{1};
  Tokens most{1};
  friend constexpr bool operator==(const UniformLength&, const UniformLength&) = default;
};
/// Lognormal with this mean (tokens) and coefficient of variation, rounded to whole tokens (at least one). A length
/// above the generator's longest is drawn again.
struct LognormalLength {
  double mean = 1.0;
  double cv = 1.0;
  friend constexpr bool operator==(const LognormalLength&, const LognormalLength&) = default;
};
/// Draws a bin by weight, then a whole number uniformly from that bin.
struct BinnedLength {
  struct Bin {
    double weight = 1.0;
    UniformLength lengths;
    friend constexpr bool operator==(const Bin&, const Bin&) = default;
  };
  std::vector<Bin> bins;
  friend bool operator==(const BinnedLength&, const BinnedLength&) = default;
};

using LengthDistribution = std::variant<FixedLength, UniformLength, LognormalLength, BinnedLength>;

// The standard library's distributions are not specified to the bit, so Sluice implements its own transforms.

/// Draws from the standard exponential distribution.
inline double draw_exponential(Random& random) { return -std::log1p(-random.uniform()); }

/// Draws from the standard normal distribution by Marsaglia's polar method. The pair's second value is dropped: storing
/// it as state would cost more than a new draw.
double draw_normal(Random& random);

/// Draws from the gamma distribution with this shape and scale 1 (Marsaglia and Tsang, "A simple method for generating
/// gamma variables", 2000; below shape 1 by their boost: a draw with shape + 1, times a uniform number to the power 1 /
/// shape).
double draw_gamma(Random& random, double shape);

/// Draws from the lognormal distribution given by its own mean and coefficient of variation, not by those of its
/// logarithm.
double draw_lognormal(Random& random, double mean, double cv);

/// Returns the next gap in seconds.
double draw_gap(Random& random, const ArrivalProcess& arrivals);

Tokens draw_length(Random& random, const UniformLength& lengths);

/// Returns the next length, at most `longest`. The distribution must have passed `check`.
Tokens draw_length(Random& random, const LengthDistribution& lengths, Tokens longest);

/// Returns an error if gaps cannot be drawn; the message begins with `where`.
Status check(const ArrivalProcess& arrivals, const std::string& where);

/// Returns an error if lengths cannot be drawn or one could exceed `longest`; the message begins with `where`.
Status check(const LengthDistribution& lengths, Tokens longest, const std::string& where);

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/workload/distributions.inl.hpp"
#endif
