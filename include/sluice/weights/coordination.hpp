// SPDX-License-Identifier: Apache-2.0
// Coordination: how an engine of a node asks what it may have, while it decides.
#pragma once

#include "sluice/core/units.hpp"

#include <cstddef>

namespace sluice {

/// What a batch needs of the memory and time that a node's engines share.
struct BatchNeeds {
  LayerBlocks demand{0};  ///< KV of the whole batch, all of it resident, requests that would join included
  LayerBlocks running{0}; ///< of that, the KV of the requests that run: with less, one of them is preempted
  LayerBlocks first{0};   ///< of that, the KV of the first request: with less, no request can run
  Seconds slo{0};         ///< the tightest time between two tokens; 0: there is none
};

/// One protocol for all that several engines share (docs/node.md): an engine says what it needs and what its weights
/// offer; the node lends it memory of others and grants one of the levels. An engine alone has none of this, and takes
/// the first level that it offers.
///
/// Two pointers to functions, and not a role of the engine: an engine's type does not depend on where it runs, and
/// there is one call an iteration.
struct Coordination {
  void* node = nullptr;
  std::size_t engine = 0; ///< the engine that asks
  /// KV blocks of other engines' memory that the engine may use from this decision on; null: no engine lends any.
  /// `demand`: what the engine's batch takes, all of it resident; `own`: what the engine has with all weights resident.
  LayerBlocks (*lend)(void* node, std::size_t engine, LayerBlocks demand, LayerBlocks own) = nullptr;
  /// The highest level (`WeightsPlan::level`) that the engine may take; -1: none. It has offered its levels before.
  /// Null: any.
  int (*grant)(void* node, std::size_t engine) = nullptr;
};

} // namespace sluice
