// SPDX-License-Identifier: Apache-2.0
// Coordination: how an engine in a node asks for memory while it decides.
#pragma once

#include "sluice/core/units.hpp"

#include <cstddef>

namespace sluice {

/// What a batch needs of the memory and time that a node's engines share.
struct BatchNeeds {
  LayerBlocks demand{0};  ///< KV of the whole batch if it were all resident, including requests that would join
  LayerBlocks running{0}; ///< the part of it that running requests need: with less, one of them is preempted
  LayerBlocks first{0};   ///< the part of it that the first request needs: with less, no request can run
  Seconds slo{0};         ///< the tightest time between two tokens; 0: no SLO
};

/// One protocol for everything that several engines share (docs/node.md): an engine says what it needs and what its
/// weights offer; the node lends it other engines' memory and grants one of the levels. An engine outside a node has
/// none of this and takes the first level that it offers.
///
/// Two function pointers instead of a role: an engine's type does not depend on where it runs, and there is one call
/// per iteration.
struct Coordination {
  void* node = nullptr;
  std::size_t engine = 0; ///< the engine that asks
  /// KV blocks of other engines' memory that the engine may use from this decision on; null: no engine lends any.
  /// `demand`: the blocks of the engine's batch if it were all resident; `own`: the engine's blocks while all weights
  /// are resident.
  LayerBlocks (*lend)(void* node, std::size_t engine, LayerBlocks demand, LayerBlocks own) = nullptr;
  /// The highest level (`WeightsPlan::level`) that the engine may take; -1: none. The engine has offered its levels
  /// before. Null: any level.
  int (*grant)(void* node, std::size_t engine) = nullptr;
};

} // namespace sluice
