// SPDX-License-Identifier: Apache-2.0
// student_t_quantile: the error of the mean of a few values, in standard errors.
#pragma once

#include "sluice/core/compiled.hpp"

#include <cstdint>

namespace sluice {

namespace detail {

/// Returns P(|T| <= t) of Student's t with an integer number of degrees of freedom, by the finite sums of Abramowitz
/// and Stegun, 26.7.3 and 26.7.4.
[[nodiscard]] double student_t_within(double t, std::int64_t freedom);

} // namespace detail

/// Returns the t that |T| exceeds with probability 1 - `confidence`: 2.776 for 0.95 and four degrees of freedom.
///
/// Rejected: Boost.Math. Its quantile supports any real degrees of freedom, which needs an incomplete beta function,
/// and it would be the only library that the core headers need. The number of seeds is an integer, for which the
/// distribution is a finite sum.
[[nodiscard]] double student_t_quantile(double confidence, std::int64_t freedom);

} // namespace sluice

#ifndef SLUICE_REPORT_COMPILED
#include "sluice/report/statistics/student_t.inl.hpp"
#endif
