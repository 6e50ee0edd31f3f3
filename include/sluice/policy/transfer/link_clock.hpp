// SPDX-License-Identifier: Apache-2.0
// LinkClock: converts between seconds and the clock of a link that slows down for the other lane or other engines.
#pragma once

#include <cstddef>
#include <limits>
#include <span>

namespace sluice {

/// From `from_s` on, in seconds from the start of the iteration, the lane to the device has `share` of its rate, above
/// 0 and at most 1: other engines on the same bus have the others.
struct LinkSpell {
  double from_s = 0;
  double share = 1;

  friend constexpr bool operator==(const LinkSpell&, const LinkSpell&) = default;
};

/// The rules compute in link time, in which the link always moves one second's blocks per second. While the other lane
/// is active, from the start of the iteration until `slow_until_s`, the link loses the share `loss`; in each of
/// `spells` it has a share of the bus. Then its clock runs slow, and a layer's compute takes less link time. So a rule
/// moves blocks as usual, and adds compute time through `after`. Without loss and spells both clocks are equal to the
/// last bit.
struct LinkClock {
  double slow_until_s = 0;
  double loss = 0;
  std::span<const LinkSpell> spells{}; ///< ascending by `from_s`; before the first, the lane has its full rate

  /// Converts link time to seconds from the start of the iteration.
  [[nodiscard]] constexpr double seconds(double link_s) const {
    if (!spells.empty()) return walk<true>(link_s);
    if (slow_until_s <= 0) return link_s;
    return link_s < (1 - loss) * slow_until_s ? link_s / (1 - loss) : link_s + loss * slow_until_s;
  }
  [[nodiscard]] constexpr double link_time(double seconds) const {
    if (!spells.empty()) return walk<false>(seconds);
    if (slow_until_s <= 0) return seconds;
    return seconds < slow_until_s ? seconds * (1 - loss) : seconds - loss * slow_until_s;
  }
  /// The link time `compute_s` seconds after `link_s`.
  [[nodiscard]] constexpr double after(double link_s, double compute_s) const {
    if (spells.empty() && slow_until_s <= 0) return link_s + compute_s;
    return link_time(seconds(link_s) + compute_s);
  }

 private:
  /// Converts one clock to the other, from the start on; `ToSeconds` says which. Rates change with each spell and at
  /// `slow_until_s`. Times before the start are converted at the initial rate.
  template <bool ToSeconds>
  [[nodiscard]] constexpr double walk(double wanted) const {
    double at_s = 0;
    double link_s = 0;
    double share = 1;
    for (std::size_t next = 0;;) {
      for (; next < spells.size() && spells[next].from_s <= at_s; ++next) share = spells[next].share;
      const bool slow = at_s < slow_until_s;
      const double rate = slow ? share * (1 - loss) : share;
      double until_s = next < spells.size() ? spells[next].from_s : std::numeric_limits<double>::infinity();
      if (slow && slow_until_s < until_s) until_s = slow_until_s;
      if constexpr (ToSeconds) {
        if (link_s + (until_s - at_s) * rate >= wanted) return at_s + (wanted - link_s) / rate;
      } else {
        if (until_s >= wanted) return link_s + (wanted - at_s) * rate;
      }
      link_s += (until_s - at_s) * rate;
      at_s = until_s;
    }
  }
};

} // namespace sluice
