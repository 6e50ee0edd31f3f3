// SPDX-License-Identifier: Apache-2.0
// Lending: memory that weights give up for KV, within an engine and between the engines of a node.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/units.hpp"
#include "sluice/cost/work.hpp"
#include "sluice/engine/core/moves.hpp"
#include "sluice/engine/core/policy_table.hpp"
#include "sluice/plan/plan.hpp"
#include "sluice/view/proposal.hpp"
#include "sluice/weights/coordination.hpp"
#include "sluice/weights/weights.hpp"

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace sluice {

struct Core;

/// Whose memory an engine uses by the plan in force. Layers are of its own model unless a comment says otherwise.
struct Lending {
  LayerBlocks borrowed{0};   ///< of other engines' memory, as KV blocks
  int own_level = 0;         ///< layers whose memory its own KV has
  int lent_layers = 0;       ///< layers whose memory other engines have, from the next decision on
  int lent_in_force = 0;     ///< layers that the plan in force does without, but not for the engine's own KV
  int most_lent_layers = 0;  ///< the most lent at any time since the last iteration: their weights are overwritten
  double prompt_tokens = 0;  ///< of all requests accepted
  std::int64_t accepted = 0; ///< requests
};

/// What the weights offered when they were last asked, and what a node let the engine take of it. Written while the
/// engine decides; a commit puts it in force.
struct WeightsOffer {
  std::vector<WeightsLevel> levels; ///< the preferred first
  int granted_level = std::numeric_limits<int>::max();
  LayerBlocks borrowed{0};   ///< of other engines' memory, as KV blocks
  BatchNeeds needs;          ///< of the batch that asks, or of the one that runs
  Coordination coordination; ///< of the node that the engine is in, if it is in one

  /// The plan of the weights that decisions reckon with: the first level offered that is not above what was granted;
  /// none: all weights are resident. Memory of other engines counts as freed.
  [[nodiscard]] WeightsPlan granted(const Lending& lending) const;
  /// Whether the engine asks a node: what it is granted may then change at any time.
  [[nodiscard]] bool asks() const { return coordination.lend != nullptr || coordination.grant != nullptr; }
};

/// What the claims need, of requests that run already and of those that would join.
[[nodiscard]] BatchNeeds needs_of(const Core& core, std::span<const Claim> claims);

/// A steady decode of as many of the claims as `room` holds; the required claims and the first count in any case.
[[nodiscard]] Work steady_within(const Core& core, std::span<const Claim> claims, LayerBlocks room);

/// Adds to `moves` the weights that the next iteration fetches for good, when the plan of the weights in force goes
/// from `before` to `after`: each layer before it computes. Nothing goes the other way, since the host has all weights.
///
/// The iteration also fetches the weights whose memory other engines have had since the last one: `overwritten` layers,
/// not counting those that `before` does without. The engine chooses which layers it lent: first those that it streams
/// from now on, which need no fetch here, then as many others as are missing, evenly spaced.
void return_weights(const Geometry& geometry, const WeightsPlan& before, const WeightsPlan& after, int overwritten,
                    Moves& moves);

/// What a node may know of one of its engines.
class NodeFacts {
 public:
  NodeFacts(const Core& core, const WeightsOffer& offer, const void* policies)
      : core_(&core), offer_(&offer), policies_(policies) {}

  /// What the weights offered when last asked, the preferred first.
  [[nodiscard]] std::span<const WeightsLevel> levels() const { return offer_->levels; }
  /// What the engine's batch needs, and what it wanted when it last decided; during a decision, the needs of the batch
  /// that the engine would like to run.
  [[nodiscard]] const BatchNeeds& needs() const { return offer_->needs; }
  [[nodiscard]] const Geometry& geometry() const;
  /// KV memory while all weights are resident.
  [[nodiscard]] LayerBlocks own_blocks() const;
  /// What the engine has of other engines' memory by the plan in force, as KV blocks.
  [[nodiscard]] LayerBlocks borrowed() const;
  /// The engine's own layers whose memory its own KV has.
  [[nodiscard]] int lent_to_itself() const;
  /// The most layers whose memory the engine could lend while it does not run: as many as the prefill of a prompt of
  /// mean length, the first thing that it will compute, has time to bring back.
  [[nodiscard]] int most_lent() const;
  /// The planner's figure of the engine's own lane to the device.
  [[nodiscard]] LinkCost link() const;

 protected:
  const Core* core_;
  const WeightsOffer* offer_;
  const void* policies_;
};

/// How a node speaks to one of its engines about memory that they share. Valid until the engine is moved.
class NodePort : public NodeFacts {
 public:
  NodePort(Core& core, WeightsOffer& offer, const void* policies)
      : NodeFacts(core, offer, policies), writes_(&core), offers_(&offer) {}

  /// From its next decision on the engine asks the node. (A node can be moved: it joins anew before each decision.)
  void join(const Coordination& coordination) { offers_->coordination = coordination; }
  /// Other engines have the memory of `layers` of this engine's layers from its next decision on. Weights whose memory
  /// they had and give back come over the link with this engine's next iteration.
  void lend(int layers);
  /// The engine has nothing to do. It keeps `borrowed` of other engines' memory; if it can lend, its own KV gives back
  /// the memory of its own layers, for others.
  void rest(LayerBlocks borrowed);

 private:
  Core* writes_;
  WeightsOffer* offers_;
};

} // namespace sluice
