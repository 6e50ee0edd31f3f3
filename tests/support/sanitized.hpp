// SPDX-License-Identifier: Apache-2.0
// Whether a sanitizer watches this build: what takes minutes under one is drawn shorter, and what is a race by intent
// is left out.
#pragma once

namespace sluice::testing {

#if defined(SLUICE_SANITIZED)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

} // namespace sluice::testing
