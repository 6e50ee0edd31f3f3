// SPDX-License-Identifier: Apache-2.0
// PolicyTable: what the core must know and ask about an engine's policies, as one constant per engine type.
#pragma once

#include "sluice/core/ids.hpp"
#include "sluice/engine/core/caching_table.hpp"
#include "sluice/policy/cost/work.hpp"
#include "sluice/policy/relief/relief.hpp"
#include "sluice/policy/retention/retention.hpp"
#include "sluice/policy/transfer/pipeline.hpp"
#include "sluice/report/observer/event.hpp"
#include "sluice/state/view/view.hpp"

#include <span>
#include <string>

namespace sluice {

/// The constants of an engine's policies.
struct PolicyFacts {
  bool returns_layerwise = false; ///< Retention: KV returns layer by layer
  bool copies_ahead = false;      ///< Retention: full blocks get clean copies on the host
  bool keeps_hidden = false;      ///< Retention: running requests' hidden states are saved on the host
  bool finds_released = false;    ///< Retention: released blocks are found by their content
  bool keeps_states = false;      ///< Placement: hidden states may be on the device
  bool streams_weights = false;   ///< Weights: all but ResidentWeights
  bool lends_weights = false;     ///< Weights: other engines of a node may use their memory
  bool real_time = false;         ///< Backend
  bool wants_timeline = false;    ///< an observer replays iterations
  bool refuses_victims = false;   ///< Relief: a victim is refused instead of preempted
  bool layerwise = true;          ///< Layout
};

/// The functions take `policies`, the engine's `Policies` object, as their first argument. A steady step calls none of
/// them (engine/steady_steps.hpp).
struct PolicyTable {
  PolicyFacts is;
  LayerBlocks (*room)(TokenBlocks blocks, int held, int layers) = nullptr;                              ///< Layout
  double (*held_blocks)(std::span<const double> loads, std::span<const LayerStream> streams) = nullptr; ///< Transfer
  std::string (*admission_name)() = nullptr;
  std::string (*placement_name)() = nullptr;
  std::string (*relief_name)() = nullptr;

  // Questions, asked when something happens to a request.
  Kept (*on_preempt)(const void* policies, const View& view, const RequestRow& request) = nullptr;
  Kept (*on_reclaim)(const void* policies, const View& view, const RequestRow& request) = nullptr;
  LayerSet (*hidden_layers)(const void* policies, const View& view, const RequestRow& request) = nullptr;
  LayerBlocks (*copy_ahead)(const void* policies, const View& view, LayerBlocks idle) = nullptr;
  const CachingTable* caching = nullptr; ///< null if the engine caches nothing
  const TierCalls* tiers = nullptr;      ///< null if it caches nothing, or its backend has the tiers
  /// Seconds that an iteration of `work` computes, and the link, both as the planner predicts.
  double (*compute_s)(const void* policies, const Work& work, int layers) = nullptr;
  LinkCost (*link)(const void* policies) = nullptr;
  int (*most_lent)(const void* policies, int layers, double transfer_s, double prefill_s) = nullptr;

  // Events for the policies.
  void (*left_queue)(void* policies, Slot slot, const RequestRow& request) = nullptr;
  void (*planned)(void* policies) = nullptr;
  void (*tell)(void* policies, const AnyEvent& event) = nullptr; ///< to the observers
};

/// A table and the policies that it calls, for the length of a call. Policies move with their engine: do not store
/// this.
struct PolicyCalls {
  const PolicyTable& table;
  void* policies;
};

} // namespace sluice
