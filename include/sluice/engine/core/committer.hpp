// SPDX-License-Identifier: Apache-2.0
// Committer: turns a decision into fact. Apart from the accounts of tokens it is the only writer of an engine's core.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/engine/core/core.hpp"
#include "sluice/engine/core/decision.hpp"
#include "sluice/engine/core/draft.hpp"
#include "sluice/engine/core/moves.hpp"

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace sluice {

/// Writes phases, holdings, the ledger and the plan in force; says what that moves.
///
/// Copies ahead are in copies_ahead.inl.hpp, saved hidden states in saved_states.inl.hpp, lending in lending.inl.hpp,
/// the check of plans in plan_check.inl.hpp: each can be read without the rest.
class Committer {
 public:
  /// Gives requests their places by `decision`, and preempts those that leave or give way. False, with nothing written
  /// but `error()`, where the decision's plan is impossible: it uses memory that is not there, names a request twice or
  /// one that has no claim, or layers that the model does not have.
  [[nodiscard]] bool commit(Core& core, Decision& decision, Draft& draft, const PolicyCalls& policies, Seconds now);
  /// Why `commit` refused a plan.
  [[nodiscard]] const Error& error() const { return error_; }
  /// What the last commit moves.
  [[nodiscard]] const Moves& moves() const { return moves_; }

  // Outside of commits ---------------------------------------------------------------------------------------------
  /// Gives a request that arrives a row; it waits.
  Slot enter(Core& core, RequestId id, const RequestSpec& spec, std::span<const BlockKey> prompt_keys);
  /// Ends a request unserved, and tells the observers `why`.
  [[gnu::cold]] void refuse(Core& core, Slot slot, std::string_view why, const PolicyCalls& policies, Seconds now);
  /// Ends a request that its user has given up, in whatever phase it is.
  [[gnu::cold]] void cancel(Core& core, Slot slot, const PolicyCalls& policies);
  /// Ends a running request that has all its tokens.
  void end(Core& core, Slot slot);
  /// Writes down whether Relief lets a preempted request return.
  static void gate(Core& core, Slot slot, bool may_return) { core.row(slot).may_return = may_return; }
  /// Looks up which released blocks the requests of these claims could find now, if they do not run. Returns whether
  /// that changed for any of them. Only claims are looked up, so that many waiting requests cost a step no more.
  [[nodiscard]] static bool look_up(Core& core, std::span<const Claim> claims);
  /// Gives every claim of a steady step room for one more token, and for its hidden states where they are saved; false,
  /// with nothing done, where a block is missing. `opening` requests of the batch open a block with that token.
  [[nodiscard]] bool grow_steadily(Core& core, std::span<const Claim> claims, std::int64_t opening);
  /// Copies full blocks to the host as far as the way out has time during an iteration of `compute_s` seconds and the
  /// host has room, those of the request that has run the longest first. `out_blocks` and `in_blocks`: layer blocks
  /// that the iteration moves anyway. Returns layer blocks.
  LayerBlocks copy_ahead(Core& core, const PolicyCalls& policies, const View& view, double compute_s, double out_blocks,
                         double in_blocks);
  /// Names a stream for every slot: in real time whatever moved is one, and not only what the plan streams.
  void name_every_stream(std::size_t slots) {
    for (std::size_t slot = moves_.stream_slots.size(); slot < slots; ++slot)
      moves_.stream_slots.push_back(Slot{static_cast<std::uint32_t>(slot)});
  }
  /// What a NodePort writes (lending.hpp).
  static void lend(Core& core, int layers);
  static void rest(Core& core, WeightsOffer& offer, LayerBlocks borrowed);

 private:
  /// What the claims hold before the commit, and after it.
  struct Change {
    Footprint before, after;
  };
  /// Whether saved hidden states are part of it.
  enum class States : bool { left_out, counted };
  [[nodiscard]] Change change_of(const Core& core, const Decision& decision, const Plan& planned, States states) const;
  [[nodiscard]] static const Holding& target_of(const Plan& plan, std::size_t i, const Claim& claim);
  [[nodiscard]] bool possible(const Core& core, const Decision& decision, const Draft& draft, const Change& change,
                              const PolicyCalls& policies, Seconds now);
  void adopt(Core& core, Draft& draft, const PolicyCalls& policies, LayerBlocks& taken_back);
  void preempt(Core& core, Slot slot, const PolicyCalls& policies, Seconds now);
  void join(Core& core, Slot slot, const PolicyCalls& policies, Seconds now);
  void move_claim(Core& core, const Claim& claim, const Holding& target, LayerSet saved, const PolicyCalls& policies,
                  Seconds now);
  void rebuild(const Core& core, const Holding& from, const Holding& target, TokenBlocks held);
  void ask_for_states(const Core& core, const Decision& decision, const PolicyCalls& policies, Seconds now);
  [[nodiscard]] LayerSet states_of(const RequestRow& request, std::size_t claim) const;
  void fit_host(Core& core, const Decision& decision, Change& change);
  static void grow(Core& core, Slot slot, Tokens tokens);
  static void drop(Core& core, RequestRow& request);
  static void leave_list(Core& core, Slot slot, const PolicyCalls& policies);
  void release(Core& core, Slot slot);
  void reclaim(Core& core, LayerBlocks needed, const Decision& decision, const PolicyCalls& policies, Seconds now);
  void evict(Core& core, RequestRow& request, const Holding& target, HiddenSize hidden);
  [[nodiscard]] LayerBlocks host_free(const Core& core) const { return core.ledger.host().free() - host_reserved_; }

  Moves moves_;
  LayerBlocks host_reserved_{0};     ///< host memory that the decision's claims must take beyond what they have
  std::vector<LayerSet> saved_;      ///< scratch: of claims that join, the layers whose hidden states are to be saved
  std::vector<LayerStream> fetched_; ///< scratch, of a plan that is checked
  Error error_;
};

/// Host memory that holds clean copies of KV that the device has too: given up whenever anything else needs the room.
[[nodiscard]] LayerBlocks copied_blocks(const Core& core);
/// `target` as the request comes to it: what the host already has of the layers that are resident there stays, as a
/// clean copy.
[[nodiscard]] Holding with_copies(const Core& core, const RequestRow& request, Holding target);
/// Gives up at least `needed` blocks of the host's memory, if copies take as many: first those of preempted requests,
/// then of running ones, in both of the newest request first, and of a request the newest.
void give_up_copies(Core& core, LayerBlocks needed);
/// Host memory that holds hidden states of running requests: given up whenever KV needs the room.
[[nodiscard]] LayerBlocks saved_blocks(const Core& core);
/// Gives up at least `needed` blocks of the host's memory, if saved hidden states take as many: all of a request's, in
/// the order of `give_up_copies`.
void give_up_states(Core& core, LayerBlocks needed);
/// Gives up copies, then saved states. Returns whether there was anything to give up.
bool give_up_on_host(Core& core, LayerBlocks needed);
/// How a request is held once it has been preempted and `kept` (`Kept::host` or `Kept::hidden`) remains of it.
[[nodiscard]] Holding moved_to_host(const Core& core, const RequestRow& request, Kept kept);

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/engine/core/committer.inl.hpp"    // IWYU pragma: keep
#include "sluice/engine/core/copies_ahead.inl.hpp" // IWYU pragma: keep
#include "sluice/engine/core/lending.inl.hpp"      // IWYU pragma: keep
#include "sluice/engine/core/move_claim.inl.hpp"   // IWYU pragma: keep
#include "sluice/engine/core/plan_check.inl.hpp"   // IWYU pragma: keep
#include "sluice/engine/core/preemption.inl.hpp"   // IWYU pragma: keep
#include "sluice/engine/core/saved_states.inl.hpp" // IWYU pragma: keep
#endif
