// SPDX-License-Identifier: Apache-2.0
// EagerCopy: full blocks are copied to the host while their request runs, so that preemption moves little.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/numbers.hpp"
#include "sluice/policy/retention/retention.hpp"

#include <cstdint>

namespace sluice {

/// SuperInfer's DuplexKV (section 4, "eager block rotation"). A full block is never written again, so it is copied to
/// the host in the background, over the lane that prefetches do not use. When its request is preempted, blocks with a
/// clean copy are free at once. Only blocks without one are left to move: the block that is being filled, and those
/// that the link had no time for. A returning request is fetched layer by layer, and its copies stay.
///
/// Copies only take host memory that nothing else needs: the engine gives them up first.
struct EagerCopy {
  using role = roles::Retention;
  static constexpr bool returns_layerwise = true;
  static constexpr bool finds_released = false;
  static constexpr bool keeps_hidden = false;
  static constexpr bool copies_ahead = true;

  /// The share of the outbound lane's idle time that copies use. DuplexKV uses all of it, although prefetches are
  /// slower by the link's mix loss while both lanes are active.
  double share = 1;
  static constexpr auto numbers =
      Numbers{"EagerCopy", Number{"share", &EagerCopy::share, 0, 1, "of the idle link that copies ahead may take"}};

  Kept on_preempt(const View& /*view*/, const RequestRow& /*row*/) const { return Kept::host; }
  Kept on_reclaim(const View& /*view*/, const RequestRow& /*row*/) const { return Kept::host; }
  LayerBlocks copy_ahead(const View& /*view*/, LayerBlocks idle) const {
    SLUICE_ASSERT(share >= 0 && share <= 1, "a share from 0 to 1");
    return LayerBlocks{static_cast<std::int64_t>(share * static_cast<double>(idle.count()))};
  }
};

static_assert(explain<EagerCopy>());

} // namespace sluice
