// SPDX-License-Identifier: Apache-2.0
// Coordination: how an engine of a node asks what it may have, while it decides.
#pragma once

#include "sluice/core/units.hpp"

#include <cstddef>

namespace sluice {

/// What a batch needs of what a node's engines share.
struct BatchNeeds {
  LayerBlocks demand{0};  ///< KV of all of it, all of it resident, with what would join
  LayerBlocks running{0}; ///< of that, of those who run: with less somebody is preempted
  LayerBlocks first{0};   ///< of the first of all: with less nobody can run
  Seconds slo{0};         ///< the tightest between two tokens; 0: there is none
};

/// One protocol for all that several engines share (DESIGN.md, "Two levels"): an engine says what it needs and what its
/// weights offer; the node lends it memory of others and grants one of the levels. An engine alone has none of this,
/// and takes the first level that it offers.
///
/// Two pointers to functions, and not a role of the engine: what an engine is does not depend on where it runs, and the
/// call is one an iteration.
struct Coordination {
  void* node = nullptr;
  std::size_t engine = 0; ///< who asks
  /// KV blocks of others' memory that it may use from this decision on; null: nobody lends any. `demand`: what its
  /// batch takes, all of it resident; `own`: what it has with all weights resident.
  LayerBlocks (*lend)(void* node, std::size_t engine, LayerBlocks demand, LayerBlocks own) = nullptr;
  /// The highest level (`WeightsPlan::level`) that it may take; -1: none. It has offered its levels. Null: any.
  int (*grant)(void* node, std::size_t engine) = nullptr;
};

} // namespace sluice
