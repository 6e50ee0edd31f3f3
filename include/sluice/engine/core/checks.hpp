// SPDX-License-Identifier: Apache-2.0
// Checks of an engine's configuration and of submitted requests, for any policies.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/engine/core/core.hpp"
#include "sluice/policy/caching/caching.hpp"
#include "sluice/state/memory/tier.hpp"
#include "sluice/workload/request.hpp"

namespace sluice::detail {

/// Checks a configuration. The error names the mistake in one line.
[[nodiscard]] Status check_setup(const Limits& limits, const Geometry& geometry, LayerBlocks device_blocks,
                                 LayerBlocks host_blocks);

/// Checks a Caching policy's `first_tier()` on a backend whose host tier evicts by `evicts`: `own` is what the policy
/// makes of `host`. Only the order of eviction can be its own, and must be the backend's.
[[nodiscard]] Status check_host_tier(Replacement evicts, const Tier& host, const Tier& own);
/// A host's memory whose capacity, rates and latency no policy has by chance.
[[nodiscard]] Tier odd_tier(Replacement evicts);

/// Of `fetched` tokens of a disk's part of a prefix, those that arrive within `patience`, in whole blocks of
/// `block_tokens`: a real backend cannot take a request back whose disk is slow.
[[nodiscard]] Tokens arriving_within(Seconds patience, Tokens fetched, const FoundPrefix& found, Tokens block_tokens);

/// A policy's refusal, with the refused request as the error's `where`.
[[nodiscard]] Error refusal_of(RequestId id, Error error);

/// The error of a call that names a request which has ended or never existed.
[[nodiscard]] Error not_alive(RequestId id);

/// Checks that a request has a prompt and an output, and no more tokens than the context allows.
[[nodiscard]] Status check_length(RequestId id, const RequestSpec& spec, const Limits& limits);

/// The refusal of a request whose length its engine must know.
[[nodiscard]] Status unknown_length(RequestId id);

/// The memory that a request takes at its longest with the residency `least`, blocks in flight included.
[[nodiscard]] Footprint least_room(const Core& core, const Holding& least, const RequestSpec& spec);

/// Checks that a request that takes `room` at its longest can ever be placed. `lendable`: device memory that the
/// weights could still give up.
[[nodiscard]] Status check_room(RequestId id, Footprint room, const Ledger& ledger, LayerBlocks lendable);

} // namespace sluice::detail

#ifndef SLUICE_COMPILED
#include "sluice/engine/core/checks.inl.hpp" // IWYU pragma: keep
#endif
