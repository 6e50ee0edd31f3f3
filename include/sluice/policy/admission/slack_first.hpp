// SPDX-License-Identifier: Apache-2.0
// SlackFirst: newcomers whose first token can still be in time go first, the smallest before the others.
#pragma once

#include "sluice/core/numbers.hpp"
#include "sluice/policy/admission/admission.hpp"
#include "sluice/policy/admission/batching.hpp"
#include "sluice/policy/admission/pressing.hpp"
#include "sluice/policy/admission/prompt_chunk.hpp"

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
///  2. *Pressing*: once the most urgent newcomer has waited for `patience`, the next one joins at the cost of a running
///     request that can bear a pause, and paused requests return in the same way before their SLO is lost (Pressing).
///  3. Prompts are computed in chunks that the decodes' SLO allows (PromptChunk).
struct SlackFirst {
  using role = roles::Admission;
  static constexpr bool steady = false; // order and chunks move with time
  static constexpr bool knows_lengths = false;
  static constexpr Batching batching = Batching::chunked;

  PromptChunk chunk{};
  Pressing pressing{};
  double patience = 0.3; ///< share of the most urgent newcomer's TTFT SLO after which newcomers press
  int turn = 32;         ///< once in so many joins the oldest late request is next
  static constexpr auto numbers =
      Numbers{"SlackFirst",
              Number{"share", member_of(&SlackFirst::chunk, &PromptChunk::share), 0, 1,
                     "of the tightest SLO for an iteration with prompts"},
              Number{"least_chunk", member_of(&SlackFirst::chunk, &PromptChunk::least), 1, 1e9,
                     "prompt tokens in an iteration, at least"},
              Number{"misses", member_of(&SlackFirst::pressing, &Pressing::misses), 0, 1e9,
                     "deadlines that pauses may miss per token generated, divided by (1 + running)^1.5"},
              Number{"longest", member_of(&SlackFirst::pressing, &Pressing::longest), 1, 1e9,
                     "TTFT SLOs after which a paused request presses, whatever its slack"},
              Number{"patience", &SlackFirst::patience, 0, 1e9, "share of a TTFT SLO after which newcomers press"},
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
    Pressing::State pressing;
    int passed = 0; ///< joins since the oldest's
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
    Pressing::look_back(view, state.pressing);
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
    const std::optional<Slot> pressed = press(view, state, claims);
    if (pressed && claims.full()) return;
    const auto joins = [&](Slot slot) { return slot == pressed || claims.join(slot, false); };
    state.back.assign(view.preempted.begin(), view.preempted.end());
    std::stable_sort(state.back.begin(), state.back.end(),
                     [&](Slot a, Slot b) { return view.row(a).context() < view.row(b).context(); });
    for (const Slot slot : state.back)
      if (view.row(slot).may_return && !joins(slot)) return;
    std::optional<Slot> first;
    if (state.passed >= turn && !state.waits.empty()) first = state.waits.begin()->slot;
    if (first && !joins(*first)) return;
    for (const std::set<Entry>* queue : {&state.fresh, &state.late})
      for (const Entry& next : *queue)
        if (next.slot != first && !joins(next.slot)) return;
  }
  /// Claims a place for the request that presses: at most one in an iteration, because it may cost a request.
  std::optional<Slot> press(const View& view, const State& state, Builder& claims) const {
    const auto slack_s = [&](Slot slot) { // of the first token, if the prompt were next
      const RequestRow& row = view.row(slot);
      const double computing = PromptChunk::until_done_s(state.chunk, static_cast<double>(row.context().count()));
      return (row.spec.arrival + row.spec.slo.ttft - view.now).count() - computing;
    };
    std::optional<Pressing::Wish> next;
    // The smallest goes first, as without pressing; the most urgent says when. Rejected: that one presses itself, which
    // serves fewer requests where more come than prompts can be computed.
    // A newcomer that waits for a tier's blocks has no use for a place yet.
    const auto joinable = [&](const Entry& entry) { return !view.row(entry.slot).waits; };
    const auto first = std::find_if(state.due.begin(), state.due.end(), joinable);
    if (first != state.due.end()) { // then `fresh`, which has the same requests, has a joinable one, too
      const Slot urgent = first->slot, slot = std::find_if(state.fresh.begin(), state.fresh.end(), joinable)->slot;
      if (slack_s(urgent) < (1 - patience) * view.row(urgent).spec.slo.ttft.count()) next = {slot, slack_s(slot)};
    }
    const std::optional<Pressing::Choice> choice = pressing.choose(view, state.pressing, next);
    if (!choice || !claims.press(choice->comes, choice->pays)) return {};
    return choice->comes;
  }
};

static_assert(explain<SlackFirst>());

} // namespace sluice
