// SPDX-License-Identifier: Apache-2.0
// LinkClock: compute time on the clock of a link that is slower while the other lane is active.
#pragma once

namespace sluice {

/// The rules reckon in the link's own time, in which it always moves one second's blocks a second. While the lane the
/// other way is active, from the start of the iteration until `slow_until_s`, the link loses the share `loss`: its
/// clock runs slow, and a layer that computes meanwhile takes less of it. So a rule moves blocks as ever, and adds
/// compute time through `after`. Without a loss both clocks are one, to the last bit.
struct LinkClock {
  double slow_until_s = 0;
  double loss = 0;

  /// Link time to seconds from the start of the iteration.
  [[nodiscard]] constexpr double seconds(double link_s) const {
    if (slow_until_s <= 0) return link_s;
    return link_s < (1 - loss) * slow_until_s ? link_s / (1 - loss) : link_s + loss * slow_until_s;
  }
  [[nodiscard]] constexpr double link_time(double seconds) const {
    if (slow_until_s <= 0) return seconds;
    return seconds < slow_until_s ? seconds * (1 - loss) : seconds - loss * slow_until_s;
  }
  /// The link time `compute_s` seconds after `link_s`.
  [[nodiscard]] constexpr double after(double link_s, double compute_s) const {
    return slow_until_s <= 0 ? link_s + compute_s : link_time(seconds(link_s) + compute_s);
  }
};

} // namespace sluice
