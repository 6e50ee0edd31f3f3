// SPDX-License-Identifier: Apache-2.0
// Decision: what the policies made of one proposal, before anything is moved; and what a step came to.
#pragma once

#include "sluice/core/ids.hpp"
#include "sluice/core/units.hpp"
#include "sluice/view/proposal.hpp"

#include <cstdint>
#include <vector>

namespace sluice {

/// What a call of `step` did.
enum class Stepped : std::uint8_t {
  ran,    ///< an iteration ran, and the clock advanced
  idle,   ///< no request could run: none is submitted, or none is left
  failed, ///< a policy's answer was impossible: `BasicEngine::status()` says which, and no step follows
};

/// What a call of `begin` did.
enum class Begun : std::uint8_t {
  under_way, ///< an iteration is ready to run
  again,     ///< a request was refused: others may be able to run
  idle,      ///< no request can run
  failed,    ///< as in `Stepped`
};

/// Which requests run in the next iteration, and which give way for them. It is decided on a snapshot and committed
/// later: by then requests may have ended, so it names slots and nothing that they stand for.
struct Decision {
  /// An answer that cannot be, of a policy that was asked for this decision: a commit refuses it.
  enum class Mistake : std::uint8_t { none, joined, victim };

  bool valid = false;
  Mistake mistake = Mistake::none;
  bool new_plan = false;          ///< the drafted plan becomes the plan in force
  std::uint64_t candidates = 0;   ///< key of the requests considered, the rejected ones too
  std::vector<Claim> claims;      ///< accepted; those not running yet join
  std::vector<Slot> leaving;      ///< stop on purpose
  std::vector<Slot> victims;      ///< give way, by Relief's choice
  std::vector<Slot> unplaceable;  ///< cannot run even alone: refused
  bool empties_preempted = false; ///< preempted requests lose what they keep: one request fits no other way
  LayerBlocks in_flight{0};       ///< device room that the transfers of the plan need at least
  Seconds planning{0};            ///< what the search cost on the engine's clock
  Seconds ready{0};               ///< when a decision made ahead is ready

  void clear() {
    valid = new_plan = false;
    mistake = Mistake::none;
    candidates = 0;
    claims.clear();
    leaving.clear();
    victims.clear();
    unplaceable.clear();
    empties_preempted = false;
    in_flight = LayerBlocks{0};
    planning = ready = Seconds{0};
  }
};

} // namespace sluice
