// SPDX-License-Identifier: Apache-2.0
// SlackFirst: newcomers whose first token can still be in time go first, the smallest before the others.
#pragma once

#include "sluice/core/numbers.hpp"
#include "sluice/policy/admission/admission.hpp"
#include "sluice/policy/admission/batching.hpp"
#include "sluice/policy/admission/prompt_chunk.hpp"
#include "sluice/state/view/slack.hpp"

#include <algorithm>
#include <compare>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <vector>

namespace sluice {

/// Decides which deadlines to keep if not all can be kept:
///
///  1. *Order*: newcomers whose first token can still be in time, the smallest first, which serves the most of them;
///     then those that are late, the smallest first, and once in `turn` joins the oldest of all, so that none starves.
///  2. *Pressing*: a newcomer that has waited for `patience` joins at the cost of the running request whose pause costs
///     least, if that one is `ratio` times as large, and as long as all pauses have missed fewer than `misses`
///     deadlines a token.
///  3. Prompts are computed in chunks that the decodes' SLO allows (PromptChunk).
struct SlackFirst {
  using role = roles::Admission;
  static constexpr bool steady = false; // order and chunks move with time
  static constexpr bool knows_lengths = false;
  static constexpr Batching batching = Batching::chunked;

  PromptChunk chunk{};
  double misses = 0.4;   ///< deadlines that pauses may miss per token generated, where few requests run
  double crowd = 4;      ///< ... and fewer with more: by crowd / (crowd + running)
  double ratio = 4;      ///< size of the request that is preempted, relative to the newcomer's
  double patience = 0.3; ///< share of the TTFT SLO after which a newcomer presses
  int turn = 32;         ///< once in so many joins the oldest late request is next
  static constexpr auto numbers = Numbers{
      "SlackFirst",
      Number{"share", member_of(&SlackFirst::chunk, &PromptChunk::share), 0, 1,
             "of the tightest SLO for an iteration with prompts"},
      Number{"least_chunk", member_of(&SlackFirst::chunk, &PromptChunk::least), 1, 1e9,
             "prompt tokens in an iteration, at least"},
      Number{"misses", &SlackFirst::misses, 0, 1e9, "deadlines that pauses may miss per token generated"},
      Number{"crowd", &SlackFirst::crowd, 0, 1e9, "fewer with more requests: by crowd / (crowd + running)"},
      Number{"ratio", &SlackFirst::ratio, 0, 1e9, "size of the request that is preempted, relative to the newcomer's"},
      Number{"patience", &SlackFirst::patience, 0, 1e9, "share of the TTFT SLO after which a newcomer presses"},
      Number{"turn", &SlackFirst::turn, 1, 1e9, "once in so many joins the oldest late request is next"}};

  struct Entry {
    double key = 0;
    RequestId id{};
    Slot slot{};
    friend auto operator<=>(const Entry&, const Entry&) = default;
  };
  struct State {
    std::set<Entry> due;         ///< requests that can be in time, by the deadline of their first token
    std::set<Entry> fresh, late; ///< those that can be in time, and those that cannot: by size
    std::set<Entry> waits;       ///< the latter by arrival
    std::vector<Slot> back;      ///< scratch: preempted requests by size
    PromptChunk::State chunk;
    double spent = 0; ///< deadlines that pauses have missed
    Seconds now{0};   ///< of the last proposal
    int passed = 0;   ///< joins since the oldest's
  };

  void enter(State& state, Slot slot, const RequestRow& row) const {
    state.due.insert(by_deadline(row, slot));
    state.fresh.insert(by_size(row, slot));
  }
  void leave(State& state, Slot slot, const RequestRow& row) const {
    const bool oldest = !state.waits.empty() && state.waits.begin()->slot == slot;
    state.passed = oldest ? 0 : state.passed + 1;
    state.due.erase(by_deadline(row, slot));
    state.waits.erase(by_arrival(row, slot));
    if (state.fresh.erase(by_size(row, slot)) == 0) state.late.erase(by_size(row, slot));
  }
  void propose(const View& view, State& state, Proposal& proposal) const {
    for (const Slot slot : view.preempted)
      if (const RequestRow& row = view.row(slot); row.deposit().count() == 0)
        state.spent += (view.now - state.now) / row.spec.slo.tbt;
    state.now = view.now;
    while (!state.due.empty() && state.due.begin()->key < view.now.count()) grow_late(view, state);
    // The last deadline; requests without one come after all others.
    const auto after = state.due.lower_bound({std::numeric_limits<double>::infinity(), {}, {}});
    const RequestRow* const newest = after == state.due.begin() ? nullptr : &view.row(std::prev(after)->slot);
    Builder claims(view, proposal, chunk.budget(view, state.chunk, newest));
    for (const bool decoding : {true, false})
      for (const Slot slot : view.running)
        if ((view.row(slot).pending().count() <= 1) == decoding) claims.keep(slot);
    join(view, state, claims);
    chunk.proposed(view, state.chunk, proposal);
  }
  void settle(const View& /*view*/, std::span<Claim> /*accepted*/) const {}

 private:
  using Builder = ClaimBuilder<Batching::chunked, Newcomers::optional>;
  static Entry by_size(const RequestRow& row, Slot slot) {
    return {static_cast<double>(row.context().count()), row.id, slot};
  }
  static Entry by_deadline(const RequestRow& row, Slot slot) {
    return {(row.spec.arrival + row.spec.slo.ttft).count(), row.id, slot};
  }
  static Entry by_arrival(const RequestRow& row, Slot slot) { return {row.spec.arrival.count(), row.id, slot}; }

  static void grow_late(const View& view, State& state) {
    const Slot slot = state.due.begin()->slot;
    const RequestRow& row = view.row(slot);
    state.due.erase(state.due.begin());
    state.fresh.erase(by_size(row, slot));
    state.late.insert(by_size(row, slot));
    state.waits.insert(by_arrival(row, slot));
  }
  void join(const View& view, State& state, Builder& claims) const {
    const std::optional<Slot> pressing = press(view, state, claims);
    if (pressing && claims.full()) return;
    state.back.assign(view.preempted.begin(), view.preempted.end());
    std::stable_sort(state.back.begin(), state.back.end(),
                     [&](Slot a, Slot b) { return view.row(a).context() < view.row(b).context(); });
    for (const Slot slot : state.back)
      if (view.row(slot).may_return && !claims.join(slot, false)) return;
    std::optional<Slot> first;
    if (state.passed >= turn && !state.waits.empty()) first = state.waits.begin()->slot;
    if (first && !claims.join(*first, false)) return;
    for (const std::set<Entry>* queue : {&state.fresh, &state.late})
      for (const Entry& next : *queue)
        if (next.slot != pressing && next.slot != first && !claims.join(next.slot, false)) return;
  }
  /// Claims a place for the first newcomer if it presses. One in an iteration: it may cost a request.
  std::optional<Slot> press(const View& view, const State& state, Builder& claims) const {
    const auto running = static_cast<double>(view.running.size());
    const double affordable = misses * static_cast<double>(view.served->tokens) * crowd / (crowd + running);
    if (state.fresh.empty() || affordable <= state.spent) return {};
    std::optional<Slot> pays;
    PauseOrder most{true};
    for (const Slot slot : view.running)
      if (const PauseOrder one = PauseOrder::of(view.row(slot), view.now); one.started && (!pays || one >= most)) {
        pays = slot;
        most = one;
      }
    const RequestRow& row = view.row(state.fresh.begin()->slot);
    const double size = state.fresh.begin()->key;
    const double done = (view.now - row.spec.arrival).count() + PromptChunk::until_done_s(state.chunk, size);
    if (!pays || ratio * size >= static_cast<double>(view.row(*pays).computed.count()) ||
        done <= patience * row.spec.slo.ttft.count() || !claims.press(state.fresh.begin()->slot, *pays))
      return {};
    return state.fresh.begin()->slot;
  }
};

static_assert(explain<SlackFirst>());

} // namespace sluice
