// SPDX-License-Identifier: Apache-2.0
// Eigen, without what g++ 12 says of its own AVX-512 header: there `__Y = __Y` makes a register of any content, and g++
// takes that for a mistake of whoever is inlined around it (GCC's bug 105593).
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
