// SPDX-License-Identifier: Apache-2.0
// Committer: turns a decision into fact. Beside the accounts of tokens it is the only writer of an engine's core.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/engine/core/core.hpp"
#include "sluice/engine/core/draft.hpp"
#include "sluice/engine/core/moves.hpp"
#include "sluice/engine/decision.hpp"

#include <cstddef>
#include <span>
#include <string_view>

namespace sluice {

/// Writes phases, holdings, the ledger and the plan in force; says what that moves.
///
/// Copies ahead are in copies_ahead.inl.hpp, lending in lending.inl.hpp, the check of plans in plan_check.inl.hpp: each
/// can be read without the rest.
class Committer {
 public:
  /// Requests get their places by `decision`, and those that leave or give way are preempted. False, with nothing
  /// written but `error()`, where the plan of a decision is impossible: it uses memory that is not there, names a
  /// request twice or one that has no claim, or layers that the model does not have.
  [[nodiscard]] bool commit(Core& core, Decision& decision, Draft& draft, const PolicyCalls& policies, Seconds now);
  /// Why `commit` refused a plan.
  [[nodiscard]] const Error& error() const { return error_; }
  /// What the last commit moves.
  [[nodiscard]] const Moves& moves() const { return moves_; }

  // Outside of commits
  // -------------------------------------------------------------------------------------------------
  /// A request comes: it gets a row and waits.
  Slot enter(Core& core, RequestId id, const RequestSpec& spec, std::span<const BlockKey> prompt_keys);
  /// A request goes unserved, `why` told to the observers.
  [[gnu::cold]] void refuse(Core& core, Slot slot, std::string_view why, const PolicyCalls& policies, Seconds now);
  /// A running request has all its tokens.
  void end(Core& core, Slot slot);
  /// Whether Relief lets a preempted request return.
  static void gate(Core& core, Slot slot, bool may_return) { core.row(slot).may_return = may_return; }
  /// What the claims of requests that do not run can find of released blocks now; whether that changed for any of them.
  /// A step does not cost more where many wait.
  [[nodiscard]] static bool look_up(Core& core, std::span<const Claim> claims);
  /// Every claim of a steady step gets room for one token more: false, with nothing done, where a block is missing.
  /// `opening` requests of the batch open a block with it.
  [[nodiscard]] bool grow_steadily(Core& core, std::span<const Claim> claims, std::int64_t opening);
  /// Copies full blocks to the host as far as the way out has time during an iteration of `compute_s` and the host has
  /// room: of the request that has run the longest first. `out_blocks` and `in_blocks` are what the iteration moves
  /// anyway. Returns layer blocks.
  LayerBlocks copy_ahead(Core& core, const PolicyCalls& policies, const View& view, double compute_s, double out_blocks,
                         double in_blocks);
  /// In real time whatever moved is a stream, by its slot, and not only what the plan streams.
  void name_every_stream(std::size_t slots) {
    for (std::size_t slot = moves_.stream_slots.size(); slot < slots; ++slot)
      moves_.stream_slots.push_back(Slot{static_cast<std::uint32_t>(slot)});
  }
  /// For NodePort.
  static void lend(Core& core, int layers);
  static void rest(Core& core, WeightsOffer& offer, LayerBlocks borrowed);

 private:
  /// What the claims hold, and what they are to hold.
  struct Change {
    Footprint before, after;
  };
  [[nodiscard]] static Change change_of(const Core& core, const Decision& decision, const Plan& planned);
  [[nodiscard]] static const Holding& target_of(const Plan& plan, std::size_t i, const Claim& claim);
  [[nodiscard]] bool possible(const Core& core, const Decision& decision, const Draft& draft, const Change& change,
                              const PolicyCalls& policies, Seconds now);
  void adopt(Core& core, Draft& draft, const PolicyCalls& policies, LayerBlocks& taken_back);
  void preempt(Core& core, Slot slot, const PolicyCalls& policies, Seconds now);
  void join(Core& core, Slot slot, const PolicyCalls& policies, Seconds now);
  void move_claim(Core& core, const Claim& claim, const Holding& target, const PolicyCalls& policies, Seconds now);
  void rebuild(const Core& core, const Holding& from, const Holding& target, TokenBlocks held);
  static void grow(Core& core, Slot slot, Tokens tokens);
  static void drop(Core& core, RequestRow& request);
  void release(Core& core, Slot slot);
  void reclaim(Core& core, LayerBlocks needed, const Decision& decision, const PolicyCalls& policies, Seconds now);
  void evict(Core& core, RequestRow& request, const Holding& target, HiddenSize hidden);
  [[nodiscard]] LayerBlocks host_free(const Core& core) const { return core.ledger.host().free() - host_reserved_; }

  Moves moves_;
  LayerBlocks host_reserved_{0}; ///< host memory that the decision's claims take beyond what they have
  Error error_;
};

/// Host memory that holds clean copies of what is on the device too: given up whenever it is wanted.
[[nodiscard]] LayerBlocks copied_blocks(const Core& core);
/// `target` as the request comes to it: what the host has of the layers that are resident there stays, as a clean copy.
[[nodiscard]] Holding with_copies(const Core& core, const RequestRow& request, Holding target);
/// Gives up at least `needed` blocks of the host's memory, if there are as many copies in it: those of the newest
/// request first, and of a request the newest.
void give_up_copies(Core& core, LayerBlocks needed);

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/engine/core/committer.inl.hpp"    // IWYU pragma: keep
#include "sluice/engine/core/copies_ahead.inl.hpp" // IWYU pragma: keep
#include "sluice/engine/core/lending.inl.hpp"      // IWYU pragma: keep
#include "sluice/engine/core/move_claim.inl.hpp"   // IWYU pragma: keep
#include "sluice/engine/core/plan_check.inl.hpp"   // IWYU pragma: keep
#include "sluice/engine/core/preemption.inl.hpp"   // IWYU pragma: keep
#endif
