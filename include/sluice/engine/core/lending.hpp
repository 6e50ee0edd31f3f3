// SPDX-License-Identifier: Apache-2.0
// Lending: memory that weights give up for KV, within an engine and between the engines of a node.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/units.hpp"
#include "sluice/engine/core/moves.hpp"
#include "sluice/engine/core/policy_table.hpp"
#include "sluice/policy/cost/work.hpp"
#include "sluice/policy/weights/weights.hpp"
#include "sluice/state/plan/plan.hpp"
#include "sluice/state/view/proposal.hpp"

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace sluice {

struct Core;

/// Whose memory an engine uses under the plan in force. Layers are its own model's unless a comment says otherwise.
struct Lending {
  LayerBlocks borrowed{0};   ///< other engines' memory, as KV blocks
  int own_level = 0;         ///< layers whose memory its own KV has
  int lent_layers = 0;       ///< layers whose memory other engines have, from the next decision on
  int lent_in_force = 0;     ///< layers that the plan in force does without, except those for the engine's own KV
  int most_lent_layers = 0;  ///< the most lent at any time since the last iteration: their weights are overwritten
  double prompt_tokens = 0;  ///< of all accepted requests
  std::int64_t accepted = 0; ///< number of accepted requests
};

/// What the weights offered when they were last asked, and what a node let the engine take. Written during a decision;
/// a commit puts it in force.
struct WeightsOffer {
  std::vector<WeightsLevel> levels; ///< the preferred first
  int granted_level = std::numeric_limits<int>::max();
  LayerBlocks borrowed{0};   ///< other engines' memory, as KV blocks
  BatchNeeds needs;          ///< the needs of the batch that asks, or of the running one
  Coordination coordination; ///< of the engine's node, if it is in one

  /// The plan of the weights for decisions: the first offered level that is not above the granted one; if there is
  /// none, all weights are resident. Other engines' memory counts as freed.
  [[nodiscard]] WeightsPlan granted(const Lending& lending) const;
  /// Whether the engine asks a node: its grant may then change at any time.
  [[nodiscard]] bool asks() const { return coordination.lend != nullptr || coordination.grant != nullptr; }
};

/// The needs of the claims, both of running requests and of those that would join.
[[nodiscard]] BatchNeeds needs_of(const Core& core, std::span<const Claim> claims);

/// A steady decode of as many claims as fit `room`; the required claims and the first one always count.
[[nodiscard]] Work steady_within(const Core& core, std::span<const Claim> claims, LayerBlocks room);

/// Adds to `moves` the weights that the next iteration fetches for good when the plan of the weights changes from
/// `before` to `after`: each layer before it computes. Nothing moves to the host, which has all weights.
///
/// The iteration also fetches weights whose memory other engines have had since the last one: `overwritten` layers, not
/// counting those that `before` does without. The engine chooses which layers it lent: first those that it streams from
/// now on, which need no fetch here, then the missing number of others, evenly spaced.
void return_weights(const Geometry& geometry, const WeightsPlan& before, const WeightsPlan& after, int overwritten,
                    Moves& moves);

/// What a node may know about one of its engines.
class NodeFacts {
 public:
  NodeFacts(const Core& core, const WeightsOffer& offer, const void* policies)
      : core_(&core), offer_(&offer), policies_(policies) {}

  /// The levels that the weights offered when last asked, the preferred one first.
  [[nodiscard]] std::span<const WeightsLevel> levels() const { return offer_->levels; }
  /// The needs of the engine's batch, and its demand at the last decision; during a decision, the needs of the batch
  /// that the engine would like to run.
  [[nodiscard]] const BatchNeeds& needs() const { return offer_->needs; }
  [[nodiscard]] const Geometry& geometry() const;
  /// KV memory while all weights are resident.
  [[nodiscard]] LayerBlocks own_blocks() const;
  /// Other engines' memory that it uses by the plan in force, as KV blocks.
  [[nodiscard]] LayerBlocks borrowed() const;
  /// The engine's own layers whose memory its own KV has.
  [[nodiscard]] int lent_to_itself() const;
  /// The most layers whose memory the engine could lend while it does not run: as many as can return during the prefill
  /// of a prompt of mean length, which will be its first work.
  [[nodiscard]] int most_lent() const;
  /// The planner's prediction of the engine's own lane to the device.
  [[nodiscard]] LinkCost link() const;

 protected:
  const Core* core_;
  const WeightsOffer* offer_;
  const void* policies_;
};

/// A node's access to one of its engines, for the memory that engines share. Valid until the engine is moved.
class NodePort : public NodeFacts {
 public:
  NodePort(Core& core, WeightsOffer& offer, const void* policies)
      : NodeFacts(core, offer, policies), writes_(&core), offers_(&offer) {}

  /// From its next decision on the engine asks the node. (A node can be moved, so it joins again before each decision.)
  void join(const Coordination& coordination) { offers_->coordination = coordination; }
  /// Other engines have the memory of `layers` of this engine's layers from its next decision on. Weights whose memory
  /// is returned come over the link with this engine's next iteration.
  void lend(int layers);
  /// The engine has no request. It keeps `borrowed` of other engines' memory; if it can lend, its own KV returns the
  /// memory of its own layers, for others.
  void keep_borrowed(LayerBlocks borrowed);

 private:
  Core* writes_;
  WeightsOffer* offers_;
};

} // namespace sluice
