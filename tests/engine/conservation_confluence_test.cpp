// SPDX-License-Identifier: Apache-2.0
// Conservation for Confluence, and for each of its policies beside other systems' parts.
#include "sluice/engine/systems/confluence.hpp"
#include "sluice/policy/delivery/token_deposit.hpp"
#include "sluice/policy/placement/all_resident.hpp"
#include "sluice/policy/retention/move_to_host.hpp"

#include "engine/trials.hpp"

namespace {

using namespace sluice;

using ConfluenceDeposit = With<Confluence, TokenDeposit>;
using SlackFirstAlone = Engine<SlackFirst, AllResident, MoveToHost>;
using WorthJoiningAlone = Engine<WorthJoining, MoveToHost>;
using GroupedDistanceAlone = Engine<GroupedDistance, MoveToHost>;

SLUICE_CONSERVES(Confluence)
SLUICE_CONSERVES(ConfluenceDeposit)
SLUICE_CONSERVES(ConfluenceRanked)
SLUICE_CONSERVES(SlackFirstAlone)
SLUICE_CONSERVES(WorthJoiningAlone)
SLUICE_CONSERVES(GroupedDistanceAlone)

} // namespace
