// SPDX-License-Identifier: Apache-2.0
// PolicyTable: what the core must know and ask about an engine's policies, as one constant per engine type.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/core/layer_set.hpp"
#include "sluice/core/units.hpp"
#include "sluice/policy/caching/caching.hpp"
#include "sluice/policy/cost/work.hpp"
#include "sluice/policy/relief/relief.hpp"
#include "sluice/policy/retention/retention.hpp"
#include "sluice/policy/transfer/pipeline.hpp"
#include "sluice/report/observer/event.hpp"
#include "sluice/state/memory/holding.hpp"
#include "sluice/state/memory/tier.hpp"
#include "sluice/state/view/view.hpp"
#include "sluice/workload/content.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

// LayoutTable: an engine's Layout as numbers, so that code that counts memory is not compiled once per layout.

/// The room of one token block by the number of its resident layers: a Layout's `room` is proportional to the blocks.
///
/// Rejected: a pointer to the Layout's function. The planner needs the room of every request of every plan, and the
/// calls tripled the time of an engine that plans in every step.
class LayoutTable {
 public:
  LayoutTable() = default;
  /// `count` is a Layout's `room`; `layers` the model's.
  LayoutTable(LayerBlocks (*count)(TokenBlocks, int, int), bool layerwise, int layers)
      : layers_(layers), layerwise_(layerwise) {
    for (int held = 0; held <= layers; ++held) {
      room_[static_cast<std::size_t>(held)] = static_cast<std::int32_t>(count(TokenBlocks{1}, held, layers).count());
      SLUICE_ASSERT(count(TokenBlocks{7}, held, layers).count() == 7 * room_[static_cast<std::size_t>(held)],
                    "a Layout's room is proportional to the blocks");
    }
  }

  /// Room in layer blocks of `blocks` token blocks with `held` resident layers.
  [[nodiscard]] LayerBlocks room(TokenBlocks blocks, int held) const {
    return LayerBlocks{blocks.count() * room_[static_cast<std::size_t>(held)]};
  }
  /// The same with all layers.
  [[nodiscard]] LayerBlocks room(TokenBlocks blocks) const { return room(blocks, layers_); }
  /// Whether one layer can be resident without another.
  [[nodiscard]] bool layerwise() const { return layerwise_; }

 private:
  std::array<std::int32_t, max_layers + 1> room_{};
  int layers_ = 0;
  bool layerwise_ = true;
};

// CachingTable: what the core asks an engine's Caching policy and its tiers. Engines that cache nothing have none, and
// no code of it.
struct Core;
struct Moves;
struct PolicyCalls;
class Tiers; // engine/core/tiers.hpp

/// The tiers of an engine, as its configuration has them.
struct TierList {
  Tier first;
  std::vector<Tier> lower; ///< from the second on
  bool explains_misses = false;
};

/// The core's calls of the tiers, for code that engines without tiers compile as well.
struct TierCalls {
  /// What is wrong with these tiers, if anything is.
  Status (*check)(const Tier& first, std::span<const Tier> lower, Writes writes, Feed feed) = nullptr;
  Tiers* (*make)(const TierList& tiers, Bytes token_block, Feed feed) = nullptr;
  Tiers* (*copy)(const Tiers& tiers) = nullptr;
  void (*destroy)(Tiers* tiers) = nullptr;
  /// What a request finds on the device and in the tiers if it joins now. Returns whether its row changed.
  bool (*look_up)(Core& core, Slot slot, const View& view, const PolicyCalls& policies) = nullptr;
  /// A request has arrived; for policies that look ahead.
  void (*entered)(Core& core, Slot slot, Seconds now, const PolicyCalls& policies) = nullptr;
  /// A request joins for the first time. Tells observers why it does not find more, if the tiers know.
  void (*started)(Core& core, Slot slot, Seconds now, const PolicyCalls& policies) = nullptr;
  /// A request that is about to join uses the blocks that it finds: they are evicted last when others need room.
  void (*use)(Core& core, Slot slot, Seconds now) = nullptr;
  /// A joining request's blocks come from the first tier; the ledger and the block table have their room already.
  /// Returns how many come: the request computes what has been evicted since the decision.
  TokenBlocks (*load)(Core& core, Slot slot, Moves& moves, Seconds now, const PolicyCalls& policies) = nullptr;
  /// A request that waits for a tier's blocks leaves.
  void (*abandon)(Core& core, Slot slot) = nullptr;
  /// A request ends: its blocks may be pinned, leave the first tier first, or come back at a time.
  void (*ended)(Core& core, Slot slot, Seconds now, const PolicyCalls& policies) = nullptr;
  /// A request leaves, whether it has ended, was refused or is cancelled. Its row is as it was.
  void (*left)(Core& core, Slot slot) = nullptr;
  /// Live requests take `more` blocks of the host's memory next, which they share with the first tier: it evicts.
  void (*give_way)(Core& core, LayerBlocks more, Seconds now) = nullptr;
  /// Whether the first tier has all of these blocks.
  bool (*holds)(const Tiers& tiers, std::span<const BlockKey> keys) = nullptr;
  /// How many of these blocks, from the first on, any tier has.
  std::size_t (*find)(const Tiers& tiers, std::span<const BlockKey> keys) = nullptr;
  /// Layer blocks that were launched to the first tier and have not crossed the link.
  double (*on_link)(const Tiers& tiers) = nullptr;
};

/// What a Caching policy says. The functions take `policies`, the engine's `Policies` object, as their first argument.
struct CachingTable {
  Writes writes = Writes::behind;
  Feed feed = Feed::written;
  bool looks_ahead = false;
  HintSet uses_hints;
  Tokens (*write)(void* policies, const View& view, const RequestRow& request) = nullptr;
  Reuse (*reuse)(const void* policies, const View& view, const RequestRow& request, const FoundPrefix& found) = nullptr;
  Worth (*worth)(const void* policies, const View& view, const RequestRow& request) = nullptr;
};

/// Owns the tiers of a core, or nothing. A copy has copies of the tiers, also of those that engines of a node share.
class OwnedTiers {
 public:
  OwnedTiers() = default;
  OwnedTiers(const TierCalls& calls, const TierList& tiers, Bytes token_block, Feed feed)
      : calls_(&calls), tiers_(calls.make(tiers, token_block, feed)) {}
  OwnedTiers(const OwnedTiers& other)
      : calls_(other.calls_), tiers_(other.tiers_ == nullptr ? nullptr : other.calls_->copy(*other.tiers_)) {}
  OwnedTiers(OwnedTiers&& other) noexcept : calls_(other.calls_), tiers_(std::exchange(other.tiers_, nullptr)) {}
  OwnedTiers& operator=(OwnedTiers other) noexcept {
    std::swap(calls_, other.calls_);
    std::swap(tiers_, other.tiers_);
    return *this;
  }
  ~OwnedTiers() {
    if (tiers_ != nullptr) calls_->destroy(tiers_);
  }

  Tiers& operator*() { return *tiers_; }
  const Tiers& operator*() const { return *tiers_; }
  Tiers* operator->() { return tiers_; }
  const Tiers* operator->() const { return tiers_; }
  [[nodiscard]] const TierCalls& calls() const { return *calls_; }

 private:
  const TierCalls* calls_ = nullptr;
  Tiers* tiers_ = nullptr;
};

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
  bool parts_with = false;        ///< Retention or Caching: reads `keep` or `release`
  bool foresees = false;          ///< some policy knows_lengths
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
  Tokens (*on_end)(const void* policies, const View& view, const RequestRow& request) = nullptr; ///< null: all
  LayerSet (*hidden_layers)(const void* policies, const View& view, const RequestRow& request) = nullptr;
  bool (*keeps_checkpoint)(const BlockEnd& end) = nullptr; ///< Retention, if it finds released blocks
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
