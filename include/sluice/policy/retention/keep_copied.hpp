// SPDX-License-Identifier: Apache-2.0
// KeepCopied: KV stays on the device until its room is needed, and is copied to the host before that.
#pragma once

#include "sluice/policy/retention/retention.hpp"

namespace sluice {

/// FastServe's proactive swapping (Wu et al., section 4.2). A preempted request's KV stays on the device as long as
/// nothing else needs the room, and full blocks are copied to the host while the link is idle. A block with a clean
/// copy is free at once, so nobody waits for an eviction. Admission names the requests that will run next
/// (`Proposal::next`): the last of them is copied first and gives up its memory first, and the first returns before it
/// runs, on a simulated backend. Preempted requests that it does not name count as last, the newest first.
struct KeepCopied {
  using role = roles::Retention;
  static constexpr bool returns_layerwise = true;
  static constexpr bool finds_released = false;
  static constexpr bool keeps_hidden = false;
  static constexpr bool copies_ahead = true;

  Kept on_preempt(const View& /*view*/, const RequestRow& /*row*/) const { return Kept::device; }
  Kept on_reclaim(const View& /*view*/, const RequestRow& /*row*/) const { return Kept::host; }
  LayerBlocks copy_ahead(const View& /*view*/, LayerBlocks idle) const { return idle; }
};

static_assert(explain<KeepCopied>());

} // namespace sluice
