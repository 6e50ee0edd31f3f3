// SPDX-License-Identifier: Apache-2.0
// Decision: the policies' answer to one proposal, before anything moves; and the outcome of a step.
#pragma once

#include "sluice/core/ids.hpp"
#include "sluice/core/units.hpp"
#include "sluice/state/view/proposal.hpp"

#include <cstdint>
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

} // namespace sluice
