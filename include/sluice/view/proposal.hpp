// SPDX-License-Identifier: Apache-2.0
// Proposal: which requests Admission proposes for the next iteration.
#pragma once

#include "sluice/core/ids.hpp"
#include "sluice/core/units.hpp"

#include <vector>

namespace sluice {

/// One request that should be part of the next iteration.
struct Claim {
  Slot slot{}; ///< which request
  /// Tokens to compute in this iteration: 1 for a decode, a chunk of what is pending, or 0 for a request that keeps
  /// its memory and sits this iteration out (decodes while another's prompt is computed prefill-first).
  Tokens tokens{0};
  /// Tokens that must have room once the request joins, if more than `tokens`: a prompt that will be computed in chunks
  /// is admitted only when all of it fits (vLLM: scheduler_reserve_full_isl).
  Tokens reserve{0};
  /// A *required* claim is given up only by Relief's choice; an *optional* claim joins if there is room.
  bool required = false;
};

/// The claims, required claims first, in the order of precedence; and the requests that leave on purpose (rotation).
struct Proposal {
  std::vector<Claim> claims; ///< who should be in the batch: the required ones, then the optional ones
  std::vector<Slot> leaving; ///< who runs and is to be preempted whatever the memory

  void clear() {
    claims.clear();
    leaving.clear();
  }
};

} // namespace sluice
