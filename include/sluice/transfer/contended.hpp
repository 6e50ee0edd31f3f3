// SPDX-License-Identifier: Apache-2.0
// contended: an iteration whose computation needs the link too, from the same iteration with the link left alone.
#pragma once

#include "sluice/transfer/pipeline.hpp"

#include <algorithm>

namespace sluice {

/// What an iteration loses where the computation needs the link as well (`Pipeline::on_link`, a share s): whenever both
/// want the link, each has half. Where transfers are active, a second of compute time then takes 1 + s, and the link
/// meanwhile moves one second's blocks. So on the link's clock nothing happens otherwise than if the computation left
/// the link alone, whatever the rule: the rules compute as ever, and the seconds added are s times those in which
/// computing and transfers overlap. While a layer waits a transfer is active, so that these are the link's active time
/// less the stalls. The loss counts as stall: the computation waits for transfers, in the middle of a layer.
///
/// Exact for s spread evenly over the iteration; an all-reduce at the end of each half of a layer, and as long as the
/// rest of it, differs where a transfer is shorter than half a layer. (Rejected: an all-reduce that has the link to
/// itself. It would cost nothing where the link has slack; a real bus serves all who ask in turns.)
[[nodiscard]] constexpr StepCost contended(const StepCost& alone, double on_link) {
  const double lost_s = on_link * std::max(0.0, alone.link_s - alone.stall_s);
  return {alone.step_s + lost_s, alone.stall_s + lost_s, alone.link_s};
}

} // namespace sluice
