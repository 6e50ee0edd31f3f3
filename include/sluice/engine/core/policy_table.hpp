// SPDX-License-Identifier: Apache-2.0
// PolicyTable: what the engine's core must know and ask of an engine's policies, as one constant per engine type.
#pragma once

#include "sluice/core/ids.hpp"
#include "sluice/cost/work.hpp"
#include "sluice/relief/relief.hpp"
#include "sluice/retention/retention.hpp"
#include "sluice/transfer/pipeline.hpp"
#include "sluice/view/view.hpp"

#include <span>
#include <string>
#include <string_view>

namespace sluice {

/// What an engine's policies say of themselves in constants.
struct PolicyFacts {
  bool returns_layerwise = false; ///< Retention: KV comes back layer by layer
  bool copies_ahead = false;      ///< Retention: clean copies of full blocks are made on the host
  bool keeps_hidden = false;      ///< Retention: hidden states of running requests are saved on the host
  bool finds_released = false;    ///< Retention: released blocks are found again by their content
  bool streams_weights = false;   ///< Weights: any but ResidentWeights
  bool lends_weights = false;     ///< Weights: other engines of a node may have their memory
  bool real_time = false;         ///< Backend
  bool wants_timeline = false;    ///< an observer replays iterations
  bool refuses_victims = false;   ///< Relief: a victim is refused, and not preempted
  bool layerwise = true;          ///< Layout
};

/// The functions get `policies`, the engine's `Policies` object, as their first argument. None of them is called in a
/// steady step (engine/steady_steps.hpp).
struct PolicyTable {
  PolicyFacts is;
  LayerBlocks (*room)(TokenBlocks blocks, int held, int layers) = nullptr;                              ///< Layout
  double (*held_blocks)(std::span<const double> loads, std::span<const LayerStream> streams) = nullptr; ///< Transfer
  std::string (*placement_name)() = nullptr;
  std::string (*relief_name)() = nullptr;

  // Questions, asked when something happens to a request.
  Kept (*on_preempt)(const void* policies, const View& view, const RequestRow& request) = nullptr;
  Kept (*on_reclaim)(const void* policies, const View& view, const RequestRow& request) = nullptr;
  LayerSet (*hidden_layers)(const void* policies, const View& view, const RequestRow& request) = nullptr;
  LayerBlocks (*copy_ahead)(const void* policies, const View& view, LayerBlocks idle) = nullptr;
  /// Seconds that the computation of an iteration of `work` takes, and the link, both as the planner predicts.
  double (*compute_s)(const void* policies, const Work& work, int layers) = nullptr;
  LinkCost (*link)(const void* policies) = nullptr;
  int (*most_lent)(const void* policies, int layers, double transfer_s, double prefill_s) = nullptr;

  // Events that the policies are told of.
  void (*left_queue)(void* policies, Slot slot, const RequestRow& request) = nullptr;
  void (*planned)(void* policies) = nullptr;
  void (*resumed)(void* policies, const RequestRow& request, Seconds now) = nullptr;
  void (*preempted)(void* policies, const RequestRow& request, Kept kept, Seconds now) = nullptr;
  void (*refused)(void* policies, RequestId id, const RequestSpec& spec, Seconds now, std::string_view why) = nullptr;
};

/// A table and the policies that it calls, for the length of a call. Policies move with their engine: do not keep this.
struct PolicyCalls {
  const PolicyTable& table;
  void* policies;
};

} // namespace sluice
