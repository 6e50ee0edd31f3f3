// SPDX-License-Identifier: Apache-2.0
// math: the few functions of <cmath> that the engine needs.
#pragma once

namespace sluice::math {

// The compilers' own versions, which <cmath> calls, too: the same instructions and results. <cmath> itself also has all
// special functions, templates that cost as much to parse as a tenth of an engine's headers.

[[nodiscard]] constexpr bool isnan(double x) { return __builtin_isnan(x); }
[[nodiscard]] constexpr bool isinf(double x) { return __builtin_isinf(x) != 0; }
[[nodiscard]] constexpr bool isfinite(double x) { return __builtin_isfinite(x) != 0; }
[[nodiscard]] constexpr double abs(double x) { return __builtin_fabs(x); }
[[nodiscard]] inline double ceil(double x) { return __builtin_ceil(x); }
[[nodiscard]] inline double floor(double x) { return __builtin_floor(x); }
[[nodiscard]] inline double sqrt(double x) { return __builtin_sqrt(x); }
[[nodiscard]] inline double exp(double x) { return __builtin_exp(x); }
[[nodiscard]] inline double exp2(double x) { return __builtin_exp2(x); }
[[nodiscard]] inline double log(double x) { return __builtin_log(x); }
[[nodiscard]] inline double pow(double x, double y) { return __builtin_pow(x, y); }
[[nodiscard]] inline double sin(double x) { return __builtin_sin(x); }
[[nodiscard]] inline double cos(double x) { return __builtin_cos(x); }
[[nodiscard]] inline long long llround(double x) { return __builtin_llround(x); }

} // namespace sluice::math
