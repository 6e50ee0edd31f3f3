// SPDX-License-Identifier: Apache-2.0
// Checks: of what an engine is made from, and of what is submitted to it, whatever its policies.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/engine/core/core.hpp"
#include "sluice/workload/request.hpp"

namespace sluice::detail {

/// Of a configuration: what is wrong with it, in one line.
[[nodiscard]] Status check_setup(const Limits& limits, const Geometry& geometry, LayerBlocks device_blocks,
                                 LayerBlocks host_blocks);

/// A policy's refusal, with whose it is.
[[nodiscard]] Error refusal_of(RequestId id, Error error);

/// Of a request: whether it has tokens, and not more than the context.
[[nodiscard]] Status check_length(RequestId id, const RequestSpec& spec, const Limits& limits);

/// What a request takes at its longest when held as `least` says, blocks in flight included.
[[nodiscard]] Footprint least_room(const Core& core, const Holding& least, const RequestSpec& spec);

/// Whether a request that takes `room` at its longest can ever be placed. `lendable`: what the weights could still give
/// up.
[[nodiscard]] Status check_room(RequestId id, Footprint room, const Ledger& ledger, LayerBlocks lendable);

} // namespace sluice::detail

#ifndef SLUICE_COMPILED
#include "sluice/engine/core/checks.inl.hpp" // IWYU pragma: keep
#endif
