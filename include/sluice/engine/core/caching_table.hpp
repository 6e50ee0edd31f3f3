// SPDX-License-Identifier: Apache-2.0
// CachingTable: what the core asks an engine's Caching policy and its tiers. Engines that cache nothing have none, and
// no code of it.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/ids.hpp"
#include "sluice/core/units.hpp"
#include "sluice/policy/caching/caching.hpp"
#include "sluice/state/memory/tier.hpp"
#include "sluice/state/view/view.hpp"
#include "sluice/workload/content.hpp"

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace sluice {

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
  /// A request ends: its blocks may be pinned.
  void (*ended)(Core& core, Slot slot, Seconds now, const PolicyCalls& policies) = nullptr;
  /// A request leaves, whether it has ended, was refused or is cancelled. Its row is as it was.
  void (*left)(Core& core, Slot slot) = nullptr;
  /// Live requests take `more` blocks of the host's memory next, which they share with the first tier: it evicts.
  void (*give_way)(Core& core, LayerBlocks more, Seconds now) = nullptr;
  /// A session's request has joined: the session's pins have served.
  void (*joined)(Core& core, std::uint32_t session) = nullptr;
  /// Gives up the pin that would end the soonest. There is one.
  void (*give_up_pin)(Core& core) = nullptr;
  /// Whether the first tier has all of these blocks.
  bool (*holds)(const Tiers& tiers, std::span<const BlockKey> keys) = nullptr;
  /// Layer blocks that were launched to the first tier and have not crossed the link.
  double (*on_link)(const Tiers& tiers) = nullptr;
};

/// What a Caching policy says. The functions take `policies`, the engine's `Policies` object, as their first argument.
struct CachingTable {
  Writes writes = Writes::behind;
  Feed feed = Feed::written;
  bool looks_ahead = false;
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

} // namespace sluice
