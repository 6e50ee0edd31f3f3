// SPDX-License-Identifier: Apache-2.0
// Batching: turns an order of requests into claims under the limits. PromptChunk: how much of a prompt is computed.
#pragma once

#include "sluice/core/math.hpp"
#include "sluice/state/view/proposal.hpp"
#include "sluice/state/view/request_row.hpp"
#include "sluice/state/view/view.hpp"

#include <algorithm>
#include <compare>
#include <cstdint>
#include <limits>
#include <span>

namespace sluice {

/// How prompts share iterations with decodes.
enum class Batching : std::uint8_t {
  chunked,       ///< decodes first, then prompts in chunks of the remaining token budget (vLLM V1, Sarathi)
  prefill_first, ///< a prompt is computed whole; decodes wait for that iteration (vLLM V0, OrbitFlow)
};

/// What kind of claim a request that has not run yet gets.
enum class Newcomers : std::uint8_t {
  optional,       ///< it joins if there is room, after the preempted requests
  optional_first, ///< it joins if there is room, before the preempted requests
  required,       ///< it joins, and Relief chooses a victim, perhaps an older request (OrbitFlow)
};

/// Turns orders into claims. All admission policies share it, so they differ only in their order.
///
/// `view.limits.batch_tokens` is an iteration's token budget, unless the policy states a smaller one, and
/// `view.limits.batch` its largest batch. A running request that the budget does not reach claims 0 tokens and keeps
/// its place in the batch.
template <Batching B, Newcomers N>
class ClaimBuilder {
 public:
  ClaimBuilder(const View& view, Proposal& proposal) : ClaimBuilder(view, proposal, view.limits.batch_tokens) {}
  ClaimBuilder(const View& view, Proposal& proposal, Tokens budget)
      : view_(view), proposal_(proposal), budget_(std::min(budget, view.limits.batch_tokens).count()) {}

  [[nodiscard]] bool full() const {
    return static_cast<int>(proposal_.claims.size()) >= view_.limits.batch || budget_ <= 0;
  }

  /// A running request stays in the batch.
  void keep(Slot slot) {
    const std::int64_t tokens = take(view_.row(slot).ready().count());
    proposal_.claims.push_back({slot, Tokens{tokens}, Tokens{0}, true});
  }

  /// Claims a place for a request that does not run. False if the limits leave no place: the requests after it must
  /// then wait too, otherwise the order would have no effect.
  bool join(Slot slot, bool required) {
    if (full()) return false;
    if (view_.row(slot).waits) return true; // for a tier's blocks: the requests behind it need not wait
    return add(slot, required);
  }

  /// A pressing claim (`Claim::at_cost_of`) for a request that does not run. Call it after every `keep`, and before
  /// optional claims. In a full batch it takes that request's place (`Claim::instead`), and nobody joins after it.
  /// False if the budget leaves no token, or if the request waits for a tier's blocks: a place would not help it yet.
  bool press(Slot slot, Slot at_cost_of) {
    const int taken = static_cast<int>(proposal_.claims.size());
    if (view_.row(slot).waits || taken > view_.limits.batch || budget_ <= 0 || !add(slot, true)) return false;
    proposal_.claims.back().at_cost_of = at_cost_of;
    proposal_.claims.back().instead = taken == view_.limits.batch;
    return true;
  }

  /// Claims for preempted requests that Relief lets return, by arrival, then for waiting requests, in the order of
  /// `for_each_waiting(visit)`, which stops when `visit(Slot)` returns false. With `optional_first` the waiting ones
  /// come first.
  template <class ForEachWaiting>
  void join_in_order(ForEachWaiting&& for_each_waiting) {
    if constexpr (N == Newcomers::required) {
      for_each_waiting([this](Slot slot) { return join(slot, true); });
      join_preempted();
    } else if constexpr (N == Newcomers::optional_first) {
      bool placed = true;
      for_each_waiting([this, &placed](Slot slot) { return placed = join(slot, false); });
      if (placed) join_preempted();
    } else {
      if (join_preempted()) for_each_waiting([this](Slot slot) { return join(slot, false); });
    }
  }

  /// With prefill first, decodes yield to prompts. Decided after acceptance: otherwise decodes would wait for prompts
  /// that then find no room.
  static void settle(const View& view, std::span<Claim> accepted) {
    if constexpr (B == Batching::prefill_first) {
      const auto decodes = [&view](const Claim& claim) { return view.row(claim.slot).pending().count() <= 1; };
      if (std::all_of(accepted.begin(), accepted.end(), decodes)) return;
      for (Claim& claim : accepted)
        if (decodes(claim)) claim.tokens = Tokens{0};
    }
  }

 private:
  /// Claims a place, unless that would split a prompt that a later iteration can compute whole.
  bool add(Slot slot, bool required) {
    const std::int64_t pending = view_.row(slot).pending().count();
    if constexpr (B == Batching::prefill_first) {
      // Only a prompt longer than any budget is split.
      if (pending > budget_ && budget_ < view_.limits.batch_tokens.count()) return false;
    }
    proposal_.claims.push_back({slot, Tokens{take(pending)}, Tokens{pending}, required});
    return true;
  }

  /// Takes tokens from the budget for a request with `pending` tokens to compute. With prefill first, decodes take
  /// nothing from the prompts' budget: they never share an iteration, and a prompt that fits the budget must not wait
  /// for a batch to drain.
  std::int64_t take(std::int64_t pending) {
    std::int64_t& budget = B == Batching::prefill_first && pending <= 1 ? decode_budget_ : budget_;
    const std::int64_t tokens = std::min(pending, budget);
    budget -= tokens;
    return tokens;
  }

  bool join_preempted() {
    for (const Slot slot : view_.preempted)
      if (view_.row(slot).may_return && !join(slot, false)) return false;
    return true;
  }

  const View& view_;
  Proposal& proposal_;
  std::int64_t budget_; ///< remaining budget: for prompts, or for all requests if they share iterations
  std::int64_t decode_budget_ = budget_;
};

// QueueEntry: a waiting request's place in an ordered queue.

/// By `key`, the least first; at equal keys by arrival, which ids follow. (Slots are reused, so they order nothing.)
struct QueueEntry {
  double key = 0;
  RequestId id{};
  Slot slot{};
  friend auto operator<=>(const QueueEntry&, const QueueEntry&) = default;

  /// By the deadline of the first token.
  [[nodiscard]] static QueueEntry by_deadline(const RequestRow& row, Slot slot) {
    return {first_due(row).count(), row.id, slot};
  }
  [[nodiscard]] static QueueEntry by_arrival(const RequestRow& row, Slot slot) {
    return {row.spec.arrival.count(), row.id, slot};
  }
};

// PromptChunk: how many prompt tokens an iteration may compute beside decodes that have an SLO.

/// A part of admission policies: a fixed token budget either stalls the decodes or delays the first tokens, so this one
/// follows the SLO. It aims at iterations of `share` of the decodes' tightest SLO, by how long the last one with a
/// prompt took (transfers that delayed it included, which a cost model alone would not see), and raises the budget for
/// a first token that would otherwise be late.
struct PromptChunk {
  double share = 0.8; ///< of the decodes' tightest SLO that an iteration with prompts may take
  double least = 48;  ///< prompt tokens in an iteration, at least

  struct State {
    double tokens = 256; ///< prompt tokens that an iteration can have
    double step_s = 0;   ///< the last iteration's time
    Seconds now{0};      ///< of the last proposal, as are the next
    std::int64_t step = -1, prompts = 0, decodes = 0;
  };

  /// The token budget of the next iteration. `newest`: a waiting request whose first token can be in time, or null.
  [[nodiscard]] Tokens budget(const View& view, State& state, const RequestRow* newest) const {
    double slo = std::numeric_limits<double>::infinity();
    std::int64_t decodes = 0;
    double due = newest != nullptr ? in_time(view, state, *newest) : 0;
    for (const Slot slot : view.running) {
      const RequestRow& row = view.row(slot);
      if (row.pending().count() > 1) {
        due = std::max(due, in_time(view, state, row));
      } else {
        ++decodes;
        slo = std::min(slo, row.spec.slo.tbt.count());
      }
    }
    look_back(view, state, share * slo);
    state.decodes = decodes;
    if (decodes == 0 || math::isinf(slo)) return view.limits.batch_tokens;
    // Compared as double: a deadline that is all but over asks for more tokens than an integer holds.
    const double prompts = std::min(static_cast<double>(view.limits.batch_tokens.count()), std::max(state.tokens, due));
    return std::min(view.limits.batch_tokens, Tokens{decodes + static_cast<std::int64_t>(prompts)});
  }
  /// Remembers what was proposed with that budget.
  void proposed(const View& view, State& state, const Proposal& proposal) const {
    state.prompts = 0;
    for (const Claim& claim : proposal.claims)
      if (view.row(claim.slot).pending().count() > 1) state.prompts += claim.tokens.count();
    state.now = view.now;
    state.step = view.step;
  }
  /// Iterations' time until a prompt of `tokens` would be computed.
  [[nodiscard]] static double until_done_s(const State& state, double tokens) {
    return tokens / state.tokens * state.step_s;
  }

 private:
  void look_back(const View& view, State& state, double target) const {
    if (view.step != state.step + 1) return; // decided ahead, or nothing ran
    const double passed = (view.now - state.now).count();
    state.step_s = passed;
    if (state.prompts == 0 || state.decodes == 0 || math::isinf(target) || passed <= 0) return;
    const double change = std::clamp(target / passed, 0.5, 1.3);
    if (change > 1 && static_cast<double>(state.prompts) <= 0.8 * state.tokens) return; // the budget was not used
    state.tokens = std::clamp(state.tokens * change, least,
                              std::max(least, static_cast<double>(view.limits.batch_tokens.count())));
  }
  /// Prompt tokens per iteration with which a request's first token comes at 0.8 of the time that is left.
  static double in_time(const View& view, const State& state, const RequestRow& row) {
    const double left = 0.8 * (first_due(row) - view.now).count();
    if (row.generated.count() > 0 || left <= 0 || math::isinf(left)) return 0;
    return static_cast<double>(row.pending().count()) * state.step_s / left;
  }
};

} // namespace sluice
