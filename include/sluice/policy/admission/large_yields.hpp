// SPDX-License-Identifier: Apache-2.0
// SlackFirst's queues: FirstTokenQueues, by whether a first token can be in time; LargeYields, for large requests.
#pragma once

#include "sluice/core/math.hpp"
#include "sluice/core/numbers.hpp"
#include "sluice/policy/admission/batching.hpp"
#include "sluice/state/view/proposal.hpp"
#include "sluice/state/view/request_row.hpp"
#include "sluice/state/view/view.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <set>
#include <vector>

namespace sluice {

// LargeYields: requests larger than the device let newcomers in, and have turns of their own.

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
    const TokenBlocks blocks = view.geometry.blocks_within(view.ledger->device().capacity());
    return size * static_cast<double>(blocks.count() * view.limits.block_tokens.count());
  }
  /// The size up to which a newcomer is expected to fit: with the median past output, unless sizes have the `lengths`.
  [[nodiscard]] double newcomer_limit(const View& view, bool lengths) const {
    return limit(view) - (lengths ? 0 : view.lengths->remaining(Tokens{0}, 0.5, 5, 0));
  }
  /// Whether a request yields: it is large, and behind its schedule.
  [[nodiscard]] bool yields(const View& view, const RequestRow& row) const {
    return row.generated.count() > 0 && ahead_s(row, view.now) < 0 &&
           static_cast<double>(row.context().count() + 1) > limit(view);
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

// FirstTokenQueues: waiting requests, those whose first token can be in time apart from those that are late.

/// A part of admission policies: the waiting requests in the orders that a policy of first tokens needs. A request is
/// in time until its TTFT SLO has passed, and late from then on. One without a TTFT SLO is neither: it is open.
/// `enter` and `leave` have the meaning of the role's hooks; each call costs O(log n).
class FirstTokenQueues {
 public:
  std::set<QueueEntry> due;   ///< requests in time, by the deadline of their first token
  std::set<QueueEntry> fresh; ///< the same requests, by size
  std::set<QueueEntry> late;  ///< the late ones, by size
  std::set<QueueEntry> open;  ///< the open ones, by arrival
  std::set<QueueEntry> waits; ///< the late and the open ones, by arrival
  int passed = 0;             ///< requests that have left since the oldest late or open one did
  int passed_open = 0;        ///< requests that have left since an open one did

  /// `tokens`: the request's size. It is kept until the request leaves, because a prediction may change.
  void enter(Slot slot, const RequestRow& row, double tokens) {
    if (index(slot) >= tokens_.size()) tokens_.resize(index(slot) + 1);
    tokens_[index(slot)] = tokens;
    if (math::isinf(row.spec.slo.ttft.count())) {
      open.insert(QueueEntry::by_arrival(row, slot));
      waits.insert(QueueEntry::by_arrival(row, slot));
      return;
    }
    due.insert(QueueEntry::by_deadline(row, slot));
    fresh.insert(by_size(slot, row));
  }
  void leave(Slot slot, const RequestRow& row) {
    passed = oldest() == slot ? 0 : passed + 1;
    waits.erase(QueueEntry::by_arrival(row, slot));
    passed_open = open.erase(QueueEntry::by_arrival(row, slot)) > 0 ? 0 : passed_open + 1;
    if (passed_open == 0) return;
    due.erase(QueueEntry::by_deadline(row, slot));
    if (fresh.erase(by_size(slot, row)) == 0) late.erase(by_size(slot, row));
  }
  /// Moves those whose deadline has passed to the late ones.
  void find_late(const View& view) {
    while (!due.empty() && due.begin()->key < view.now.count()) {
      const Slot slot = due.begin()->slot;
      const RequestRow& row = view.row(slot);
      due.erase(due.begin());
      fresh.erase(by_size(slot, row));
      late.insert(by_size(slot, row));
      waits.insert(QueueEntry::by_arrival(row, slot));
    }
  }
  /// Visits `first`, unless it is nobody, then those in time of at most `most` tokens, the open ones of at most as
  /// many, the late ones, and the others in time and open; each the smallest first, but open ones by arrival; until
  /// `visit` returns false. `between()` is called before the open ones; false ends the visit, too.
  template <class Visit, class Between>
  void visit_by_size(Slot first, double most, Visit&& visit, Between&& between) const {
    if (first != nobody && !visit(first)) return;
    const auto visited = [&](const QueueEntry& next) { return next.slot == first || visit(next.slot); };
    const auto behind = fresh.upper_bound({most, RequestId{0xffffffffu}, nobody});
    const auto visits_open = [&](bool large) {
      return std::all_of(open.begin(), open.end(), [&](const QueueEntry& next) {
        return (tokens_[index(next.slot)] > most) != large || visited(next);
      });
    };
    if (std::all_of(fresh.begin(), behind, visited) && between() && visits_open(false) &&
        std::all_of(late.begin(), late.end(), visited) && std::all_of(behind, fresh.end(), visited))
      visits_open(true);
  }
  struct Next {
    Slot urgent = nobody, smallest = nobody;
  };
  /// Of the requests in time that `accept` takes, the one with the first deadline and the smallest; or nobody.
  template <class Accept>
  [[nodiscard]] Next next(Accept&& accept) const {
    const auto first = [&](const std::set<QueueEntry>& queue) {
      const auto at = std::find_if(queue.begin(), queue.end(), [&](const QueueEntry& one) { return accept(one.slot); });
      return at == queue.end() ? nobody : at->slot;
    };
    return {first(due), first(fresh)};
  }
  /// The same of those of at most `most` tokens, if a prompt token takes `token_s`. Not a request that waits for a
  /// tier's blocks, or whose prompt takes longer than the time it has left.
  [[nodiscard]] Next next_in_time(const View& view, double token_s,
                                  double most = std::numeric_limits<double>::infinity()) const {
    return next([&](Slot slot) {
      const double slack = first_token_slack_s(view.row(slot), view.now, token_s);
      return tokens_[index(slot)] <= most && !view.row(slot).waits && slack >= 0;
    });
  }
  /// The late or open request that has waited for longest, or nobody.
  [[nodiscard]] Slot oldest() const { return waits.empty() ? nobody : waits.begin()->slot; }
  /// Whether an open request is next, once in `every` requests that leave. Nobody presses then: a newcomer that presses
  /// joins before it, and pauses the one that has just had its turn.
  [[nodiscard]] bool open_turn(int every) const { return passed_open + 1 >= every && !open.empty(); }
  /// The request that is next before all others: the oldest once in `turn` requests that leave, the oldest open one
  /// once in `open_every`; else nobody.
  [[nodiscard]] Slot next_in_turn(int turn, int open_every) const {
    if (passed >= turn) return oldest();
    return open_turn(open_every) ? open.begin()->slot : nobody;
  }
  /// The request in time with the last deadline, or nobody.
  [[nodiscard]] Slot last_due() const { return due.empty() ? nobody : std::prev(due.end())->slot; }

 private:
  [[nodiscard]] QueueEntry by_size(Slot slot, const RequestRow& row) const {
    return {tokens_[index(slot)], row.id, slot};
  }

  std::vector<double> tokens_; ///< by slot
};

} // namespace sluice
