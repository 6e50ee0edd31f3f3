// SPDX-License-Identifier: Apache-2.0
// Slack: how far a request is ahead of its deadlines, for policies that choose whom a wait costs least.
#pragma once

#include "sluice/state/view/request_row.hpp"

#include <algorithm>
#include <compare>

namespace sluice {

/// When the first token is due.
[[nodiscard]] inline Seconds first_due(const RequestRow& row) { return row.spec.arrival + row.spec.slo.ttft; }

/// Seconds until the first token is late, if the request's prompt were next and took `token_s` per token.
[[nodiscard]] inline double first_token_slack_s(const RequestRow& row, Seconds now, double token_s) {
  return (first_due(row) - now).count() - token_s * static_cast<double>(row.pending().count());
}

/// Seconds until the request is late if it got nothing more: its first token is due at arrival + TTFT SLO, and each
/// further token one TBT SLO later. Below 0: its next token is behind that schedule. Infinite without an SLO, and no
/// number (0 times infinity) for a request without a TBT SLO that has no token yet.
[[nodiscard]] inline double ahead_s(const RequestRow& row, Seconds now) {
  return (first_due(row) - now).count() + static_cast<double>(row.generated.count()) * row.spec.slo.tbt.count();
}

/// Seconds until the TPOT of a request that has started is later than its SLO if it got nothing more: the SLO is about
/// a mean, so a request that was served faster than the SLO can wait. Below 0: its TPOT misses the SLO now.
[[nodiscard]] inline double tpot_slack_s(const RequestRow& row, Seconds now) {
  return static_cast<double>(row.generated.count()) * row.spec.slo.tbt.count() - (now - row.first_token).count();
}

/// The unit in which pauses count as long or short: the TTFT SLO, or ten TBT SLOs if longer. A short TTFT SLO alone
/// would let requests take each other's place in every iteration.
[[nodiscard]] inline Seconds pause_unit(const RequestRow& row) {
  return std::max(row.spec.slo.ttft, 10 * row.spec.slo.tbt);
}

/// How little a pause of a request costs: the greatest pauses first. A request before its first token never pauses by
/// choice: its prompt would be lost, or held for nothing. A request behind its whole schedule has missed its SLO, and
/// pausing it loses no more; among others, deposited tokens cover the pause, and then the distance to the deadline.
struct PauseOrder {
  bool started = false;
  bool behind = false;
  std::int64_t deposit = 0;
  double ahead_s = 0;

  [[nodiscard]] static PauseOrder of(const RequestRow& row, Seconds now) {
    const double ahead = sluice::ahead_s(row, now);
    if (row.generated.count() == 0) return {false, false, 0, -static_cast<double>(row.context().count())};
    return {true, ahead < 0, row.deposit().count(), ahead};
  }
  friend auto operator<=>(const PauseOrder&, const PauseOrder&) = default;
};

} // namespace sluice
