// SPDX-License-Identifier: Apache-2.0
// Proposal: the requests that Admission schedules for the next iteration.
#pragma once

#include "sluice/core/units.hpp"

#include <string_view>
#include <vector>

namespace sluice {

/// The slot of no request.
inline constexpr Slot nobody{0xffffffffu};

/// One scheduled request: it should be part of the next iteration.
struct Claim {
  Slot slot{}; ///< which request
  /// Tokens to compute in this iteration: 1 for a decode, a chunk of the pending ones for a prompt, or 0 for a request
  /// that keeps its memory but waits (decodes during another request's prompt, prefill first).
  Tokens tokens{0};
  /// Tokens that must have room once the request joins, if more than `tokens`: a prompt that is computed in chunks is
  /// admitted only if all of it fits (vLLM: scheduler_reserve_full_isl).
  Tokens reserve{0};
  static constexpr Tokens most_reserved{std::int64_t{1} << 40};
  /// Only Relief takes a *required* claim out; an *optional* claim joins if there is room.
  bool required = false;
  /// A *pressing* claim: it joins, at most at the cost of this one running request, which is preempted if there is no
  /// plan with both. If there is none without it either, the claim does not join and the request stays. A pressing
  /// claim is required, and comes after the required claims that do not press.
  Slot at_cost_of = nobody;
  /// A pressing claim in a full batch: it joins only *instead* of that request, and counts its place as its own. So the
  /// batch limit holds whichever of the two runs, and no plan with both is tried. Only the last required claim may do
  /// so, and its tokens count beside those of all others.
  bool instead = false;
  /// Admission has counted the request with KV on the host, to be attended there; Placement decides.
  bool on_host = false;
  /// Admission has counted the request with hidden states on the device instead of K and V; Placement decides.
  bool as_states = false;

  /// Whether it is a pressing claim.
  [[nodiscard]] constexpr bool presses() const { return at_cost_of != nobody; }
};

/// A request that ends unserved.
struct Refusal {
  Slot slot{};             ///< which request
  std::string_view why;    ///< the reason that its user gets: text that lives as long as the program
  bool impossible = false; ///< set by the engine only: no plan can serve it, so Admission did not choose this
};

/// The claims in order of precedence, required ones first; the requests that leave on purpose (rotation); those that
/// are given up; and the order in which those that do not run are expected to run again.
struct Proposal {
  std::vector<Claim> claims; ///< the proposed batch: required claims, then optional ones
  std::vector<Slot> leaving; ///< running requests to preempt even if memory suffices
  /// Requests to end unserved, because their SLO cannot be kept. They wait and have never run; each is named once and
  /// has no claim. Anything else fails the run.
  std::vector<Refusal> refused;
  /// Preempted and leaving requests by when they are expected to run again, the soonest first. The engine takes device
  /// memory from the last one first. If Retention copies ahead, it also copies the last one's KV to the host first, and
  /// fetches the first one's KV while the link is idle. Requests that are not named count as last, the youngest of them
  /// first; a name of a request that is not preempted has no effect.
  std::vector<Slot> next;

  void clear() {
    claims.clear();
    leaving.clear();
    refused.clear();
    next.clear();
  }
};

} // namespace sluice
