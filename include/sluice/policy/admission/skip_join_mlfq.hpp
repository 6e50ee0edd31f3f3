// SPDX-License-Identifier: Apache-2.0
// SkipJoinMlfq: a multi-level feedback queue whose newcomers skip levels by the time of their prompt (FastServe).
#pragma once

#include "sluice/core/numbers.hpp"
#include "sluice/policy/admission/admission.hpp"
#include "sluice/policy/admission/batching.hpp"

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <vector>

namespace sluice {

/// FastServe's scheduler (Wu et al., arXiv 2305.05920, section 4.1). Output lengths are unknown, so requests that have
/// run for long count as long:
///
///  - Level i has a quantum of `quantum` times `ratio`^i. A request that has run for its level's quantum goes to the
///    end of the next level.
///  - *Skip-join*: a newcomer starts at the first level whose quantum its prompt's time does not exceed. In a plain
///    feedback queue a long prompt would be demoted before its first token.
///  - Requests run in order of their levels, and within a level of when they came to it, as many as batch and device
///    memory hold. Running requests that are not among them leave.
///  - A request that has not run for `starvation` goes to the first level.
///
/// The levels are decided between iterations, so a quantum may be exceeded by one iteration.
struct SkipJoinMlfq {
  using role = roles::Admission;
  static constexpr bool steady = false; // quanta end with time
  static constexpr bool knows_lengths = false;
  static constexpr Batching batching = Batching::chunked;

  Seconds quantum{0.05}; ///< of the first level: about an iteration
  double ratio = 2;
  int levels = 12;
  Seconds starvation{60};
  static constexpr auto numbers =
      Numbers{"SkipJoinMlfq", Number{"quantum", &SkipJoinMlfq::quantum, 1e-6, 1e6, "seconds of the first level"},
              Number{"ratio", &SkipJoinMlfq::ratio, 1, 100, "of a level's quantum to that of the level before"},
              Number{"levels", &SkipJoinMlfq::levels, 1, 64, "levels of the queue"},
              Number{"starvation", &SkipJoinMlfq::starvation, 1e-6, 1e9,
                     "seconds without running after which a request goes to the first level"}};

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
    std::vector<Slot> fresh;       ///< newcomers without a level
    std::set<Entry> queue;         ///< the other waiting requests
    std::vector<Entry> order;      ///< scratch: the requests that could run, by level
    Seconds now{0};                ///< of the last proposal
    std::int64_t came = 0;
  };

  void enter(State& state, Slot slot, const RequestRow& row) const {
    if (index(slot) >= state.accounts.size()) state.accounts.resize(index(slot) + 1);
    state.accounts[index(slot)] = {.at = {0, 0, slot}, .idle = row.spec.arrival};
    state.fresh.push_back(slot);
  }
  void leave(State& state, Slot slot, const RequestRow& /*row*/) const {
    std::erase(state.fresh, slot);
    state.queue.erase(state.accounts[index(slot)].at);
  }

  void propose(const View& view, State& state, Proposal& proposal, const Estimate& estimate) const {
    for (const Slot slot : state.fresh) {
      move_to(state, slot, first_level(estimate, view.row(slot)));
      state.queue.insert(state.accounts[index(slot)].at);
    }
    state.fresh.clear();
    charge(view, state);
    list(view, state);
    choose(view, state);
    ClaimBuilder<batching, Newcomers::optional> claims(view, proposal);
    const auto chosen = [&](Slot slot) {
      return std::any_of(state.order.begin(), state.order.end(), [slot](const Entry& one) { return one.slot == slot; });
    };
    for (const Slot slot : view.running) {
      if (chosen(slot))
        claims.keep(slot);
      else
        proposal.leaving.push_back(slot);
    }
    for (const Entry& next : state.order)
      if (view.row(next.slot).phase != Phase::running && !claims.join(next.slot, false)) break;
  }
  void settle(const View& /*view*/, std::span<Claim> /*accepted*/) const {}

 private:
  [[nodiscard]] Seconds quantum_of(int level) const {
    Seconds all = quantum;
    for (int i = 0; i < level; ++i) all = all * ratio;
    return all;
  }
  [[nodiscard]] int first_level(const Estimate& estimate, const RequestRow& row) const {
    const ChunkWork prompt{row.pending(), row.computed};
    Work work;
    work.chunks = {&prompt, 1};
    work.samples = 1;
    const Seconds time = estimate.step(work);
    int level = 0;
    while (level + 1 < levels && quantum_of(level) < time) ++level;
    return level;
  }
  static void move_to(State& state, Slot slot, int level) {
    Account& account = state.accounts[index(slot)];
    account.at = {level, state.came++, slot};
    account.ran = Seconds{0};
  }

  /// Charges the time since the last proposal to the requests that ran in it, demotes and promotes.
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
    for (auto next = state.queue.begin(); next != state.queue.end();) {
      const Entry first = *next;
      if (first.level > 0 && starves(state.accounts[index(first.slot)])) {
        state.queue.erase(next);
        move_to(state, first.slot, 0);
        state.queue.insert(state.accounts[index(first.slot)].at);
        next = state.queue.lower_bound({first.level, 0, Slot{0}});
      } else {
        next = state.queue.lower_bound({first.level + 1, 0, Slot{0}});
      }
    }
  }

  /// All running requests, those that may return, and as many waiting ones as a batch holds, in their order.
  static void list(const View& view, State& state) {
    state.order.clear();
    for (const Slot slot : view.running) state.order.push_back(state.accounts[index(slot)].at);
    for (const Slot slot : view.preempted)
      if (view.row(slot).may_return) state.order.push_back(state.accounts[index(slot)].at);
    int places = view.limits.batch;
    for (auto next = state.queue.begin(); next != state.queue.end() && places > 0; ++next, --places)
      state.order.push_back(*next);
    std::sort(state.order.begin(), state.order.end());
  }

  /// Keeps the first ones that batch and device memory hold together; the first one always.
  static void choose(const View& view, State& state) {
    std::int64_t left = view.ledger->device().capacity().count();
    std::size_t count = 0;
    for (; count < state.order.size() && static_cast<int>(count) < view.limits.batch; ++count) {
      const RequestRow& row = view.row(state.order[count].slot);
      left -= row.blocks_after(row.pending(), view.limits.block_tokens).count() * view.geometry.layers;
      if (left < 0 && count > 0) break;
    }
    state.order.resize(count);
  }
};

static_assert(explain<SkipJoinMlfq>());

} // namespace sluice
