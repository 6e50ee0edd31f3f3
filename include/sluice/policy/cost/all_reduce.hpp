// SPDX-License-Identifier: Apache-2.0
// AllReduce: how long the devices of a group take to add up their partial sums.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/model/device/device.hpp"
#include "sluice/policy/cost/measured_grid.hpp"

#include <utility>

namespace sluice {

/// The sum of `bytes` over `degree` devices, available on all of them afterwards; timed by the link's rates as a ring,
/// or as measured.
///
/// On the ring the message goes in `degree` parts, around once to be summed and once more to be distributed: 2(p-1)
/// steps, in each of which every device sends one part and receives another. So it takes launch + 2(p-1) (step + bytes
/// / p / rate); large messages move 2(p-1)/p of their bytes at the rate (Patarasuk and Yuan, "Bandwidth optimal
/// all-reduce algorithms", JPDC 2009).
class AllReduce {
 public:
  /// A group of one device: takes no time.
  AllReduce() = default;
  AllReduce(const PeerLink& link, int degree) : link_(link), degree_(degree) {
    SLUICE_ASSERT(degree >= 1 && link.rate.count() > 0, "devices, and a positive rate between them");
  }
  /// `seconds` as a function of bytes, measured with `degree` devices.
  AllReduce(MeasuredLine seconds, PeerPath path, int degree)
      : degree_(degree), is_measured_(true), measured_(std::move(seconds)) {
    SLUICE_ASSERT(degree >= 1, "devices");
    link_.path = path;
  }

  [[nodiscard]] Seconds seconds(double bytes) const {
    if (degree_ == 1 || bytes <= 0) return Seconds{0};
    if (is_measured_) return Seconds{measured_.at(bytes)};
    const double part_s = bytes / degree_ / link_.rate.count();
    return link_.launch + (link_.step + Seconds{part_s}) * (2.0 * (degree_ - 1));
  }
  /// Time to gather each device's part: the second round of the ring.
  [[nodiscard]] Seconds gather_seconds(double bytes) const {
    if (degree_ == 1 || bytes <= 0) return Seconds{0};
    return (seconds(bytes) + link_.launch) * 0.5;
  }

  [[nodiscard]] int degree() const { return degree_; }
  /// Whether it shares the link with transfers between host and device.
  [[nodiscard]] bool over_host_link() const { return degree_ > 1 && link_.path == PeerPath::host; }

 private:
  PeerLink link_;
  int degree_ = 1;
  bool is_measured_ = false;
  MeasuredLine measured_;
};

} // namespace sluice
