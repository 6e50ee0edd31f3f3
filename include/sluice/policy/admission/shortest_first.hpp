// SPDX-License-Identifier: Apache-2.0
// ShortestFirst: waiting requests join by output length, known or predicted, the shortest first; no running request is
// preempted for them.
#pragma once

#include "sluice/policy/admission/least_first.hpp"
#include "sluice/policy/admission/output_length.hpp"

namespace sluice {

/// Shortest job first: BasicLeastFirst by the length of a request's output.
template <class Length = KnownLength, Batching B = Batching::chunked>
using BasicShortestFirst = BasicLeastFirst<Length, B>;
using ShortestKnownFirst = BasicShortestFirst<KnownLength>;
using ShortestRankedFirst = BasicShortestFirst<RankedLength>;

static_assert(Admission<ShortestKnownFirst> && Admission<ShortestRankedFirst>);

} // namespace sluice
