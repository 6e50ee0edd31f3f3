// SPDX-License-Identifier: Apache-2.0
// OtherRules: the transfer rules that systems are compiled for in addition to their own.
#pragma once

#include "sluice/core/role.hpp"
#include "sluice/policy/transfer/deadline_pool.hpp"
#include "sluice/policy/transfer/earliest_deadline_first.hpp"
#include "sluice/policy/transfer/fair_share.hpp"
#include "sluice/policy/transfer/next_layer.hpp"

namespace engines {

/// Each rule adds one engine type per system. Builds that only run checks (other compilers, sanitizers) leave them out:
/// -DSLUICE_COMPARE_RULES=own, which defines SLUICE_OWN_RULES.
#ifdef SLUICE_OWN_RULES
using OtherRules = sluice::Parts<>;
using OrbitFlowRules = sluice::Parts<sluice::DeadlinePool>; // every build has the row OrbitFlowPool
#else
using OtherRules =
    sluice::Parts<sluice::NextLayer, sluice::FairShare, sluice::EarliestDeadlineFirst, sluice::DeadlinePool>;
using OrbitFlowRules = OtherRules;
#endif

} // namespace engines
