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
  idle,   ///< nobody could run: nothing is submitted, or nothing is left
  failed, ///< a policy answered what cannot be: `BasicEngine::status()` says which, and no step follows
};

/// What a call of `begin` did.
enum class Begun : std::uint8_t {
  under_way, ///< an iteration is ready to run
  again,     ///< somebody was refused: there may be others
  idle,      ///< nobody can run
  failed,    ///< as of `Stepped`
};

/// Who runs the next iteration and who gives way for it. Decided on a snapshot, committed later: by then requests may
/// have ended, so it names slots and nothing that lies behind them.
struct Decision {
  bool valid = false;
  bool new_plan = false;          ///< the drafted plan becomes the plan in force
  std::uint64_t candidates = 0;   ///< key of everybody considered
  std::vector<Claim> claims;      ///< accepted; those not running yet join
  std::vector<Slot> leaving;      ///< stop on purpose
  std::vector<Slot> victims;      ///< give way, by Relief's choice
  std::vector<Slot> unplaceable;  ///< cannot run even alone: refused
  bool empties_preempted = false; ///< those who do not run lose what they keep: one request fits no other way
  LayerBlocks in_flight{0};       ///< device room that the transfers of the plan need at least
  Seconds planning{0};            ///< what the search cost on the engine's clock
  Seconds ready{0};               ///< when a decision made ahead is there

  void clear() {
    valid = new_plan = false;
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
