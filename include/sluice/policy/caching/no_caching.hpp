// SPDX-License-Identifier: Apache-2.0
// NoCaching: KV below the device ends with its request (the default).
#pragma once

#include "sluice/policy/caching/caching.hpp"

namespace sluice {

/// The engine has no tier, and no code for one runs. If a real backend keeps KV on its host for a request (`submit`),
/// all of that is loaded.
struct NoCaching {
  using role = roles::Caching;
  static constexpr bool caches = false;
};

static_assert(explain<NoCaching>());

template <>
struct Default<roles::Caching> {
  using type = NoCaching;
};

} // namespace sluice
