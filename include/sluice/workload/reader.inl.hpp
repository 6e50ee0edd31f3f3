// SPDX-License-Identifier: Apache-2.0
// TraceReader: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/workload/reader.hpp"

#include <cmath>

namespace sluice::detail {

inline Status check_slo(const char* flag, Seconds slo) {
  if (slo.count() > 0.0) return {}; // infinite is valid, NaN is not
  return Error{ErrorCode::bad_input, flag, "the SLO is " + std::to_string(slo.count()) + " s",
               "a positive number of seconds"};
}

} // namespace sluice::detail

namespace sluice {

SLUICE_INLINE Status check(const ReadOptions& options) {
  if (options.limit && *options.limit < 1) {
    return Error{ErrorCode::bad_input, "--limit", "the limit is " + std::to_string(*options.limit),
                 "a whole number of at least 1"};
  }
  // The range keeps scaled arrivals finite and distinct.
  if (!(options.rate_scale >= 1e-6 && options.rate_scale <= 1e6)) {
    return Error{ErrorCode::bad_input, "--rate-scale", "the rate scale is " + std::to_string(options.rate_scale),
                 "a number from 0.000001 to 1000000"};
  }
  if (Status status = detail::check_slo("--slo-ttft", options.slo.ttft); !status) return status;
  return detail::check_slo("--slo-tbt", options.slo.tbt);
}

} // namespace sluice

namespace sluice::detail {

SLUICE_INLINE Expected<Seconds> ArrivalClock::arrival(double raw, const std::string& where) {
  if (!std::isfinite(raw) || std::fabs(raw) > 1e12) {
    return Error{ErrorCode::bad_input, where, "the arrival is no usable time", "seconds within 1e12 of zero"};
  }
  if (!first_) first_ = last_ = raw;
  if (raw < *last_) {
    return Error{ErrorCode::bad_input, where,
                 "the request arrives " + std::to_string(*last_ - raw) + " s before the one above it",
                 "requests in the order of arrival (sort the file)"};
  }
  last_ = raw;
  return Seconds{raw - *first_};
}

} // namespace sluice::detail
