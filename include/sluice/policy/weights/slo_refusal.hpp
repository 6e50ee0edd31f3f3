// SPDX-License-Identifier: Apache-2.0
// The error texts for an SLO that cannot be met.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/units.hpp"

#include <cmath>
#include <cstdio>
#include <string>

// Functions instead of a policy's members, and cold: rarely made texts would otherwise cost code in every engine.
namespace sluice::detail {

[[nodiscard, gnu::cold, gnu::noinline]] inline std::string milliseconds(Seconds time) {
  char text[40];
  std::snprintf(text, sizeof text, "%.4g ms", 1e3 * time.count());
  return text;
}

[[nodiscard, gnu::cold, gnu::noinline]] inline Error slo_refusal(const std::string& asked, Seconds best,
                                                                 const std::string& more, int streamed) {
  Error error{ErrorCode::infeasible, {}, "its SLO of " + asked + " cannot be met", {}};
  if (!std::isfinite(best.count())) {
    error.what += ": no recorded interval makes room for its KV in that time";
    error.expected = "a shorter request, or a longer SLO";
    return error;
  }
  error.what += ": " + milliseconds(best) + " is the best" + more;
  if (streamed > 0)
    error.what += ", since the weights of " + std::to_string(streamed) + " layers must stream to make room for its KV";
  error.expected = "at least that";
  return error;
}

/// `left`: the SLO less the time that the request has waited.
[[nodiscard, gnu::cold, gnu::noinline]] inline Error first_token_refusal(Seconds slo, Seconds left, Seconds best,
                                                                         int streamed) {
  const std::string waited = left < slo ? ", and it has waited " + milliseconds(slo - left) : std::string{};
  return slo_refusal(milliseconds(slo) + " to the first token", best, waited, streamed);
}

[[nodiscard, gnu::cold, gnu::noinline]] inline Error token_refusal(Seconds slo, Seconds best, int streamed) {
  return slo_refusal(milliseconds(slo) + " a token", best, {}, streamed);
}

} // namespace sluice::detail
