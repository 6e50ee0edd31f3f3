// SPDX-License-Identifier: Apache-2.0
// Work: what one iteration computes, and StepTime: how long that takes.
#pragma once

#include "sluice/core/units.hpp"

#include <span>

namespace sluice {

/// The part of an iteration that is not one token of one sequence: `fresh` new tokens after `cached` whose KV exists.
/// A prompt chunk, a whole prompt, or a request rebuilt after it was dropped.
struct ChunkWork {
  Tokens fresh{0};
  Tokens cached{0};
};

/// What one iteration computes: the sums that every cost model needs, kept by the engine as it goes, so that a step
/// of pure decoding costs a model O(1) however large the batch.
struct Work {
  std::int64_t decodes = 0;          ///< sequences with one fresh token
  Tokens decode_context{0};          ///< sum over the decodes of the tokens whose KV they read, the fresh one included
  std::span<const ChunkWork> chunks; ///< the others
  std::int64_t samples = 0;          ///< sequences that yield a token: rows of the output head
  /// Tokens whose KV is recomputed beside them (`Holding::nowhere`; eLLM), on the mean over the layers.
  Tokens rebuilt{0};

  [[nodiscard]] Tokens tokens() const {
    Tokens sum{decodes};
    for (const ChunkWork& chunk : chunks) sum += chunk.fresh;
    return sum;
  }
};

/// How long an iteration computes when no transfer holds it up: before the first layer (embedding, scheduling), in
/// each layer, and after the last (norm, output head, sampling).
struct StepTime {
  Seconds before{0};
  Seconds layer{0};
  Seconds after{0};

  [[nodiscard]] Seconds total(int layers) const { return before + layer * static_cast<double>(layers) + after; }
};

/// The link between host and device as a planner believes it: bytes a second, and what each layer's transfer costs
/// whatever its size (launches, segments).
struct LinkCost {
  BytesPerSecond rate{0};
  Seconds per_layer{0};
};

} // namespace sluice
