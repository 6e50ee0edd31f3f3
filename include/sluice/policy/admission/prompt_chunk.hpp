// SPDX-License-Identifier: Apache-2.0
// PromptChunk: how many prompt tokens an iteration may compute beside decodes that have an SLO.
#pragma once

#include "sluice/state/view/proposal.hpp"
#include "sluice/state/view/slack.hpp"
#include "sluice/state/view/view.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace sluice {

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
    if (decodes == 0 || std::isinf(slo)) return view.limits.batch_tokens;
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
    if (state.prompts == 0 || state.decodes == 0 || std::isinf(target) || passed <= 0) return;
    const double change = std::clamp(target / passed, 0.5, 1.3);
    if (change > 1 && static_cast<double>(state.prompts) <= 0.8 * state.tokens) return; // the budget was not used
    state.tokens = std::clamp(state.tokens * change, least,
                              std::max(least, static_cast<double>(view.limits.batch_tokens.count())));
  }
  /// Prompt tokens per iteration with which a request's first token comes at 0.8 of the time that is left.
  static double in_time(const View& view, const State& state, const RequestRow& row) {
    const double left = 0.8 * (first_due(row) - view.now).count();
    if (row.generated.count() > 0 || left <= 0 || std::isinf(left)) return 0;
    return static_cast<double>(row.pending().count()) * state.step_s / left;
  }
};

} // namespace sluice
