// SPDX-License-Identifier: Apache-2.0
// Pause: one request is preempted until a running one has ended (OrbitFlow, section 3.4).
#pragma once

#include "sluice/core/numbers.hpp"
#include "sluice/core/random.hpp"
#include "sluice/policy/relief/relief.hpp"
#include "sluice/policy/retention/keep_until_needed.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace sluice {

/// Which request is paused (OrbitFlow, Fig. 14b).
enum class Victim : std::uint8_t {
  largest,  ///< the largest sum of KV blocks and deposited tokens: the paper's choice
  longest,  ///< the longest context
  shortest, ///< the shortest context
  random,   ///< any, seeded
};

/// Pauses a victim, and lets it return once a request has ended since and a plan fits.
///
/// Under the paper's rule a user can wait for a token as long as the load lasts. `max_wait` bounds the wait: a request
/// paused for longer may return even if no request has ended. Infinite by default, as in the paper.
template <Victim V = Victim::largest>
struct BasicPause {
  using role = roles::Relief;
  struct State {
    Random random{1};
  };
  static constexpr Parting parting = Parting::preempt;

  Seconds max_wait{std::numeric_limits<double>::infinity()};
  static constexpr auto numbers =
      Numbers{"Pause", Number{"max_wait", &BasicPause::max_wait, 0, std::numeric_limits<double>::infinity(),
                              "seconds after which a paused request may return"}};

  std::size_t choose(const View& view, State& state, std::span<const Claim> candidates) const {
    if constexpr (V == Victim::random) {
      return static_cast<std::size_t>(state.random.below(candidates.size()));
    } else {
      const auto weight = [&view](const Claim& claim) { return weight_of(view, claim); };
      const auto less = [&weight](const Claim& a, const Claim& b) { return weight(a) < weight(b); };
      // Ties go to the request that joined last, which loses the least.
      std::size_t chosen = 0;
      for (std::size_t i = 1; i < candidates.size(); ++i)
        if (!less(candidates[i], candidates[chosen])) chosen = i;
      return chosen;
    }
  }

  bool may_return(const View& view, const RequestRow& row) const {
    return view.last_finish_step >= row.preempted_at_step || view.running.empty() ||
           view.now - row.preempted_since > max_wait;
  }

 private:
  static std::int64_t weight_of(const View& view, const Claim& claim) {
    const RequestRow& row = view.row(claim.slot);
    if constexpr (V == Victim::largest) {
      return row.blocks_after(std::max(claim.tokens, claim.reserve), view.limits.block_tokens).count() +
             row.deposit().count();
    } else {
      return V == Victim::longest ? row.context().count() : -row.context().count();
    }
  }
};

using PauseLargest = BasicPause<Victim::largest>;
using PauseLongest = BasicPause<Victim::longest>;
using PauseShortest = BasicPause<Victim::shortest>;
using PauseRandom = BasicPause<Victim::random>;

static_assert(Relief<PauseLargest> && Relief<PauseRandom>);

// PauseResume: pauses the request with the largest footprint, and keeps its KV until its room is needed.

/// A bundle of two roles that OrbitFlow describes together (section 3.4): which request is preempted, and what remains
/// of its KV.
struct PauseResume {
  using parts = Parts<PauseLargest, KeepUntilNeeded>;
};

} // namespace sluice
