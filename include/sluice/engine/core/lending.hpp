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
  int lent_in_force = 0;     ///< layers that the plan in force does without, and not for its own KV
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
  /// Whether the engine asks a node, so that what it is granted may change at any time.
  [[nodiscard]] bool asks() const { return coordination.lend != nullptr || coordination.grant != nullptr; }
};

/// What the claims need, whether they run already or would join.
[[nodiscard]] BatchNeeds needs_of(const Core& core, std::span<const Claim> claims);

/// A steady decode of as many of the claims as `room` holds; the required ones count in any case, and the first.
[[nodiscard]] Work steady_within(const Core& core, std::span<const Claim> claims, LayerBlocks room);

/// The weights that an iteration fetches because they stay from now on (`moves`), when the plan of the weights in force
/// goes from `before` to `after`: each layer before it computes. Nothing goes the other way, since the host has all
/// weights.
///
/// So do the weights whose memory other engines have had since the last iteration: `overwritten` layers beside those
/// that `before` does without. Which layers those are was for this engine to say: as far as they go, those that it
/// streams from now on, and of the others as many as are missing, evenly spaced.
void return_weights(const Geometry& geometry, const WeightsPlan& before, const WeightsPlan& after, int overwritten,
                    Moves& moves);

/// What a node may know of one of its engines.
class NodeFacts {
 public:
  NodeFacts(const Core& core, const WeightsOffer& offer, const void* policies)
      : core_(&core), offer_(&offer), policies_(policies) {}

  /// What the weights offered when last asked, the preferred first.
  [[nodiscard]] std::span<const WeightsLevel> levels() const { return offer_->levels; }
  /// What the engine's batch needs, and what it wanted when it last decided; while it decides, of the batch that it
  /// would like.
  [[nodiscard]] const BatchNeeds& needs() const { return offer_->needs; }
  [[nodiscard]] const Geometry& geometry() const;
  /// KV memory while all weights are resident.
  [[nodiscard]] LayerBlocks own_blocks() const;
  /// What the engine has of other engines' memory by the plan in force.
  [[nodiscard]] LayerBlocks borrowed() const;
  /// Layers of its own whose memory its KV has.
  [[nodiscard]] int lent_to_itself() const;
  /// The most layers whose memory it could lend while it does not run: what the prefill of a prompt of mean length,
  /// the first thing it will compute, has time to bring back.
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

  /// From its next decision on the engine asks a node. (A node can be moved: it says so anew before each decision.)
  void join(const Coordination& coordination) { offers_->coordination = coordination; }
  /// Other engines have the memory of so many of its layers from its next decision on. What they had and give back
  /// comes over the link with its next iteration.
  void lend(int layers);
  /// The engine has nothing to do: of other engines' memory it keeps `borrowed`, and of its own layers' none, where it
  /// lends them.
  void rest(LayerBlocks borrowed);

 private:
  Core* writes_;
  WeightsOffer* offers_;
};

} // namespace sluice
