// SPDX-License-Identifier: Apache-2.0
// distributions: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/workload/distributions.hpp"

#include <cmath>

namespace sluice {

SLUICE_INLINE double draw_normal(Random& random) {
  for (;;) {
    const double x = 2.0 * random.uniform() - 1.0;
    const double y = 2.0 * random.uniform() - 1.0;
    const double square = x * x + y * y;
    if (square > 0.0 && square < 1.0) return x * std::sqrt(-2.0 * std::log(square) / square);
  }
}

SLUICE_INLINE double draw_gamma(Random& random, double shape) {
  SLUICE_ASSERT(shape > 0.0, "a positive shape");
  double boost = 1.0;
  if (shape < 1.0) {
    boost = std::pow(1.0 - random.uniform(), 1.0 / shape);
    shape += 1.0;
  }
  const double d = shape - 1.0 / 3.0;
  const double c = 1.0 / std::sqrt(9.0 * d);
  for (;;) {
    const double x = draw_normal(random);
    const double root = 1.0 + c * x;
    if (root <= 0.0) continue;
    const double v = root * root * root;
    const double u = 1.0 - random.uniform();
    if (std::log(u) < 0.5 * x * x + d - d * v + d * std::log(v)) return boost * d * v;
  }
}

SLUICE_INLINE double draw_lognormal(Random& random, double mean, double cv) {
  const double variance = std::log1p(cv * cv); // of the logarithm
  return mean * std::exp(std::sqrt(variance) * draw_normal(random) - 0.5 * variance);
}

SLUICE_INLINE double draw_gap(Random& random, const ArrivalProcess& arrivals) {
  const double mean = 1.0 / arrivals.rate;
  switch (arrivals.kind) {
  case ArrivalKind::even:
    return mean;
  case ArrivalKind::poisson:
    return mean * draw_exponential(random);
  case ArrivalKind::gamma: {
    const double square = arrivals.cv * arrivals.cv;
    return mean * square * draw_gamma(random, 1.0 / square);
  }
  case ArrivalKind::lognormal:
    break;
  }
  return draw_lognormal(random, mean, arrivals.cv);
}

SLUICE_INLINE Tokens draw_length(Random& random, const UniformLength& lengths) {
  const auto choices = static_cast<std::uint64_t>(lengths.most.count() - lengths.least.count() + 1);
  return lengths.least + Tokens{random.below(choices)};
}

SLUICE_INLINE Tokens draw_length(Random& random, const LengthDistribution& lengths, Tokens longest) {
  if (const auto* fixed = std::get_if<FixedLength>(&lengths)) return fixed->tokens;
  if (const auto* uniform = std::get_if<UniformLength>(&lengths)) return draw_length(random, *uniform);
  if (const auto* lognormal = std::get_if<LognormalLength>(&lengths)) {
    // The mean is at most `longest` and above the median, so at least every second draw is accepted.
    for (;;) {
      const double length = std::round(draw_lognormal(random, lognormal->mean, lognormal->cv));
      if (length <= static_cast<double>(longest.count())) return Tokens{length < 1.0 ? 1 : std::llround(length)};
    }
  }
  const auto& bins = std::get<BinnedLength>(lengths).bins;
  double weight = 0.0;
  for (const BinnedLength::Bin& bin : bins) weight += bin.weight;
  double left = random.uniform() * weight;
  for (const BinnedLength::Bin& bin : bins) {
    left -= bin.weight;
    if (left < 0.0) return draw_length(random, bin.lengths);
  }
  return draw_length(random, bins.back().lengths); // reached only because of rounding errors
}

SLUICE_INLINE Status check(const ArrivalProcess& arrivals, const std::string& where) {
  // At higher rates gaps would be below a microsecond, the unit of arrivals.
  if (!(arrivals.rate >= 1e-6 && arrivals.rate <= 1e4)) {
    return Error{ErrorCode::bad_input, where, "the rate is " + std::to_string(arrivals.rate),
                 "requests per second, from 0.000001 to 10000"};
  }
  const bool has_cv = arrivals.kind == ArrivalKind::gamma || arrivals.kind == ArrivalKind::lognormal;
  if (has_cv && !(arrivals.cv >= 0.01 && arrivals.cv <= 10.0)) {
    return Error{ErrorCode::bad_input, where, "the CV of the arrivals is " + std::to_string(arrivals.cv),
                 "a number from 0.01 to 10"};
  }
  return {};
}

} // namespace sluice

namespace sluice::detail {

inline Status check_length_range(const UniformLength& lengths, Tokens longest, const std::string& where) {
  if (lengths.least.count() >= 1 && lengths.least <= lengths.most && lengths.most <= longest) return {};
  return Error{ErrorCode::bad_input, where,
               "the lengths are " + std::to_string(lengths.least.count()) + " to " +
                   std::to_string(lengths.most.count()) + " tokens",
               "an ascending range within 1 and " + std::to_string(longest.count())};
}

} // namespace sluice::detail

namespace sluice {

SLUICE_INLINE Status check(const LengthDistribution& lengths, Tokens longest, const std::string& where) {
  if (const auto* fixed = std::get_if<FixedLength>(&lengths)) {
    return detail::check_length_range({fixed->tokens, fixed->tokens}, longest, where);
  }
  if (const auto* uniform = std::get_if<UniformLength>(&lengths)) {
    return detail::check_length_range(*uniform, longest, where);
  }
  if (const auto* lognormal = std::get_if<LognormalLength>(&lengths)) {
    if (!(lognormal->mean >= 1.0 && lognormal->mean <= static_cast<double>(longest.count()))) {
      return Error{ErrorCode::bad_input, where, "the mean length is " + std::to_string(lognormal->mean),
                   "a number from 1 to " + std::to_string(longest.count())};
    }
    if (!(lognormal->cv >= 0.01 && lognormal->cv <= 10.0)) {
      return Error{ErrorCode::bad_input, where, "the CV of the lengths is " + std::to_string(lognormal->cv),
                   "a number from 0.01 to 10"};
    }
    return {};
  }
  const auto& bins = std::get<BinnedLength>(lengths).bins;
  if (bins.empty()) return Error{ErrorCode::bad_input, where, "there are no bins", "at least one"};
  for (const BinnedLength::Bin& bin : bins) {
    if (!(bin.weight > 0.0 && bin.weight <= 1e9)) {
      return Error{ErrorCode::bad_input, where, "the weight of a bin is " + std::to_string(bin.weight),
                   "a positive number"};
    }
    if (Status status = detail::check_length_range(bin.lengths, longest, where); !status) return status;
  }
  return {};
}

} // namespace sluice
