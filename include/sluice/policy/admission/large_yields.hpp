// SPDX-License-Identifier: Apache-2.0
// LargeYields: requests larger than the device let newcomers in, and have turns of their own.
#pragma once

#include "sluice/core/numbers.hpp"
#include "sluice/state/view/proposal.hpp"
#include "sluice/state/view/slack.hpp"
#include "sluice/state/view/view.hpp"

#include <algorithm>
#include <vector>

namespace sluice {

/// A part of admission policies. A request whose KV is larger than the device is fetched in part in every step, so it
/// runs nearly alone, beyond its TBT SLO, and newcomers wait until it ends. Once it is behind its whole schedule
/// (PauseOrder), it has no SLO to lose, and yields. Times are in *units* (pause_unit): its TTFT SLO, or ten TBT SLOs if
/// longer.
///
///  - *It leaves* for a newcomer whose prompt can be computed in time, and which is expected to fit the device: after a
///    turn of `run` units, and not while another such request is paused.
///  - *It returns* after newcomers in time and before late ones. Newcomers that are expected to be as large come last.
///  - *Overdue*: once no such request has had a turn for `wait` units, nobody presses or joins before the one that has
///    been paused for longest. So it runs when the batch has ended, at the latest, and does not pay for others during
///    its turn. A turn that ends early, because others that run have grown, does not count.
///
/// So if nobody else is as large, a pause lasts at most `wait` units and D, the time until those that run then have
/// ended. A request that runs for T units in all takes at most T + (T / run + 1) (wait + D) units from when it yields:
/// by default nine times T, and D for each turn. (The host must have room for its KV.) Several share these turns.
///
/// Rejected, on demo with 150 to 350 token blocks: turns of a quarter unit (up to 3 points more SLOs, for a bound of 33
/// T), of two units (up to 5 fewer), and large newcomers in the order of the others (up to 2 points of TBT attainment).
struct LargeYields {
  double size = 1; ///< devices that the KV of a request fills that yields
  double wait = 8; ///< units without a turn after which a paused request is overdue
  double run = 1;  ///< units of a turn, at least
  static constexpr auto numbers = Numbers{
      "LargeYields", Number{"size", &LargeYields::size, 0.1, 1e9, "devices that the KV of a request fills that yields"},
      Number{"wait", &LargeYields::wait, 1, 1e9,
             "units (TTFT SLO, or ten TBT SLOs) without a turn after which nobody joins before it"},
      Number{"run", &LargeYields::run, 0.1, 1e9, "units that it runs before it yields"}};

  struct State {
    Seconds served{0};        ///< when the last turn was complete, or nobody that yields was paused
    std::vector<Slot> paused; ///< paused requests that yield and may return, the longest paused first
    std::vector<Slot> turns;  ///< running requests that have their turn: they do not pay
    std::vector<Slot> others; ///< scratch: the other paused requests
    Slot overdue = nobody;    ///< the first of `paused`, if nobody may press or join before it
  };

  /// The tokens of KV above which a request is large.
  [[nodiscard]] double limit(const View& view) const {
    const auto blocks = view.ledger->device().capacity().count() / view.geometry.layers;
    return size * static_cast<double>(blocks * view.limits.block_tokens.count());
  }
  /// The size up to which a newcomer is expected to fit: with the median past output, unless sizes have the `lengths`.
  [[nodiscard]] double newcomer_limit(const View& view, bool lengths) const {
    return limit(view) - (lengths ? 0 : view.lengths->remaining(Tokens{0}, 0.5, 5, 0));
  }
  /// Whether a request yields: it is large, and behind its schedule.
  [[nodiscard]] bool yields(const View& view, const RequestRow& row) const {
    return static_cast<double>(row.context().count() + 1) > limit(view) && row.generated.count() > 0 &&
           ahead_s(row, view.now) < 0;
  }
  /// Reads which requests run and which are paused. Call it once for each proposal, before the others.
  void look_back(const View& view, State& state) const {
    state.paused.clear();
    state.turns.clear();
    for (const Slot slot : view.running) {
      const RequestRow& row = view.row(slot);
      if (row.times_preempted == 0 || !yields(view, row)) continue;
      if (view.now < turn_end(row))
        state.turns.push_back(slot);
      else
        state.served = std::max(state.served, turn_end(row));
    }
    for (const Slot slot : view.preempted)
      if (yields(view, view.row(slot))) state.paused.push_back(slot);
    if (state.paused.empty() && state.turns.empty()) state.served = view.now;
    std::erase_if(state.paused, [&](Slot slot) { return !view.row(slot).may_return; });
    std::stable_sort(state.paused.begin(), state.paused.end(),
                     [&](Slot a, Slot b) { return view.row(a).preempted_since < view.row(b).preempted_since; });
    const Slot first = state.paused.empty() || !state.turns.empty() ? nobody : state.paused.front();
    state.overdue = first != nobody && view.now - state.served >= wait * pause_unit(view.row(first)) ? first : nobody;
  }
  /// Lets the running request leave that yields to a newcomer; returns it, or nobody. `comes()`: whether there is one.
  template <class Comes>
  [[nodiscard]] Slot leave(const View& view, Proposal& proposal, Comes&& comes) const {
    const auto yielding = [&](Slot slot) { return yields(view, view.row(slot)); };
    if (std::any_of(view.preempted.begin(), view.preempted.end(), yielding))
      return nobody; // even if Relief holds it back
    const auto leaves = [&](Slot slot) { return view.now >= turn_end(view.row(slot)) && yielding(slot); };
    const auto at = std::find_if(view.running.begin(), view.running.end(), leaves);
    if (at == view.running.end() || !comes()) return nobody;
    proposal.leaving.push_back(*at);
    return *at;
  }
  /// Visits the paused requests that return before newcomers until `visit` returns false: the one that is overdue, and
  /// those that do not yield, the smallest first. Returns whether it never did.
  template <class Visit>
  static bool visit_first(const View& view, State& state, Visit&& visit) {
    if (state.overdue != nobody && !visit(state.overdue)) return false;
    state.others.clear();
    const auto later = [&](Slot slot) { return std::count(state.paused.begin(), state.paused.end(), slot) > 0; };
    for (const Slot slot : view.preempted)
      if (view.row(slot).may_return && !later(slot)) state.others.push_back(slot);
    std::stable_sort(state.others.begin(), state.others.end(),
                     [&](Slot a, Slot b) { return view.row(a).context() < view.row(b).context(); });
    return std::all_of(state.others.begin(), state.others.end(), visit);
  }
  /// The same for all others, which return after newcomers in time.
  template <class Visit>
  static bool visit_later(const State& state, Visit&& visit) {
    const auto visited = [&](Slot slot) { return slot == state.overdue || visit(slot); };
    return std::all_of(state.paused.begin(), state.paused.end(), visited);
  }

 private:
  [[nodiscard]] Seconds turn_end(const RequestRow& row) const { return row.running_since + run * pause_unit(row); }
};

} // namespace sluice
