// SPDX-License-Identifier: Apache-2.0
// Decision: the policies' answer to one proposal; what is written while deciding, and what the next step takes over.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/engine/core/lending.hpp"
#include "sluice/policy/transfer/pipeline.hpp"
#include "sluice/state/plan/plan.hpp"
#include "sluice/state/view/proposal.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace sluice {

/// What a call of `step` did.
enum class Stepped : std::uint8_t {
  ran,    ///< an iteration ran and the clock advanced
  idle,   ///< no request could run: none is alive
  failed, ///< a policy's answer was impossible: `BasicEngine::status()` says which; no step follows
};

/// What a call of `begin` did.
enum class Begun : std::uint8_t {
  under_way, ///< an iteration is ready to run
  again,     ///< a request was refused: others may be able to run
  idle,      ///< no request can run
  failed,    ///< as in `Stepped`
};

/// The key of one request. The key of a set is the sum of its requests' keys: a sum of mixed ids is fast and does not
/// depend on the order.
constexpr std::uint64_t candidate_key(RequestId id) {
  std::uint64_t z = (std::uint64_t{index(id)} + 1) * 0x9e3779b97f4a7c15u;
  z ^= z >> 32;
  return z * 0xd6e8feb86659fd93u;
}

/// What makes a proposal impossible, and for which request. Admission has made it, so no request is moved for it.
struct ProposalMistake {
  enum class Kind : std::uint8_t {
    none,
    no_request,  ///< a claim of a slot that holds no live request
    twice,       ///< two claims of a request
    leaves_too,  ///< a request that leaves or is refused has a claim
    not_running, ///< a request leaves that does not run
    not_waiting, ///< a request is refused that does not wait for its first iteration
    left_out,    ///< a running request has no claim and does not leave
    order,       ///< a required claim after an optional one
    cost,        ///< it presses at the cost of no running request with a required claim of its own
    instead,     ///< it joins instead of a request and does not press, is not the last required claim, or need not
    may_not,     ///< a preempted request that Relief does not let return
    tokens,      ///< more tokens than the request has to compute, or fewer than 0
    reserve,     ///< room for fewer than 0 tokens, or for more than any request has
    batch,       ///< more claims than a batch has requests
    budget,      ///< more tokens than an iteration computes
  };
  Kind kind = Kind::none;
  Slot slot{};
  std::int64_t number = 0; ///< of tokens or claims
};

/// Which requests run in the next iteration, and which are preempted for them. It is decided on a snapshot and
/// committed later, when requests may have ended, so it names only slots.
struct Decision {
  /// An impossible answer of a policy that was asked for this decision: the commit fails.
  enum class Mistake : std::uint8_t { none, proposal, joined, victim };

  bool valid = false;
  Mistake mistake = Mistake::none;
  ProposalMistake proposal;       ///< if that is the mistake
  bool new_plan = false;          ///< the drafted plan becomes the plan in force
  std::uint64_t candidates = 0;   ///< key of the requests considered, the rejected ones too
  std::vector<Claim> claims;      ///< accepted; those not running yet join
  std::vector<Slot> leaving;      ///< preempted on purpose
  std::vector<Slot> victims;      ///< preempted or refused by Relief's choice
  std::vector<Refusal> refused;   ///< given up by Admission, or cannot run even alone
  std::vector<Slot> next;         ///< `Proposal::next`: who of those that do not run is expected to run again first
  bool empties_preempted = false; ///< preempted requests lose the KV that they keep: one request fits no other way
  LayerBlocks in_flight{0};       ///< the least device room for the plan's transfers
  Seconds planning{0};            ///< the search's time on the engine's clock
  Seconds ready{0};               ///< when a decision made ahead is ready

  void clear() {
    valid = new_plan = false;
    mistake = Mistake::none;
    candidates = 0;
    claims.clear();
    leaving.clear();
    victims.clear();
    refused.clear();
    next.clear();
    empties_preempted = false;
    in_flight = LayerBlocks{0};
    planning = ready = Seconds{0};
  }
};

// Draft: what an engine writes while it decides; a commit makes it fact.

/// A plan that observers do not know yet, and the wall time that it took.
struct UnseenPlan {
  Plan plan;
  Seconds wall{0};
};

/// The claim of a running request that is preempted for a pressing one, and its place among the claims.
struct Paid {
  Claim claim;
  std::ptrdiff_t at = 0;
};

/// The next plan, what the weights offer, and scratch memory of decisions. An engine has one draft for all decisions;
/// it holds the content of the newest.
struct Draft {
  Plan plan; ///< in force once a decision with `new_plan` is committed; an older plan's content until then
  WeightsOffer offer;
  Proposal proposal;
  std::vector<std::uint64_t> proposed; ///< scratch: by slot, the last check that met it (checks.hpp)
  std::uint64_t checks = 0;            ///< checks of proposals so far
  std::vector<Slot> asked;             ///< those that do not run and that it named: what they find is in the decision
  Paid paid;                           ///< scratch: for the pressing claim under consideration
  std::vector<Claim> optional;         ///< scratch: optional claims that wait meanwhile
  std::vector<LayerStream> streams;    ///< scratch: of a plan applied to claims
  /// Whether layers are fetched: by the last committed iteration, or by the plan in force when it was last applied.
  bool fetches = false;
  /// Whether the plan was made while an iteration ran: requests that it names may have ended since.
  bool made_ahead = false;
  /// Plans made asynchronously: observers see them when the decision is taken.
  std::vector<UnseenPlan> unseen_plans;

  /// No plan names the next request in this row.
  void forget(Slot slot) {
    std::erase_if(plan.requests, [slot](const RequestPlan& planned) { return planned.slot == slot; });
  }
};

// CarryOver: what the next step may take over from the last one: its decision, and blocks fetched early.

/// The only writer of two facts about the last step: whether its decision stands (`steady`), and whether what was
/// fetched early for the next one is stale. Each function is an event that changes them. Those of the tiers may happen
/// while an iteration runs, whose decision does not know them.
class CarryOver {
 public:
  /// In the last iteration every request decoded and nothing moved, and nothing has happened since.
  [[nodiscard]] bool steady() const { return steady_; }

  /// The next iteration gets a decision of its own.
  void deciding() { steady_ = more_since_ = false; }
  /// An iteration has run. `steady`: the next one would decide the same (engine/steady_steps.hpp).
  void ran(bool steady) { steady_ = steady && !more_since_; }
  /// A request may join that could not: what it waits for has come from a tier, or its patience or a pin has ended.
  void more_may_join() {
    steady_ = false;
    more_since_ = true;
  }
  /// The engine was copied: the copy has nothing prepared, and decides its next step.
  void forked() { steady_ = false; }
  /// A request arrives.
  void request_entered() { steady_ = false; }
  /// A request has ended, failed or was cancelled. `fetches`: the last commit, or plan applied, fetches layers.
  void request_left(bool fetches) {
    steady_ = false;
    stale_prefetches_ = stale_prefetches_ || fetches;
  }
  /// The committed batch, plan or weights differ from those that blocks were fetched for.
  void batch_changed() { stale_prefetches_ = true; }
  /// Other engines of the node have the memory of more or fewer layers.
  void lent_layers_changed() { steady_ = false; }
  /// The engine has no request, and its KV memory changed.
  void memory_resized() {
    steady_ = false;
    stale_prefetches_ = true;
  }
  /// Whether the evaluator's state must forget what was fetched early; answers true once.
  [[nodiscard]] bool take_stale_prefetches() { return std::exchange(stale_prefetches_, false); }

 private:
  bool steady_ = false;
  bool more_since_ = false;       ///< since the last decision, a request may join that could not
  bool stale_prefetches_ = false; ///< blocks were fetched early for another batch or plan
};

} // namespace sluice
