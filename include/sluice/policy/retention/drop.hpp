// SPDX-License-Identifier: Apache-2.0
// Drop: nothing remains; the context is computed again (vLLM's recompute; the default).
#pragma once

#include "sluice/policy/retention/retention.hpp"

namespace sluice {

/// Frees all KV at once and moves nothing: a returning request recomputes its prompt and generated tokens.
struct Drop {
  using role = roles::Retention;
  static constexpr bool returns_layerwise = true;
  static constexpr bool finds_released = false;
  static constexpr bool keeps_hidden = false;
  static constexpr bool copies_ahead = false;

  Kept on_preempt(const View& /*view*/, const RequestRow& /*row*/) const { return Kept::nothing; }
  Kept on_reclaim(const View& /*view*/, const RequestRow& /*row*/) const { return Kept::nothing; }
};

static_assert(Retention<Drop>);

template <>
struct Default<roles::Retention> {
  using type = Drop;
};

} // namespace sluice
