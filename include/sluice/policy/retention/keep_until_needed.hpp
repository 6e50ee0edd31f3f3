// SPDX-License-Identifier: Apache-2.0
// KeepUntilNeeded: KV stays on the device until its room is needed, then leaves layer by layer.
#pragma once

#include "sluice/policy/retention/retention.hpp"

namespace sluice {

/// OrbitFlow's removable cache (sections 3.4 and 4): blocks are given up on demand, layer by layer from the last, and
/// moved to the host. A returning request fetches at most what was given up.
struct KeepUntilNeeded {
  using role = roles::Retention;
  static constexpr bool returns_layerwise = true;
  static constexpr bool finds_released = false;
  static constexpr bool keeps_hidden = false;
  static constexpr bool copies_ahead = false;

  Kept on_preempt(const View& /*view*/, const RequestRow& /*row*/) const { return Kept::device; }
  Kept on_reclaim(const View& /*view*/, const RequestRow& /*row*/) const { return Kept::host; }
};

static_assert(Retention<KeepUntilNeeded>);

} // namespace sluice
