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

  Kept on_preempt(const View& /*view*/, const RequestRow& /*row*/) const { return Kept::nothing; }
  Kept on_reclaim(const View& /*view*/, const RequestRow& /*row*/) const { return Kept::nothing; }
};

static_assert(Retention<KeepUntilOverwritten>);

} // namespace sluice
