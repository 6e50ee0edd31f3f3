// SPDX-License-Identifier: Apache-2.0
// Checks: of what an engine is made from, and of what is submitted to it, whatever its policies.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/engine/core/core.hpp"
#include "sluice/workload/request.hpp"

namespace sluice::detail {

/// Checks a configuration. The error says in one line what is wrong with it.
[[nodiscard]] Status check_setup(const Limits& limits, const Geometry& geometry, LayerBlocks device_blocks,
                                 LayerBlocks host_blocks);

/// A policy's refusal, with the request that it refuses as the error's `where`.
[[nodiscard]] Error refusal_of(RequestId id, Error error);

/// What a call is told that names a request which has ended, or never was.
[[nodiscard]] Error not_alive(RequestId id);

/// Checks that a request has a prompt and an output, and not more tokens than the context.
[[nodiscard]] Status check_length(RequestId id, const RequestSpec& spec, const Limits& limits);

/// What is said of a request whose length its engine would have to know.
[[nodiscard]] Status unknown_length(RequestId id);

/// The memory that a request takes at its longest when held as `least` says, blocks in flight included.
[[nodiscard]] Footprint least_room(const Core& core, const Holding& least, const RequestSpec& spec);

/// Checks that a request that takes `room` at its longest can ever be placed. `lendable`: device memory that the
/// weights could still give up.
[[nodiscard]] Status check_room(RequestId id, Footprint room, const Ledger& ledger, LayerBlocks lendable);

} // namespace sluice::detail

#ifndef SLUICE_COMPILED
#include "sluice/engine/core/checks.inl.hpp" // IWYU pragma: keep
#endif
