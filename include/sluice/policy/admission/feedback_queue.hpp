// SPDX-License-Identifier: Apache-2.0
// FeedbackQueue: levels of requests by how long they have run, the shortest first (FastServe).
#pragma once

#include "sluice/state/view/view.hpp"

#include <algorithm>
#include <compare>
#include <cstdint>
#include <set>
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

} // namespace sluice
