// SPDX-License-Identifier: Apache-2.0
// Payer: the running request whose tokens wait for one that presses.
#pragma once

#include "sluice/policy/admission/vain_presses.hpp"
#include "sluice/state/view/proposal.hpp"
#include "sluice/state/view/slack.hpp"
#include "sluice/state/view/view.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace sluice {

/// The longest pause that a running request can bear, in seconds: infinite if one has lost its SLO, below 0 if none
/// can.
[[nodiscard]] inline double longest_pause_s(const View& view) {
  double most = -1;
  for (const Slot slot : view.running)
    if (const RequestRow& row = view.row(slot); row.generated.count() > 0)
      most = std::max(most, ahead_s(row, view.now) < 0 ? std::numeric_limits<double>::infinity()
                                                       : tpot_slack_s(row, view.now));
  return most;
}

/// Whether a request was paused, and has run again for less than half a TTFT SLO, its own or that of the one that
/// presses; not if a deposit covers the next pause.
[[nodiscard]] inline bool has_just_returned(const RequestRow& row, Seconds ttft, Seconds now) {
  return row.times_preempted > 0 && row.deposit().count() == 0 && !std::isinf(row.spec.slo.ttft.count()) &&
         now - row.running_since < 0.5 * std::min(row.spec.slo.ttft, ttft);
}

/// The running request that pays for the one that `comes`, or nobody: that whose pause costs least (PauseOrder) of
/// those that have lost their SLO, or are ahead by more than the TTFT SLO of the one that comes, and on which it has
/// not pressed in vain. None of `spared` pays.
///
/// It has lost its SLO if it is behind its whole schedule, arrival + TTFT SLO + one TBT SLO per token: then no early
/// first token makes up for late tokens either. One that was paused pays again only after it has run for half a TTFT
/// SLO, the shorter of both, unless its SLO is lost or it has a deposit: two requests that are ahead by about as much
/// would otherwise press each other by turns, and each turn costs a gap. A whole one costs SLOs. Rejected: large
/// requests pay, ahead or not (seeds show no gain).
[[nodiscard]] inline Slot payer(const View& view, const VainPresses& vain, Slot comes, std::span<const Slot> spared) {
  const RequestRow& presser = view.row(comes);
  const Seconds ttft = presser.spec.slo.ttft;
  Slot pays = nobody;
  PauseOrder most{true};
  for (const Slot slot : view.running) {
    const RequestRow& row = view.row(slot);
    const PauseOrder one = PauseOrder::of(row, view.now);
    if (!one.started || (pays != nobody && one < most) || vain.in_vain(presser, row)) continue;
    if (std::find(spared.begin(), spared.end(), slot) != spared.end()) continue;
    if (!one.behind && (tpot_slack_s(row, view.now) <= ttft.count() || has_just_returned(row, ttft, view.now)))
      continue;
    pays = slot;
    most = one;
  }
  return pays;
}

} // namespace sluice
