// SPDX-License-Identifier: Apache-2.0
// Whether this build has a sanitizer: tests that take minutes under one are shortened, and intentional races are left
// out.
#pragma once

namespace sluice::testing {

#if defined(SLUICE_SANITIZED)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

} // namespace sluice::testing
