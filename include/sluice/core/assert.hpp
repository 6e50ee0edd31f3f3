// SPDX-License-Identifier: Apache-2.0
// Assertion for a caller's broken precondition: on in debug and test builds, overridable.
#pragma once

// Define SLUICE_ASSERT before the first include to send failures elsewhere (a test harness, a server's log).
// It is never used for what can happen at run time: that is a status or an Expected.
#ifndef SLUICE_ASSERT
#if defined(NDEBUG) && !defined(SLUICE_CHECKED)
#define SLUICE_ASSERT(condition, message) ((void)0)
#else
#include <cstdio>
#include <cstdlib>
#define SLUICE_ASSERT(condition, message)                                                                              \
  ((condition)                                                                                                         \
       ? (void)0                                                                                                       \
       : (std::fprintf(stderr, "%s:%d: precondition broken: %s (%s)\n", __FILE__, __LINE__, message, #condition),      \
          std::abort()))
#endif
#endif
