// SPDX-License-Identifier: Apache-2.0
// MoveToHost: KV moves to the host at once, and back before the request runs again (vLLM's swap).
#pragma once

#include "sluice/policy/retention/retention.hpp"

namespace sluice {

/// The engine waits for both transfers, as vLLM does: all layers arrive before the first one computes.
/// `BasicMoveToHost<true>` fetches layer by layer, just in time.
template <bool Layerwise = false>
struct BasicMoveToHost {
  using role = roles::Retention;
  static constexpr bool returns_layerwise = Layerwise;
  static constexpr bool finds_released = false;
  static constexpr bool keeps_hidden = false;
  static constexpr bool copies_ahead = false;

  Kept on_preempt(const View& /*view*/, const RequestRow& /*row*/) const { return Kept::host; }
  Kept on_reclaim(const View& /*view*/, const RequestRow& /*row*/) const { return Kept::host; }
};

using MoveToHost = BasicMoveToHost<>;

static_assert(Retention<MoveToHost>);

} // namespace sluice
