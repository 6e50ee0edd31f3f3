// SPDX-License-Identifier: Apache-2.0
// The steps of a commit, declared for the files that define them: writers.hpp declares what the shell calls.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/engine/core/core.hpp"
#include "sluice/engine/core/decision.hpp"
#include "sluice/engine/core/moves.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sluice {
struct CommitState;
}

namespace sluice::detail {

// commit.inl.hpp ----------------------------------------------------------------------------------------------------

/// What the claims hold before the commit, and after it.
struct Change {
  Footprint before, after;
};
/// Whether a `Change` counts copies and saved hidden states, which are given up for KV that needs the room.
enum class Spare : bool { left_out, counted };
/// `state`: for what is saved and whether copies are kept.
[[nodiscard]] Change change_of(const Core& core, const Decision& decision, const Plan& planned, Spare spare,
                               const CommitState& state);
/// The residency that a plan gives to the claim at position `i`.
[[nodiscard]] const Holding& target_of(const Plan& plan, std::size_t i, const Claim& claim);

// plan_check.inl.hpp ------------------------------------------------------------------------------------------------

/// The request in a slot, for messages.
[[nodiscard]] std::string request_text(const Core& core, Slot slot);
/// Whether a drafted plan is possible: it names each claim once and no other request, names only layers of the model,
/// and takes no more memory than the placement was given. Checked in every build, with the commit's own sums. If not,
/// `state.error` has the reason. Raises the decision's room in flight to what the requests need, if the plan says less.
[[nodiscard]] bool is_possible(const Core& core, Decision& decision, const Draft& draft, const Change& change,
                               const PolicyCalls& policies, Seconds now, CommitState& state);

/// Live requests take `more` blocks of host memory next.
inline void take_host(Core& core, LayerBlocks more, Seconds now) {
  if (core.shares_host()) core.policies->tiers->give_way(core, more, now);
}

// move_claim.inl.hpp ------------------------------------------------------------------------------------------------

/// Moves one claim to its place: fetches what is on the host and needed now, layer by layer or all at once; evicts what
/// the plan wants on the host and is not there; lets the request join if it did not run. For the resident layers in
/// `saved` the host also has, or gets, hidden states.
void move_claim(Core& core, const Claim& claim, const Holding& target, const LayerSet& saved,
                const PolicyCalls& policies, Seconds now, CommitState& state);

// preemption.inl.hpp ------------------------------------------------------------------------------------------------

/// The two ends of a preemption; what becomes of the request's KV in between is the caller's.
void stop_running(Core& core, Slot slot, Seconds now);
void list_preempted(Core& core, Slot slot);
/// Preempts a running request. Retention says what remains of its KV, unless `decision` drops what others keep.
void preempt(Core& core, Slot slot, const Decision& decision, const PolicyCalls& policies, Seconds now,
             CommitState& state);
/// Visits the preempted requests in the order in which they give up memory, until a visit returns false: those that
/// `next` (`Proposal::next`) does not name, the youngest first, then those that it names, the last first. It makes no
/// list, because a steady step copies ahead and allocates nothing, and searches none, because hundreds may be named.
template <class Visit>
void in_giving_order(Core& core, std::span<const Slot> next, Visit&& visit) {
  RequestTable& requests = core.requests;
  if (requests.named.size() < requests.rows.size()) requests.named.resize(requests.rows.size());
  const std::uint64_t call = ++requests.namings;
  for (const Slot slot : next) // a policy's list: checked, as the rest of a proposal is
    if (index(slot) < requests.rows.size()) requests.named[index(slot)] = call;
  for (auto at = requests.preempted.rbegin(); at != requests.preempted.rend(); ++at) // by arrival
    if (requests.named[index(*at)] != call && !visit(*at)) return;
  for (auto at = next.rbegin(); at != next.rend(); ++at)
    if (index(*at) < requests.rows.size() && core.row(*at).phase == Phase::preempted && !visit(*at)) return;
}
/// Makes preempted requests give up at least `needed` blocks of what they keep on the device: by `in_giving_order`,
/// layer by layer from the last. A request whose layer finds no room on the host is dropped whole.
void reclaim(Core& core, LayerBlocks needed, const Decision& decision, const PolicyCalls& policies, Seconds now,
             CommitState& state);
/// Drops the request's KV from both memories: everything is computed again.
void drop(Core& core, RequestRow& request);

// requests.inl.hpp --------------------------------------------------------------------------------------------------

/// Gives a request blocks for `tokens` more tokens.
void grow(Core& core, Slot slot, Tokens tokens);
/// Who uses a request's blocks: its session, or itself.
[[nodiscard]] std::uint64_t user_of(const RequestRow& request);
/// A request ends: blocks that Retention parts with, and those beyond `kept` tokens, are the first whose room others
/// take.
void part(Core& core, Slot slot, Tokens kept, Seconds now, const PolicyCalls& policies);
/// Whether the blocks of a request that ends may be pinned. Only its session's next request ends a pin early: without
/// one, the client must have said how long.
[[nodiscard]] bool may_pin(const Core& core, const RequestRow& request);
/// A request ends: what the device keeps of it is pinned for a time, if that is not 0, without what Retention parts with
/// and what is beyond `kept` tokens.
void end_on_device(Core& core, Slot slot, Tokens kept, Seconds pinned, Seconds now, const PolicyCalls& policies);
/// A session's request has joined: its pins have served. The ledger's capacity follows at the end of the commit, when
/// the request has taken its blocks.
void unpin_session(Core& core, std::uint32_t session);
/// A waiting or preempted request runs from now on.
void join(Core& core, Slot slot, const PolicyCalls& policies, Seconds now);

// copies_ahead.inl.hpp ----------------------------------------------------------------------------------------------

/// `target` with the clean copies that the host already has of layers that `target` keeps resident.
[[nodiscard]] Holding with_copies(const Core& core, const RequestRow& request, Holding target);
/// Gives up clean copies until at least `needed` host blocks are free or none is left. Order: preempted requests before
/// running ones; within each group the newest request first; within a request the newest block first.
void give_up_copies(Core& core, LayerBlocks needed);

// saved_states.inl.hpp ----------------------------------------------------------------------------------------------

/// Asks Retention which layers' hidden states each joining claim saves.
void ask_for_states(const Core& core, const Decision& decision, const PolicyCalls& policies, Seconds now,
                    std::vector<LayerSet>& saved);
/// The layers whose hidden states the host has once the decision is fact, if they are resident.
[[nodiscard]] LayerSet states_of(const RequestRow& request, std::size_t claim, std::span<const LayerSet> saved);
/// Gives up what the claims would like to have on the host besides the KV that must be there, as far as room is
/// missing: copies, those that returning KV would leave, then what the last joining claims would save, then what the
/// newest running requests have saved.
void fit_host(Core& core, const Decision& decision, Change& change, CommitState& state);
/// Gives up saved hidden states, a request's all at once, in the order of `give_up_copies`.
void give_up_states(Core& core, LayerBlocks needed);
/// Gives up copies, then saved states. Returns whether there was anything to give up.
bool give_up_on_host(Core& core, LayerBlocks needed);

} // namespace sluice::detail
