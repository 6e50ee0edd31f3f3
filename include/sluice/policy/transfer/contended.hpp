// SPDX-License-Identifier: Apache-2.0
// contended: the cost of an iteration whose computation also uses the link, from its cost without that use.
#pragma once

#include "sluice/policy/transfer/pipeline.hpp"

#include <algorithm>

namespace sluice {

/// The time that an iteration loses because its computation also uses the link (`Pipeline::on_link`, a share s).
/// Whenever both want the link, each gets half. While transfers are active, a second of compute time takes 1 + s
/// seconds, in which the link moves one second's blocks. So on the link's clock everything happens as if the
/// computation left the link alone, under any rule. The seconds added are s times those in which computing and
/// transfers overlap, which are the link's active seconds less the stalls, because a transfer is active while a layer
/// waits. The loss counts as stall: the computation waits for transfers in the middle of a layer.
///
/// Exact if s is spread evenly over the iteration. An all-reduce at the end of each half layer deviates if a transfer
/// is shorter than half a layer. (Rejected: an all-reduce with the link to itself. It would cost nothing when the link
/// has slack; a real bus serves all requesters in turns.)
[[nodiscard]] constexpr StepCost contended(const StepCost& alone, double on_link) {
  const double lost_s = on_link * std::max(0.0, alone.link_s - alone.stall_s);
  return {alone.step_s + lost_s, alone.stall_s + lost_s, alone.link_s};
}

} // namespace sluice
