// SPDX-License-Identifier: Apache-2.0
// Pressing: which request joins at the cost of a running one that can bear a pause.
#pragma once

#include "sluice/state/view/slack.hpp"
#include "sluice/state/view/view.hpp"

#include <cmath>
#include <optional>

namespace sluice {

/// A part of admission policies: at most one request in an iteration joins at the cost of a running one. The SLO of the
/// TPOT is about a mean, so a request that is ahead of it can pause and lose nothing, as long as it returns in time. A
/// newcomer that waits for room misses its first token for good.
///
///  - *Who presses*: of the next newcomer and the paused requests that can keep their SLO, the one with the least
///    slack; a paused one as soon as it has no more than a TTFT SLO left. Without any, the request that has been paused
///    for longest, after `longest` TTFT SLOs, so that a request whose SLO is lost does not wait for the load to end.
///    Paused requests that wait for a tier's blocks, or for their first token, do not press.
///  - *Who pays*: the running request whose pause costs least (PauseOrder), if it has lost its SLO, or is ahead by more
///    than the TTFT SLO of the request that presses. Rejected: large requests pay, ahead or not (seeds show no gain).
///
/// "Lost" has two meanings, because the two questions differ. A paused request can keep its SLO if its first token was
/// in time and its TPOT still is: these two are what SLO attainment counts. A payer has lost its SLO if it is behind
/// its whole schedule, arrival + TTFT SLO + one TBT SLO per token (PauseOrder): then no early first token makes up for
/// late tokens either.
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

  /// The request that presses and the one that pays. `newcomer`: the next one, if it would press.
  [[nodiscard]] std::optional<Choice> choose(const View& view, const std::optional<Wish>& newcomer) const {
    const std::optional<Wish> wish = first(view, newcomer);
    if (!wish) return {};
    std::optional<Slot> pays;
    PauseOrder most{true};
    for (const Slot slot : view.running)
      if (const PauseOrder one = PauseOrder::of(view.row(slot), view.now); one.started && (!pays || one >= most)) {
        pays = slot;
        most = one;
      }
    if (!pays) return {};
    const bool bears =
        most.behind || tpot_slack_s(view.row(*pays), view.now) > view.row(wish->slot).spec.slo.ttft.count();
    if (!bears) return {};
    return Choice{wish->slot, *pays};
  }

 private:
  [[nodiscard]] std::optional<Wish> first(const View& view, std::optional<Wish> least) const {
    std::optional<Wish> oldest; // its slack: how long it has been paused, negative
    for (const Slot slot : view.preempted) {
      const RequestRow& row = view.row(slot);
      if (!row.may_return || row.waits || row.generated.count() == 0) continue;
      const double ttft = row.spec.slo.ttft.count(), since = (row.preempted_since - view.now).count();
      if (-since >= longest * ttft && (!oldest || since < oldest->slack_s)) oldest = Wish{slot, since};
      if (std::isinf(ttft) || row.first_token > row.spec.arrival + row.spec.slo.ttft) continue;
      const double slack = tpot_slack_s(row, view.now);
      if (slack >= 0 && slack <= ttft && (!least || slack < least->slack_s)) least = Wish{slot, slack};
    }
    return least ? least : oldest;
  }
};

} // namespace sluice
