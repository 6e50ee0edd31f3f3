// SPDX-License-Identifier: Apache-2.0
// Checkpoints: at which blocks' ends copies of recurrent states are kept for later requests.
#pragma once

#include "sluice/state/memory/group_prefix_cache.hpp"

#include <concepts>

namespace sluice {

/// A recurrent state is valid after exactly the tokens that made it, so a later request can only begin where a copy was
/// kept. `keeps(end)`: whether to keep one at this end of a block, of which the iteration has just computed the last
/// token. A checkpoint takes a state's room among the blocks that can be found, and leaves with the others.
///
/// A part of Retention policies with `finds_released` (`P::checkpoints`), for models that have states.
template <class P>
concept Checkpoints = requires(const BlockEnd& end) {
  { P::keeps(end) } -> std::same_as<bool>;
};

/// One where each iteration's chunk ends, or at the last end of a block before: vLLM's `mamba_cache_mode = "align"`. A
/// prefix is found only up to the end of a chunk that lies within it (vllm#45238). A decode ends a chunk with each
/// block.
struct ChunkEnds {
  static constexpr bool keeps(const BlockEnd& end) { return end.blocks == end.last; }
};

/// One at every end of a block: vLLM's "all". Every block of a prefix is found, and a state is stored with each.
struct EveryBlock {
  static constexpr bool keeps(const BlockEnd& /*end*/) { return true; }
};

/// Where requests part, and at the prompt's end: after Marconi (Pan et al., MLSys 2025), which stores few states of
/// much use. The second request with a prefix computes it again, since only then it is known where the two part, and
/// keeps the state there; further ones find it. Marconi also keeps the state after the answer's last token; here the
/// next turn of a conversation begins at the prompt's end, and keeps the state at the answer's end.
struct BranchPoints {
  static constexpr bool keeps(const BlockEnd& end) { return end.blocks == end.shared || end.blocks == end.prompt; }
};

static_assert(Checkpoints<ChunkEnds> && Checkpoints<EveryBlock> && Checkpoints<BranchPoints>);

} // namespace sluice
