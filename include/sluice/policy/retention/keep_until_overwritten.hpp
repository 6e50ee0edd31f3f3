// SPDX-License-Identifier: Apache-2.0
// KeepUntilOverwritten: released blocks can be found until their room is taken (vLLM's automatic prefix caching).
#pragma once

#include "sluice/policy/retention/retention.hpp"

namespace sluice {

/// Frees everything at once and moves nothing, like Drop. But blocks that no request has overwritten are found again,
/// by the preempted request and by others with the same prefix.
struct KeepUntilOverwritten {
  using role = roles::Retention;
  static constexpr bool returns_layerwise = true;
  static constexpr bool finds_released = true;
  static constexpr bool keeps_hidden = false;
  static constexpr bool copies_ahead = false;
  using checkpoints = ChunkEnds; ///< of models that have recurrent states

  Kept on_preempt(const View& /*view*/, const RequestRow& /*row*/) const { return Kept::nothing; }
  Kept on_reclaim(const View& /*view*/, const RequestRow& /*row*/) const { return Kept::nothing; }
};

/// The same with checkpoints of states where `At` says: `EveryBlock`, `BranchPoints`.
template <Checkpoints At>
struct KeepUntilOverwrittenAt : KeepUntilOverwritten {
  using checkpoints = At;
};

static_assert(Retention<KeepUntilOverwritten> && Retention<KeepUntilOverwrittenAt<EveryBlock>>);

} // namespace sluice
