// SPDX-License-Identifier: Apache-2.0
// Pressing: which request joins at the cost of a running one that can bear a pause.
#pragma once

#include "sluice/core/math.hpp"
#include "sluice/state/view/proposal.hpp"
#include "sluice/state/view/request_row.hpp"
#include "sluice/state/view/view.hpp"

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace sluice {

// VainPresses: which requests have pressed in vain, and need not be tried again while the batch is the same.

/// A part of admission policies whose claims press. Only a plan tells whether the payer's room suffices, because layers
/// may go to the host, and a claim that presses in vain costs up to three plans. So the outcome of the last iteration
/// is remembered: the one that pressed does not run, nor has the payer stopped. While nobody leaves or joins, the batch
/// only grows, and no request of that size or more would find room on the same payer.
///
/// Rejected: comparing the sizes of both with the free memory. It forbids pressing where layers on the host make room.
class VainPresses {
 public:
  /// Looks at what became of the last claim. Call it once for each proposal, before the others.
  void look_back(const View& view) {
    const Batch batch{view.running.size(), view.preempted.size(),
                      view.running.empty() ? RequestId{} : view.row(view.running.back()).id};
    const bool changed = batch != batch_;
    batch_ = batch;
    const bool ran = pressed_ && view.step == step_ + 1; // else the proposal was discarded
    pressed_ = false;
    if (changed) known_.clear(); // whoever left in the iteration of the claim made room, too
    if (changed || !ran) return;
    const RequestRow &comes = view.row(comes_), &pays = view.row(pays_); // unless these rows have new requests
    if (comes.id != last_ || pays.id != tried_.pays || pays.phase != Phase::running) return;
    if (comes.phase == Phase::waiting || comes.phase == Phase::preempted) known_.push_back(tried_);
  }
  /// Remembers a pressing claim of this proposal.
  void pressed(const View& view, Slot comes, Slot pays) {
    pressed_ = true;
    step_ = view.step;
    comes_ = comes;
    pays_ = pays;
    last_ = view.row(comes).id;
    tried_ = {view.row(pays).id, view.row(comes).context()};
  }
  /// Whether a request of this one's size, or a smaller one, has pressed on this payer in vain, with the same batch.
  [[nodiscard]] bool in_vain(const RequestRow& comes, const RequestRow& pays) const {
    return std::any_of(known_.begin(), known_.end(),
                       [&](const Tried& one) { return one.pays == pays.id && comes.context() >= one.size; });
  }

 private:
  struct Tried {
    RequestId pays{};
    Tokens size{};
  };
  struct Batch {
    std::size_t running = 0, paused = 0;
    RequestId newest{}; ///< the last that joined
    friend bool operator==(const Batch&, const Batch&) = default;
  };
  std::vector<Tried> known_;
  Tried tried_;           ///< of the last proposal that pressed
  RequestId last_{};      ///< the request that pressed there
  Slot comes_{}, pays_{}; ///< their rows
  bool pressed_ = false;  ///< whether the last proposal did
  std::int64_t step_ = -1;
  Batch batch_;
};

// Payer: the running request whose tokens wait for one that presses.

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
  return row.times_preempted > 0 && row.deposit().count() == 0 && !math::isinf(row.spec.slo.ttft.count()) &&
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
    if (math::isinf(row.spec.slo.ttft.count())) return -1;
    if (row.generated.count() == 0) return first_token_slack_s(row, now, token_s);
    return row.first_token > first_due(row) ? -1 : tpot_slack_s(row, now);
  }
};

// PauseBudget: how many deadlines pauses may miss for the tokens that are generated.

/// A part of admission policies that pause requests for others by choice. They may as long as all pauses have missed
/// fewer than `misses` deadlines per generated token, divided by (1 + running)^1.5: where many run, one of them ends
/// soon, so that room comes by itself.
///
/// Tokens and misses of the recent past count: each loses half of its weight in `window` seconds. So neither does a
/// quiet hour pay for a busy one, nor does an overload forbid pauses for long after it.
struct PauseBudget {
  double misses = 1;   ///< deadlines that pauses may miss per token generated, divided by (1 + running)^1.5
  double window = 600; ///< seconds in which tokens and misses lose half of their weight

  struct State {
    double tokens = 0;       ///< tokens generated, by weight
    double spent = 0;        ///< deadlines that pauses have missed, by weight
    Seconds now{0};          ///< of the last proposal
    std::int64_t served = 0; ///< all tokens generated by then
  };

  /// Counts the tokens, and the deadlines that paused requests without a deposit have missed, since the last proposal.
  /// A TBT SLO of 0 has no deadlines that a pause could miss: every token is late, paused or not. Neither has a request
  /// before its first token.
  void look_back(const View& view, State& state) const {
    const Seconds passed = view.now - state.now;
    const double keeps = math::exp2(-passed.count() / window);
    state.tokens = keeps * state.tokens + static_cast<double>(view.served->tokens - state.served);
    state.spent *= keeps;
    for (const Slot slot : view.preempted)
      if (const RequestRow& row = view.row(slot);
          row.generated.count() > 0 && row.deposit().count() == 0 && row.spec.slo.tbt.count() > 0)
        state.spent += passed / row.spec.slo.tbt;
    state.now = view.now;
    state.served = view.served->tokens;
  }
  /// Whether one more request may be paused.
  [[nodiscard]] bool allows(const View& view, const State& state) const {
    const double batch = 1 + static_cast<double>(view.running.size());
    return misses * state.tokens / (batch * math::sqrt(batch)) > state.spent;
  }
};

} // namespace sluice
