// SPDX-License-Identifier: Apache-2.0
// SlackFirst: newcomers whose first token can still be in time go first, the smallest before the others.
#pragma once

#include "sluice/core/numbers.hpp"
#include "sluice/policy/admission/admission.hpp"
#include "sluice/policy/admission/batching.hpp"
#include "sluice/policy/admission/large_yields.hpp"
#include "sluice/policy/admission/output_length.hpp"
#include "sluice/policy/admission/pressing.hpp"

#include <optional>
#include <span>

namespace sluice {

/// Decides which deadlines to keep if not all can be kept. A newcomer's size is its prompt, and the output tokens that
/// `Length` predicts (RankedLength).
///
///  1. *Order*: newcomers whose first token can still be in time, the smallest first, which serves the most of them;
///     then those without a TTFT SLO, by arrival; then those that are late, the smallest first. None starves: once in
///     `open` joins the oldest without a TTFT SLO is next, and once in `turn` joins the oldest of these and the late.
///  2. *Pressing*: once the most urgent newcomer has waited for `patience`, the next one joins at the cost of a running
///     request, within PauseBudget. Paused requests press without one. Prompts are cut as PromptChunk says.
///  3. *Requests larger than the device* let newcomers in, and have turns of their own (LargeYields).
template <class Length = NoLength>
struct BasicSlackFirst {
  using role = roles::Admission;
  static constexpr bool steady = false; // order and chunks move with time
  static constexpr bool knows_lengths = Length::knows_lengths;
  static constexpr Batching batching = Batching::chunked;

  Length length{};
  PromptChunk chunk{};
  Pressing pressing{};
  PauseBudget budget{};
  LargeYields large{};
  double patience = 0.3; ///< share of the most urgent newcomer's TTFT SLO after which newcomers press
  int turn = 128;        ///< once in so many joins the oldest request that is late or without a TTFT SLO is next
  int open = 2;          ///< once in so many joins the oldest request without a TTFT SLO is next
  using Self = BasicSlackFirst;
  static constexpr auto parts = NumberedParts{&Self::large};
  static constexpr auto numbers = Numbers{
      "SlackFirst",
      Number{"share", member_of(&Self::chunk, &PromptChunk::share), 0, 1, "of the tightest SLO for a prompt's step"},
      Number{"least_chunk", member_of(&Self::chunk, &PromptChunk::least), 1, 1e9, "prompt tokens in a step, at least"},
      Number{"misses", member_of(&Self::budget, &PauseBudget::misses), 0, 1e9, "deadlines missed by pauses, per token"},
      Number{"window", member_of(&Self::budget, &PauseBudget::window), 1e-3, 1e9, "half-life of the budget, in s"},
      Number{"longest", member_of(&Self::pressing, &Pressing::longest), 1, 1e9,
             "units (TTFT SLO, or ten TBT SLOs) after which a paused request presses"},
      Number{"patience", &Self::patience, 0, 1e9, "share of a TTFT SLO after which newcomers press"},
      Number{"turn", &Self::turn, 1, 1e9, "once in so many joins the oldest late request is next"},
      Number{"open", &Self::open, 1, 1e9, "once in so many joins the oldest request without a TTFT SLO is next"}};

  struct State {
    typename Length::State lengths;
    FirstTokenQueues waiting;
    PromptChunk::State chunk;
    PauseBudget::State budget;
    VainPresses vain;
    LargeYields::State large;
  };

  void enter(State& state, Slot slot, const RequestRow& row) const {
    state.waiting.enter(slot, row, static_cast<double>(row.context().count()) + length.tokens(state.lengths, row));
  }
  void leave(State& state, Slot slot, const RequestRow& row) const { state.waiting.leave(slot, row); }
  void propose(const View& view, State& state, Proposal& proposal) const {
    budget.look_back(view, state.budget);
    state.vain.look_back(view);
    large.look_back(view, state.large);
    state.waiting.find_late(view);
    const Slot last = state.waiting.last_due();
    Builder claims(view, proposal, chunk.budget(view, state.chunk, last == nobody ? nullptr : &view.row(last)));
    const double most = large.newcomer_limit(view, knows_lengths);
    const double token_s = PromptChunk::until_done_s(state.chunk, 1);
    const Slot left =
        large.leave(view, proposal, [&] { return state.waiting.next_in_time(view, token_s, most).smallest != nobody; });
    for (const bool decoding : {true, false})
      for (const Slot slot : view.running)
        if (slot != left && (view.row(slot).pending().count() <= 1) == decoding) claims.keep(slot);
    join(view, state, claims, left == nobody ? press(view, state, claims, token_s) : nobody, most);
    chunk.proposed(view, state.chunk, proposal);
  }
  void settle(const View& /*view*/, std::span<Claim> /*accepted*/) const {}

 private:
  using Builder = ClaimBuilder<Batching::chunked, Newcomers::optional>;
  void join(const View& view, State& state, Builder& claims, Slot pressed, double most) const {
    const auto joins = [&](Slot slot) { return slot == pressed || claims.join(slot, false); };
    if ((pressed != nobody && claims.full()) || !LargeYields::visit_first(view, state.large, joins)) return;
    state.waiting.visit_by_size(state.waiting.next_in_turn(turn, open), most, joins,
                                [&] { return LargeYields::visit_later(state.large, joins); });
  }
  /// Claims a place for the request that presses: at most one in an iteration, because it may cost a request.
  Slot press(const View& view, State& state, Builder& claims, double token_s) const {
    const auto choice = pressing.choose(
        view, state.vain,
        {newcomer(view, state, token_s), token_s, claims.full(), state.large.overdue, state.large.turns});
    if (!choice || !claims.press(choice->comes, choice->pays)) return nobody;
    state.vain.pressed(view, choice->comes, choice->pays);
    return choice->comes;
  }
  /// The newcomer that would press: the smallest, once the most urgent has waited. Rejected: the latter, which serves
  /// fewer requests where more come than prompts can be computed.
  std::optional<Pressing::Wish> newcomer(const View& view, const State& state, double token_s) const {
    if (!budget.allows(view, state.budget) || state.waiting.open_turn(open)) return {};
    const auto [urgent, smallest] = state.waiting.next_in_time(view, token_s);
    const auto slack_s = [&](Slot slot) { return first_token_slack_s(view.row(slot), view.now, token_s); };
    if (urgent == nobody || slack_s(urgent) >= (1 - patience) * view.row(urgent).spec.slo.ttft.count()) return {};
    return Pressing::Wish{smallest, slack_s(smallest)};
  }
};

using SlackFirst = BasicSlackFirst<>;

static_assert(explain<SlackFirst>());

} // namespace sluice
