// SPDX-License-Identifier: Apache-2.0
// DeadlineFirst: an admission of your own. The request whose first token is due soonest joins first.
#pragma once

#include <sluice/engine/systems/vllm.hpp>
#include <sluice/policy/admission/least_first.hpp>

/// When the user's TTFT SLO runs out. A request without one is never due.
struct FirstTokenDue {
  struct State {}; // the key depends on the request alone
  static constexpr bool knows_lengths = false;

  double operator()(State&, const sluice::RequestRow& row) const {
    return (row.spec.arrival + row.spec.slo.ttft).count();
  }
};

/// Earliest deadline first (Liu and Layland, 1973), without preemption. BasicLeastFirst keeps the queue; where all
/// requests have one TTFT SLO, this is first come, first served.
using DeadlineFirstAdmission = sluice::BasicLeastFirst<FirstTokenDue>;
static_assert(sluice::explain<DeadlineFirstAdmission>());

using DeadlineFirst = sluice::With<sluice::VllmSwap, DeadlineFirstAdmission>;
