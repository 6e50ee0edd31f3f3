// SPDX-License-Identifier: Apache-2.0
// The writers of a core: every function that changes phases, residency, the ledger or the plan in force.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/engine/core/core.hpp"
#include "sluice/engine/core/decision.hpp"
#include "sluice/engine/core/moves.hpp"

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace sluice {

struct Prepared;

/// What a commit leaves for the rest of its step, and memory that commits reuse.
struct CommitState {
  Moves moves;                      ///< what the last commit moves
  LayerBlocks host_reserved{0};     ///< host memory that the decision's claims must take beyond what they have
  bool keeps_copies = true;         ///< KV that returns to the device stays on the host too, as copies
  std::vector<LayerSet> saved;      ///< scratch: per joining claim, the layers whose hidden states must be saved
  std::vector<LayerStream> fetched; ///< scratch: the streams of a plan under check
  Error error;                      ///< why the last commit failed
};

// Two groups of functions write a core: these, and `TokenAccounts`, which counts tokens and steps. All other code takes
// a `const Core&`; tests/architecture/writers_test.cpp checks it.

// At the start of a step --------------------------------------------------------------------------------------------

/// Makes `decision` fact: places its claims, and preempts the requests that leave and Relief's victims. False, with
/// only `state.error` written, if the decision's plan is impossible: it uses memory that does not exist, names a
/// request twice or one without a claim, or names layers that the model does not have.
[[nodiscard]] bool commit(Core& core, Decision& decision, Draft& draft, const PolicyCalls& policies, Seconds now,
                          CommitState& state);
/// Gives every claim of a steady step room for one more token, and for its hidden states where they are saved. False,
/// with nothing done, if a block is missing. `opening` requests of the batch open a block with that token.
[[nodiscard]] bool grow_steadily(Core& core, std::span<const Claim> claims, std::int64_t opening, Moves& moves);
/// Copies full blocks to the host, as many as the link has time for during the prepared iteration and the host has room
/// for: those of preempted requests in the order in which they give up memory, then those of running requests, the
/// longest running first. If the link has time left, KV of the first requests of `next` (`Proposal::next`) returns.
void copy_ahead(Core& core, std::span<const Slot> next, const PolicyCalls& policies, Seconds now, Moves& moves,
                Prepared& prepared);

// While policies decide: what they must see before they answer ------------------------------------------------------

/// A request has what it has waited for from a backend's host.
void end_load(Core& core, Slot slot);
/// Records that the backend names blocks, and reads which are taken.
void name_blocks(Core& core, const BlockNames& names);
/// Records that the backend knows of all blocks that were taken.
void tell_taken(Core& core);
/// Records whether Relief lets a preempted request return.
void let_return(Core& core, Slot slot, bool may_return);
/// Looks up which released blocks these requests, which do not run, could find now, and asks Caching how many of the
/// blocks below the device they load. Returns whether that changed for any of them.
[[nodiscard]] bool find_prefixes(Core& core, std::span<const Slot> asked, const View& view,
                                 const PolicyCalls& policies);

/// Caching's answer for a request that has not started and finds this in the backend's tiers: in whole blocks, and at
/// most what there is.
[[nodiscard]] Reuse load_of(const Core& core, const RequestRow& request, FoundPrefix found, const View& view,
                            const PolicyCalls& policies);
/// A decision was made on a copy of the core, in which the request's row is `decided`: if it joins, it loads as much of
/// what the backend's host keeps for it.
void take_load(Core& core, Slot slot, const RequestRow& decided);

/// Gives up the pin (`Worth::pinned`) that would end the soonest, so that requests find room. There is one.
void give_up_pin(Core& core);
/// Ends the pins whose time is over.
void unpin_expired(Core& core, Seconds now);

// The tiers below the device, for engines whose Caching caches (engine/caching.hpp) ----------------------------------

/// Offers to the first tier what Caching wants it to have of these requests, after their iteration.
void offer_to_tiers(Core& core, std::span<const Claim> claims, Seconds now, const PolicyCalls& policies);
/// Blocks that were offered since the last iteration, or overwritten, cross the link with the prepared one.
void launch_writes(Core& core, Moves& moves, Prepared& prepared, Seconds now);
/// An iteration of `duration` has run until `now`, and `background_blocks` layer blocks have not crossed the link: the
/// others are in the first tier. Loads that requests wait for have had the rest of the link.
void pass_iteration(Core& core, Seconds duration, Seconds now, const Moves& moves, const Prepared& prepared,
                    double background_blocks, const PolicyCalls& policies);
/// No iteration has run until `now`: loads have crossed an idle link, and so have first `background_blocks`, then
/// blocks that were offered. Returns the layer blocks that have not crossed.
[[nodiscard]] double pass_idle_time(Core& core, Seconds now, double background_blocks, const PolicyCalls& policies);
/// From now on the engine's tiers are those of another engine of its node. `engine`: a number of its own, not 0.
void share_tiers(Core& core, const Tiers& of, std::uint64_t engine);
/// When the next load ends that a request waits for, if no iteration runs until then; infinite if there is none.
[[nodiscard]] Seconds next_load(const Core& core);

// When requests come and go -----------------------------------------------------------------------------------------

/// The id of a request that is submitted.
[[nodiscard]] RequestId new_request_id(Core& core);
/// Gives a request that arrives a row; it waits. The backend's host has KV of its first `on_host` tokens.
Slot enter_request(Core& core, RequestId id, const RequestSpec& spec, std::span<const BlockKey> prompt_keys,
                   Tokens on_host);
/// KV of a waiting request's first `arrived` tokens came over a network with it: it takes room when the request joins,
/// and until then a buffer that nothing counts. A request that loses its KV computes it again.
void arrive_with_kv(Core& core, Slot slot, Tokens arrived);
/// Ends a request unserved, and tells the observers why.
[[gnu::cold]] void refuse_request(Core& core, const Refusal& refusal, const PolicyCalls& policies, Seconds now);
/// A request's KV is lost for lack of room, by the backend or beside its hidden states on the device: it is preempted
/// without KV. False, and nothing changes, if that happened too often since its last token: three times `alone`, when
/// no other request's end brings room (twice may be luck: KV is still on its way to the host), or a hundred times.
[[gnu::cold]] [[nodiscard]] bool lose_kv(Core& core, Slot slot, bool alone, const Draft& draft,
                                         const PolicyCalls& policies, Seconds now);
/// Refuses a request that failed in the iteration that has run.
[[gnu::cold]] void fail_request(Core& core, Slot slot, std::string_view why, const Draft& draft,
                                const PolicyCalls& policies, Seconds now);
/// Ends a request that its user has given up, in any phase.
[[gnu::cold]] void cancel_request(Core& core, Slot slot, const Draft& draft, const PolicyCalls& policies);
/// Ends a running request that has all its tokens.
void end_request(Core& core, Slot slot, const Draft& draft, Seconds now, const PolicyCalls& policies);
/// Moves the answers of sessions since the last call into `answers`. They are kept from the first call on.
void take_answers(Core& core, std::vector<Answered>& answers);

// For a node (lending.hpp) ------------------------------------------------------------------------------------------

/// Other engines have the memory of `layers` layers of this engine's weights from its next decision on.
void lend_layers(Core& core, int layers);
/// The engine has nothing to do: it keeps `borrowed` of other engines' memory, and gives back what its own KV took of
/// its own layers' if it can lend.
void keep_borrowed(Core& core, WeightsOffer& offer, LayerBlocks borrowed);

// Read only ---------------------------------------------------------------------------------------------------------

/// What remains of a running request's KV if it is preempted now and the host has room for it.
[[nodiscard]] Kept kept_of(const PolicyCalls& policies, const View& view, const RequestRow& request);
/// The host memory of a request after it was preempted and `kept` remains of it, without copies and saved hidden
/// states.
[[nodiscard]] LayerBlocks host_of(const Core& core, const RequestRow& request, Kept kept);
/// Whether a layer that a preempted request keeps on the device moves to the host once its room is needed, if the host
/// has room for it.
[[nodiscard]] bool moves_once_needed(const PolicyCalls& policies, const View& view, const RequestRow& request);

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/engine/core/commit.inl.hpp"       // IWYU pragma: keep
#include "sluice/engine/core/copies_ahead.inl.hpp" // IWYU pragma: keep
#include "sluice/engine/core/lending.inl.hpp"      // IWYU pragma: keep
#include "sluice/engine/core/move_claim.inl.hpp"   // IWYU pragma: keep
#include "sluice/engine/core/plan_check.inl.hpp"   // IWYU pragma: keep
#include "sluice/engine/core/preemption.inl.hpp"   // IWYU pragma: keep
#include "sluice/engine/core/requests.inl.hpp"     // IWYU pragma: keep
#include "sluice/engine/core/saved_states.inl.hpp" // IWYU pragma: keep
#endif
