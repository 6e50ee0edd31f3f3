// SPDX-License-Identifier: Apache-2.0
// FeedbackQueue: levels of requests by how long they have run, the shortest first (FastServe), and when each runs next.
#pragma once

#include "sluice/state/view/proposal.hpp"
#include "sluice/state/view/view.hpp"

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace sluice {

/// A multi-level feedback queue. Level i has a quantum of `quantum` times `ratio`^i. A request that has run for its
/// level's quantum goes to the end of the next level; one that has not run for `starvation` goes to the first. Requests
/// run in order of their levels, and within a level of when they came to it.
///
/// The levels are decided between iterations, so a quantum may be exceeded by one iteration.
struct FeedbackQueue {
  Seconds quantum{0.05}; ///< of the first level: about an iteration
  double ratio = 2;
  int levels = 12;
  Seconds starvation{60};

  /// The order in which requests run.
  struct Entry {
    int level = 0;
    std::int64_t since = 0; ///< place in the order of coming to a level
    Slot slot{};
    friend auto operator<=>(const Entry&, const Entry&) = default;
  };
  struct Account {
    Entry at{};
    Seconds ran{0};  ///< since it came to its level
    Seconds idle{0}; ///< when it last stopped running, or arrived
    bool runs = false;
  };
  struct State {
    std::vector<Account> accounts; ///< by slot
    std::set<Entry> waiting;       ///< requests that have never run
    Seconds now{0};                ///< of the last charge
    std::int64_t came = 0;
    [[nodiscard]] const Entry& at(Slot slot) const { return accounts[index(slot)].at; }
  };

  /// A request arrives, without a level yet.
  static void enter(State& state, Slot slot, const RequestRow& row) {
    if (index(slot) >= state.accounts.size()) state.accounts.resize(index(slot) + 1);
    state.accounts[index(slot)] = {.at = {0, 0, slot}, .idle = row.spec.arrival};
  }
  /// It waits in the first level whose quantum `time` does not exceed.
  void start(State& state, Slot slot, Seconds time) const {
    int level = 0;
    while (level + 1 < levels && quantum_of(level) < time) ++level;
    move_to(state, slot, level);
    state.waiting.insert(state.at(slot));
  }
  /// It waits no longer: it runs, or has gone.
  static void leave(State& state, Slot slot) { state.waiting.erase(state.at(slot)); }

  /// Charges the time since the last charge to the requests that ran in it, demotes and promotes.
  void charge(const View& view, State& state) const {
    const Seconds passed = view.now - state.now;
    state.now = view.now;
    for (const Slot slot : view.running) {
      Account& account = state.accounts[index(slot)];
      account.ran += std::min(passed, view.now - view.row(slot).running_since);
      account.runs = true;
      if (account.ran >= quantum_of(account.at.level) && account.at.level + 1 < levels)
        move_to(state, slot, account.at.level + 1);
    }
    const auto starves = [&](const Account& account) { return view.now - account.idle > starvation; };
    for (const Slot slot : view.preempted) {
      Account& account = state.accounts[index(slot)];
      if (account.runs) account.idle = view.row(slot).preempted_since;
      account.runs = false;
      if (account.at.level > 0 && starves(account)) move_to(state, slot, 0);
    }
    // Of the waiting ones those that could not run soon: a look at each level's first is enough.
    for (auto next = state.waiting.begin(); next != state.waiting.end();) {
      const Entry first = *next;
      if (first.level > 0 && starves(state.accounts[index(first.slot)])) {
        state.waiting.erase(next);
        move_to(state, first.slot, 0);
        state.waiting.insert(state.at(first.slot));
        next = state.waiting.lower_bound({first.level, 0, Slot{0}});
      } else {
        next = state.waiting.lower_bound({first.level + 1, 0, Slot{0}});
      }
    }
  }

  [[nodiscard]] Seconds quantum_of(int level) const {
    Seconds all = quantum;
    for (int i = 0; i < level; ++i) all = all * ratio;
    return all;
  }

 private:
  static void move_to(State& state, Slot slot, int level) {
    Account& account = state.accounts[index(slot)];
    account.at = {level, state.came++, slot};
    account.ran = Seconds{0};
  }
};

// NextScheduled: the estimated time until a request of a feedback queue runs again, by which its KV is swapped.

/// FastServe's estimated next scheduled time (arXiv 2305.05920v3, section 4.2). A request runs again when starvation
/// promotes it, or when the requests of higher levels have been demoted to its own level, whichever comes first:
///
///     ENST(i) = min(T_promote(i), T_execute(i))
///     T_execute(i) = 1/B * sum over j of a higher level than i, sum over levels k from j's to the one above i's: q_k
///
/// B requests run at once, and none is assumed to end before its demotion. KV of the request with the largest time is
/// offloaded first, that of the one with the least is uploaded first. Requests of one level that starvation does not
/// promote earlier have the same time; they keep the queue's order.
struct NextScheduled {
  /// Counts the requests of each level: all that have KV (`those`), and all that wait.
  NextScheduled(const FeedbackQueue& queue, const FeedbackQueue::State& state,
                std::span<const FeedbackQueue::Entry> those, int batch)
      : queue_(queue), state_(state), execute_(static_cast<std::size_t>(queue.levels), Seconds{0}) {
    std::vector<double> at(execute_.size(), 0.0);
    for (const FeedbackQueue::Entry& entry : those) at[static_cast<std::size_t>(entry.level)] += 1;
    for (const FeedbackQueue::Entry& entry : state.waiting) at[static_cast<std::size_t>(entry.level)] += 1;
    double higher = 0; // requests of levels above `level`: each runs that level's predecessor's quantum once more
    for (std::size_t level = 1; level < execute_.size(); ++level) {
      higher += at[level - 1];
      execute_[level] = execute_[level - 1] + queue.quantum_of(static_cast<int>(level) - 1) * (higher / batch);
    }
  }

  /// Until the request is promoted; 0 on the first level, and for one that starves already.
  [[nodiscard]] Seconds promote(Slot slot, Seconds now) const {
    const FeedbackQueue::Account& account = state_.accounts[index(slot)];
    if (account.at.level == 0) return Seconds{0};
    return std::max(Seconds{0}, queue_.starvation - (account.runs ? Seconds{0} : now - account.idle));
  }
  /// Until the requests of higher levels have come down to its level.
  [[nodiscard]] Seconds execute(Slot slot) const { return execute_[static_cast<std::size_t>(state_.at(slot).level)]; }
  /// Until it runs again.
  [[nodiscard]] Seconds operator()(Slot slot, Seconds now) const { return std::min(promote(slot, now), execute(slot)); }

  /// Writes the slots of `those` to `order`, the soonest first.
  void sort(std::span<const FeedbackQueue::Entry> those, Seconds now, std::vector<Slot>& order) const {
    std::vector<std::pair<Seconds, FeedbackQueue::Entry>> keys;
    for (const FeedbackQueue::Entry& entry : those) keys.emplace_back((*this)(entry.slot, now), entry);
    std::sort(keys.begin(), keys.end());
    order.clear();
    for (const auto& [until, entry] : keys) order.push_back(entry.slot);
  }

 private:
  const FeedbackQueue& queue_;
  const FeedbackQueue::State& state_;
  std::vector<Seconds> execute_; ///< by level
};

/// Names the requests that have run and have no claim, by when they are expected to run again (`Proposal::next`).
inline void expect_next(const FeedbackQueue& queue, const FeedbackQueue::State& state, const View& view,
                        Proposal& proposal) {
  if (proposal.leaving.empty() && view.preempted.empty()) return;
  std::vector<FeedbackQueue::Entry> begun;
  for (const auto& list : {view.running, view.preempted})
    for (const Slot slot : list) begun.push_back(state.at(slot));
  const NextScheduled next(queue, state, begun, view.limits.batch);
  std::vector<Slot> claimed;
  for (const Claim& claim : proposal.claims) claimed.push_back(claim.slot);
  std::sort(claimed.begin(), claimed.end());
  std::erase_if(begun, [&claimed](const FeedbackQueue::Entry& one) {
    return std::binary_search(claimed.begin(), claimed.end(), one.slot);
  });
  next.sort(begun, view.now, proposal.next);
}

} // namespace sluice
