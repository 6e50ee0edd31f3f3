// SPDX-License-Identifier: Apache-2.0
// compiled: what a header says of a definition that a program may compile once, in a library, instead of everywhere.
#pragma once

/// Sluice is header-only by default. A program that links `sluice::compiled` gets what does not depend on its policies
/// (the engine's core, the planner, the evaluators) and the published engines from a library, and compiles none of it.
///
/// A definition that the library can hold stands in `<idea>.inl.hpp`, next to the declarations in `<idea>.hpp`, which
/// includes it at its end unless the macro SLUICE_COMPILED is defined (the library's target defines it for programs
/// that link it); its functions are SLUICE_INLINE. A template that is instantiated for known types stands there too,
/// and `<idea>.hpp` then says `extern template`.
///
/// Assertions (SLUICE_ASSERT) are on in the library if they were when it was built: a program that wants them in the
/// core links a library of its own build (`add_subdirectory`) in Debug, or with SLUICE_CHECKED, for the two must agree.
///
/// Rejected: a macro around each definition, which leaves the definition's includes to every user; a folder of .cpp
/// files, which a user of the headers alone does not have.
#ifdef SLUICE_COMPILED
#define SLUICE_INLINE
#else
#define SLUICE_INLINE inline
#endif
