// SPDX-License-Identifier: Apache-2.0
// compiled: marks definitions that a program may compile once, in a library, instead of in every file.
#pragma once

/// Sluice is header-only by default. A program that links `sluice::compiled` takes the code that does not
/// depend on its policies (the engine's core, the planner, the evaluators) and the published engines from a library.
///
/// Definitions for the library are in `<idea>.inl.hpp`, next to the declarations in `<idea>.hpp`. That header includes
/// them at its end unless the macro SLUICE_COMPILED is defined, which the library's target defines for programs that
/// link it. Their functions are SLUICE_INLINE. Templates instantiated for known types are there too, and `<idea>.hpp`
/// declares them `extern template`.
///
/// The library has assertions (SLUICE_ASSERT) if it was built with them. A program that wants them in the core must
/// build the library itself (`add_subdirectory`) in Debug, or with SLUICE_CHECKED, since both must agree.
///
/// Rejected: a macro around each definition, since every user would still need the definition's includes; a folder of
/// .cpp files, which users of the headers alone do not have.
#ifdef SLUICE_COMPILED
#define SLUICE_INLINE
#else
#define SLUICE_INLINE inline
#endif
