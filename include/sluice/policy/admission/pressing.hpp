// SPDX-License-Identifier: Apache-2.0
// Pressing: which request joins at the cost of a running one that can bear a pause.
#pragma once

#include "sluice/policy/admission/payer.hpp"
#include "sluice/policy/admission/vain_presses.hpp"
#include "sluice/state/view/proposal.hpp"
#include "sluice/state/view/slack.hpp"
#include "sluice/state/view/view.hpp"

#include <cmath>
#include <compare>
#include <optional>
#include <span>
#include <utility>

namespace sluice {

/// A part of admission policies: at most one request in an iteration joins at the cost of a running one. The SLO of the
/// TPOT is about a mean, so a request that is ahead of it can pause and lose nothing, as long as it returns in time. A
/// newcomer that waits for room misses its first token for good.
///
///  - *Who presses*: of the next newcomer and the paused requests that can keep their SLO, the one with the least
///    slack; a paused one as soon as it has no more than a TTFT SLO left. Without any, the request that has been paused
///    for longest, after `longest` TTFT SLOs, so that a request whose SLO is lost does not wait for the load to end.
///    Only those for whom a running request can pay. Requests that wait for a tier's blocks do not press. In a full
///    batch the payer's place is theirs, and newcomers press later than for memory.
///  - *Who pays*: payer().
///
/// A paused request can keep its SLO if its first token was in time, or still can be, and its TPOT still is: these are
/// what SLO attainment counts. (A payer has lost its SLO in another sense, because the two questions differ.)
struct Pressing {
  /// TTFT SLOs (pause_unit) after which a paused request presses, whatever its slack; 1 or more. Near 0 two requests
  /// that have lost their SLOs take each other's place in every iteration.
  double longest = 4;

  /// A request that would press, and the seconds until its SLO is lost.
  struct Wish {
    Slot slot{};
    double slack_s = 0;
    friend auto operator<=>(const Wish& a, const Wish& b) {
      return std::pair{a.slack_s, index(a.slot)} <=> std::pair{b.slack_s, index(b.slot)};
    }
  };
  struct Choice {
    Slot comes{}, pays{};
  };

  /// Who may press in an iteration.
  struct Wishes {
    std::optional<Wish> newcomer{}; ///< the next one, if it would press
    double token_s = 0;             ///< seconds for each prompt token
    bool full = false;              ///< the batch has no place but the payer's
    Slot only = nobody;             ///< if somebody: nobody else presses
    std::span<const Slot> spared{}; ///< these do not pay
  };

  /// The request that presses and the one that pays. If the payers have just returned, or were pressed on in vain, the
  /// next request is tried; four at most, so that a decision costs O(running + paused).
  [[nodiscard]] std::optional<Choice> choose(const View& view, const VainPresses& vain, Wishes wishes) const {
    const auto pressed_by = [&](Slot comes) {
      const Slot pays = payer(view, vain, comes, wishes.spared);
      return pays == nobody ? std::nullopt : std::optional(Choice{comes, pays});
    };
    if (wishes.only != nobody) return pressed_by(wishes.only);
    if (wishes.newcomer && wishes.full && !takes_place(view, *wishes.newcomer)) wishes.newcomer.reset();
    constexpr int tries = 4;
    const double most_s = longest_pause_s(view);
    std::optional<Wish> last; // the wish that was tried last
    for (const bool in_time : {true, false}) {
      last.reset();
      for (int i = 0; i < tries; ++i) {
        const std::optional<Wish> wish =
            in_time ? urgent(view, wishes, most_s, last) : paused_longest(view, most_s, last);
        if (!wish) break;
        if (const auto choice = pressed_by(wish->slot)) return choice;
        last = wish;
      }
    }
    return {};
  }

 private:
  /// Whether a newcomer presses in a full batch. A place comes free when a request ends, so it does only when little
  /// time is left; and while nobody is paused, because that place would be the paused request's. Rejected: whenever it
  /// would press for room. That costs TBT and TPOT where a batch of 32 is full, and keeps no more SLOs.
  static bool takes_place(const View& view, const Wish& newcomer) {
    constexpr double little = 0.3; // of its TTFT SLO
    return view.preempted.empty() && newcomer.slack_s <= little * view.row(newcomer.slot).spec.slo.ttft.count();
  }
  /// Whether a wish comes after `last`, before `least`, and its TTFT SLO is shorter than a pause that somebody can
  /// bear.
  static bool better(const View& view, const Wish& wish, double most_s, const std::optional<Wish>& last,
                     const std::optional<Wish>& least) {
    const RequestRow& row = view.row(wish.slot);
    return !row.waits && row.spec.slo.ttft.count() < most_s && (!last || *last < wish) && (!least || wish < *least);
  }
  /// The least of the wishes after `last` that can keep an SLO.
  [[nodiscard]] static std::optional<Wish> urgent(const View& view, const Wishes& wishes, double most_s,
                                                  const std::optional<Wish>& last) {
    std::optional<Wish> least;
    const auto offer = [&](const Wish& wish) {
      if (better(view, wish, most_s, last, least)) least = wish;
    };
    if (wishes.newcomer) offer(*wishes.newcomer);
    for (const Slot slot : view.preempted) {
      const RequestRow& row = view.row(slot);
      const double slack = slack_s(row, view.now, wishes.token_s);
      if (row.may_return && slack >= 0 && slack <= row.spec.slo.ttft.count()) offer({slot, slack});
    }
    return least;
  }
  /// The request after `last` that has been paused for longest, if too long; its slack is that time, negative.
  [[nodiscard]] std::optional<Wish> paused_longest(const View& view, double most_s,
                                                   const std::optional<Wish>& last) const {
    std::optional<Wish> least;
    for (const Slot slot : view.preempted) {
      const RequestRow& row = view.row(slot);
      const Wish wish{slot, (row.preempted_since - view.now).count()};
      const bool too_long = -wish.slack_s >= longest * pause_unit(row).count();
      if (row.may_return && too_long && better(view, wish, most_s, last, least)) least = wish;
    }
    return least;
  }
  /// Seconds until a paused request's SLO is lost; below 0 if it is. A request without a TTFT SLO has none to lose.
  [[nodiscard]] static double slack_s(const RequestRow& row, Seconds now, double token_s) {
    if (std::isinf(row.spec.slo.ttft.count())) return -1;
    if (row.generated.count() == 0) return first_token_slack_s(row, now, token_s);
    return row.first_token > first_due(row) ? -1 : tpot_slack_s(row, now);
  }
};

} // namespace sluice
