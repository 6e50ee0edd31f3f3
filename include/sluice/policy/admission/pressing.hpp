// SPDX-License-Identifier: Apache-2.0
// Pressing: which request joins at the cost of a running one that can bear a pause.
#pragma once

#include "sluice/policy/admission/vain_presses.hpp"
#include "sluice/state/view/slack.hpp"
#include "sluice/state/view/view.hpp"

#include <cmath>
#include <optional>

namespace sluice {

/// A part of admission policies: at most one request in an iteration joins at the cost of a running one. The SLO of the
/// TPOT is about a mean, so a request that is ahead of it can pause and lose nothing, as long as it returns in time. A
/// newcomer that waits for room misses its first token for good.
///
///  - *Who pays*: the running request whose pause costs least (PauseOrder), for a request that presses only if the
///    payer has lost its SLO, or is ahead by more than the TTFT SLO of that request. One that was paused pays again
///    only after it has run for half a TTFT SLO of its own, unless its SLO is lost or it has a deposit: two requests
///    that are ahead by about as much would otherwise press each other by turns, and each turn costs a gap. A whole one
///    costs SLOs. Rejected: large requests pay, ahead or
///    not (seeds show no gain).
///  - *Who presses*: of the next newcomer and the paused requests that can keep their SLO, the one with the least
///    slack; a paused one as soon as it has no more than a TTFT SLO left. Without any, the request that has been paused
///    for longest, after `longest` TTFT SLOs, so that a request whose SLO is lost does not wait for the load to end.
///    Only those for whom the payer can bear a pause, and that have not pressed on it in vain (VainPresses). Requests
///    that wait for a tier's blocks do not press.
///
/// "Lost" has two meanings, because the two questions differ. A paused request can keep its SLO if its first token was
/// in time, or still can be, and its TPOT still is: these are what SLO attainment counts. A payer has lost its SLO if
/// it is behind its whole schedule, arrival + TTFT SLO + one TBT SLO per token (PauseOrder): then no early first token
/// makes up for late tokens either.
struct Pressing {
  /// TTFT SLOs after which a paused request presses, whatever its slack; 1 or more. Near 0 two requests that have lost
  /// their SLOs take each other's place in every iteration.
  double longest = 4;

  /// A request that would press, and the seconds until its SLO is lost.
  struct Wish {
    Slot slot{};
    double slack_s = 0;
  };
  struct Choice {
    Slot comes{}, pays{};
  };

  /// Seconds until a request's first token is late, if its prompt were next and took `token_s` per token.
  [[nodiscard]] static double first_token_slack_s(const RequestRow& row, Seconds now, double token_s) {
    return (row.spec.arrival + row.spec.slo.ttft - now).count() - token_s * static_cast<double>(row.pending().count());
  }
  /// The request that presses and the one that pays. `newcomer`: the next one, if it would press; `token_s`: seconds
  /// for each prompt token.
  [[nodiscard]] std::optional<Choice> choose(const View& view, const VainPresses& vain,
                                             const std::optional<Wish>& newcomer, double token_s) const {
    const std::optional<Slot> pays = payer(view);
    if (!pays) return {};
    const RequestRow& payer = view.row(*pays);
    const bool lost = ahead_s(payer, view.now) < 0;
    const double ahead = tpot_slack_s(payer, view.now);
    const auto can_press = [&](Slot slot) {
      const RequestRow& row = view.row(slot);
      return !row.waits && (lost || ahead > row.spec.slo.ttft.count()) && !vain.in_vain(row, payer);
    };
    std::optional<Wish> least, oldest; // the oldest's slack: how long it has been paused, negative
    if (newcomer && can_press(newcomer->slot)) least = newcomer;
    for (const Slot slot : view.preempted) {
      const RequestRow& row = view.row(slot);
      if (!row.may_return || !can_press(slot)) continue;
      const double ttft = row.spec.slo.ttft.count(), since = (row.preempted_since - view.now).count();
      if (-since >= longest * ttft && (!oldest || since < oldest->slack_s)) oldest = Wish{slot, since};
      const double slack = slack_s(row, view.now, token_s);
      if (slack >= 0 && slack <= ttft && (!least || slack < least->slack_s)) least = Wish{slot, slack};
    }
    if (least) return Choice{least->slot, *pays};
    if (oldest) return Choice{oldest->slot, *pays};
    return {};
  }

 private:
  [[nodiscard]] static std::optional<Slot> payer(const View& view) {
    std::optional<Slot> pays;
    PauseOrder most{true};
    for (const Slot slot : view.running) {
      const RequestRow& row = view.row(slot);
      const PauseOrder one = PauseOrder::of(row, view.now);
      if (!one.started || (!one.behind && has_just_returned(row, view.now)) || (pays && one < most)) continue;
      pays = slot;
      most = one;
    }
    return pays;
  }
  /// Whether a request was paused, and has run again for less than half a TTFT SLO; not if a deposit covers the next
  /// pause.
  static bool has_just_returned(const RequestRow& row, Seconds now) {
    const Seconds ttft = row.spec.slo.ttft;
    return row.times_preempted > 0 && row.deposit().count() == 0 && !std::isinf(ttft.count()) &&
           now - row.running_since < 0.5 * ttft;
  }
  /// Seconds until a paused request's SLO is lost; below 0 if it is. A request without a TTFT SLO has none to lose.
  [[nodiscard]] static double slack_s(const RequestRow& row, Seconds now, double token_s) {
    if (std::isinf(row.spec.slo.ttft.count())) return -1;
    if (row.generated.count() == 0) return first_token_slack_s(row, now, token_s);
    return row.first_token > row.spec.arrival + row.spec.slo.ttft ? -1 : tpot_slack_s(row, now);
  }
};

} // namespace sluice
