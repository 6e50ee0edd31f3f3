// SPDX-License-Identifier: Apache-2.0
// Includes Eigen without g++ 12's warning about its own AVX-512 header: there `__Y = __Y` makes a register of undefined
// content, and g++ reports that as an error of the calling code (GCC bug 105593).
#pragma once

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <Eigen/Core>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
