// SPDX-License-Identifier: Apache-2.0
// compiled: marks definitions that a program may compile once, in a library, instead of in every file.
#pragma once

/// Sluice is header-only by default. A program that links one of these libraries takes definitions that do not depend
/// on its policies from there:
///
///     sluice::compiled   the engine's core, the planner, the evaluators, workloads, the published engines
///     sluice::readers    traces, configurations and other files
///     sluice::model      tokenizers and checkpoints
///     sluice::report     tables, pages, CSV and JSON
///     sluice::server     the OpenAI API and its transport
///
/// The definitions are in `<idea>.inl.hpp`, next to the declarations in `<idea>.hpp`. That header includes them at its
/// end unless the library's macro is defined (SLUICE_COMPILED, SLUICE_READERS_COMPILED, …), which the library's target
/// defines for programs that link it. Their functions are SLUICE_INLINE, SLUICE_READERS_INLINE, …. Templates
/// instantiated for known types are there too, and `<idea>.hpp` declares them `extern template`.
///
/// A library has assertions (SLUICE_ASSERT) if it was built with them. A program that wants them in the core must
/// build the library itself (`add_subdirectory`) in Debug, or with SLUICE_CHECKED, since both must agree.
///
/// Rejected: a macro around each definition, since every user would still need the definition's includes; a folder of
/// .cpp files, which users of the headers alone do not have; one library, since each of these needs other packages.
#ifdef SLUICE_COMPILED
#define SLUICE_INLINE
#else
#define SLUICE_INLINE inline
#endif
#ifdef SLUICE_READERS_COMPILED
#define SLUICE_READERS_INLINE
#else
#define SLUICE_READERS_INLINE inline
#endif
#ifdef SLUICE_MODEL_COMPILED
#define SLUICE_MODEL_INLINE
#else
#define SLUICE_MODEL_INLINE inline
#endif
#ifdef SLUICE_REPORT_COMPILED
#define SLUICE_REPORT_INLINE
#else
#define SLUICE_REPORT_INLINE inline
#endif
#ifdef SLUICE_SERVER_COMPILED
#define SLUICE_SERVER_INLINE
#else
#define SLUICE_SERVER_INLINE inline
#endif
