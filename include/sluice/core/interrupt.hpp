// SPDX-License-Identifier: Apache-2.0
// Interrupts and policies' mistakes: what drops a run that is under way.
#pragma once

#include <stdexcept>
#include <string>

namespace sluice {

// Interrupts as runs see them: a flag, and what drops a run that is under way.

namespace detail {
/// Read and written by the compiler's builtins alone. Rejected: `std::atomic`, whose header costs as much to parse as a
/// tenth of an engine's standard headers.
inline int interrupted_by = 0;
static_assert(__atomic_always_lock_free(sizeof(int), nullptr), "a signal handler writes it");
} // namespace detail

/// The number of the signal that asks this process to end; 0: none. A program's handler sets it.
[[nodiscard]] inline int interrupted() { return __atomic_load_n(&detail::interrupted_by, __ATOMIC_RELAXED); }
/// Acts as if this process had received that signal.
inline void interrupt_as(int number) { __atomic_store_n(&detail::interrupted_by, number, __ATOMIC_SEQ_CST); }

/// Thrown to drop a run. It is not an error, and nothing reports it: an engine passes it on.
struct Dropped {};

/// Throws `Dropped` after an interrupt. A run calls it between its steps, and the evaluator before each evaluation:
/// a policy may search for minutes within one call. A policy that evaluates nothing calls it in its own loop.
inline void drop_if_interrupted() {
  if (interrupted() != 0) throw Dropped{};
}

// policy_mistake: how a policy ends the run that asked it.

/// Ends the run with `what`. The functions of a policy return no Status, so that a policy stays a few lines; the engine
/// turns what leaves them into the status that ends its run, with the policy's name (engine/core/checks.hpp).
[[noreturn, gnu::cold]] inline void policy_mistake(const std::string& what) { throw std::domain_error(what); }

} // namespace sluice
