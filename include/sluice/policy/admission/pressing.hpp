// SPDX-License-Identifier: Apache-2.0
// Pressing: which request joins at the cost of a running one that can bear a pause.
#pragma once

#include "sluice/policy/admission/vain_presses.hpp"
#include "sluice/state/view/proposal.hpp"
#include "sluice/state/view/slack.hpp"
#include "sluice/state/view/view.hpp"

#include <algorithm>
#include <cmath>
#include <compare>
#include <limits>
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
///  - *Who pays*: the running request whose pause costs least (PauseOrder) of those that have lost their SLO, or are
///    ahead by more than the TTFT SLO of the request that presses, and on which it has not pressed in vain
///    (VainPresses). One that was paused pays again only after it has run for half a TTFT SLO, the shorter of both,
///    unless its SLO is lost or it has a deposit: two requests that are ahead by about as much would otherwise press
///    each other by turns, and each turn costs a gap. A whole one costs SLOs. Rejected: large requests pay, ahead or
///    not (seeds show no gain).
///
/// "Lost" has two meanings, because the two questions differ. A paused request can keep its SLO if its first token was
/// in time, or still can be, and its TPOT still is: these are what SLO attainment counts. A payer has lost its SLO if
/// it is behind its whole schedule, arrival + TTFT SLO + one TBT SLO per token (PauseOrder): then no early first token
/// makes up for late tokens either.
struct Pressing {
  /// TTFT SLOs after which a paused request presses, whatever its slack; 1 or more. Near 0 two requests that have lost
  /// their SLOs take each other's place in every iteration; so a TTFT SLO counts as ten TBT SLOs, at least.
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

  /// The request that presses and the one that pays. `newcomer`: the next one, if it would press; `token_s`: seconds
  /// for each prompt token; `full`: the batch has no place but the payer's. If the payers have just returned, or
  /// were pressed on in vain, the next request is tried; four at most, so that a decision costs O(running + paused).
  /// If `only` is not nobody, no other presses. None of `spared` pays.
  [[nodiscard]] std::optional<Choice> choose(const View& view, const VainPresses& vain, std::optional<Wish> newcomer,
                                             double token_s, bool full = false, Slot only = nobody,
                                             std::span<const Slot> spared = {}) const {
    const auto pressed_by = [&](Slot comes) {
      const Slot pays = payer(view, vain, comes, spared);
      return pays == nobody ? std::nullopt : std::optional(Choice{comes, pays});
    };
    if (only != nobody) return pressed_by(only);
    if (newcomer && full && !takes_place(view, *newcomer)) newcomer.reset();
    constexpr int tries = 4;
    const double most_s = longest_pause_s(view);
    std::optional<Wish> last; // the wish that was tried last
    for (const bool in_time : {true, false}) {
      last.reset();
      for (int i = 0; i < tries; ++i) {
        const std::optional<Wish> wish =
            in_time ? urgent(view, newcomer, token_s, most_s, last) : paused_longest(view, most_s, last);
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
  /// The longest pause that a running request can bear, in seconds: infinite if one has lost its SLO.
  [[nodiscard]] static double longest_pause_s(const View& view) {
    double most = -1;
    for (const Slot slot : view.running)
      if (const RequestRow& row = view.row(slot); row.generated.count() > 0)
        most = std::max(most, ahead_s(row, view.now) < 0 ? std::numeric_limits<double>::infinity()
                                                         : tpot_slack_s(row, view.now));
    return most;
  }
  /// Whether a wish comes after `last`, before `least`, and its TTFT SLO is shorter than a pause that somebody can
  /// bear.
  static bool better(const View& view, const Wish& wish, double most_s, const std::optional<Wish>& last,
                     const std::optional<Wish>& least) {
    const RequestRow& row = view.row(wish.slot);
    return !row.waits && row.spec.slo.ttft.count() < most_s && (!last || *last < wish) && (!least || wish < *least);
  }
  /// The least of the wishes after `last` that can keep an SLO.
  [[nodiscard]] static std::optional<Wish> urgent(const View& view, const std::optional<Wish>& newcomer, double token_s,
                                                  double most_s, const std::optional<Wish>& last) {
    std::optional<Wish> least;
    const auto offer = [&](const Wish& wish) {
      if (better(view, wish, most_s, last, least)) least = wish;
    };
    if (newcomer) offer(*newcomer);
    for (const Slot slot : view.preempted) {
      const RequestRow& row = view.row(slot);
      const double slack = slack_s(row, view.now, token_s);
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
      const Seconds ttft = std::max(row.spec.slo.ttft, 10 * row.spec.slo.tbt);
      if (row.may_return && -wish.slack_s >= longest * ttft.count() && better(view, wish, most_s, last, least))
        least = wish;
    }
    return least;
  }
  /// The running request that pays for this one, or nobody.
  [[nodiscard]] static Slot payer(const View& view, const VainPresses& vain, Slot comes, std::span<const Slot> spared) {
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
  /// Whether a request was paused, and has run again for less than half a TTFT SLO, its own or that of the one that
  /// presses; not if a deposit covers the next pause.
  static bool has_just_returned(const RequestRow& row, Seconds ttft, Seconds now) {
    return row.times_preempted > 0 && row.deposit().count() == 0 && !std::isinf(row.spec.slo.ttft.count()) &&
           now - row.running_since < 0.5 * std::min(row.spec.slo.ttft, ttft);
  }
  /// Seconds until a paused request's SLO is lost; below 0 if it is. A request without a TTFT SLO has none to lose.
  [[nodiscard]] static double slack_s(const RequestRow& row, Seconds now, double token_s) {
    if (std::isinf(row.spec.slo.ttft.count())) return -1;
    if (row.generated.count() == 0) return first_token_slack_s(row, now, token_s);
    return row.first_token > first_due(row) ? -1 : tpot_slack_s(row, now);
  }
};

} // namespace sluice
