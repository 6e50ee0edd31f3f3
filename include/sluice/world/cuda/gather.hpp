// SPDX-License-Identifier: Apache-2.0
// GatherKernel, GatherBelow, gather_below: link copies so small that one kernel launch makes many of them faster than
// the copy engines.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/core/units.hpp"
#include "sluice/world/link/copy.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

struct CUstream_st; // a cudaStream_t points to one

namespace sluice {

/// A kernel that makes many copies in one launch; the caller provides it, because world/cuda has no kernels. The copies
/// go from device memory to pinned host memory or the other way, and may run in any order; addresses, bytes of a row
/// and strides are multiples of 16. `launch` has read the list when it returns.
struct GatherKernel {
  static constexpr std::size_t most = 64; ///< copies per launch
  /// With fewer copies, the launch would cost as much as the copies; smaller batches are not measured
  /// (cudart/measure_gather.hpp).
  static constexpr std::size_t least = 4;

  Status (*launch)(std::span<const Copy> copies, CUstream_st* stream) = nullptr;

  explicit operator bool() const { return launch != nullptr; }
};

/// The kernel makes copies of fewer bytes than this; 0: none.
struct GatherBelow {
  static constexpr std::int64_t all = std::numeric_limits<std::int64_t>::max();
  std::int64_t to_device = 0, to_host = 0;

  friend bool operator==(const GatherBelow&, const GatherBelow&) = default;
};

/// A threshold for each way, measured on this device.
struct GatherMeasured {
  GatherBelow below;
  Seconds took{0};
};

/// Times of a batch of copies of `bytes` each.
struct GatherTimes {
  std::int64_t bytes = 0;
  double by_driver_s = 0, by_kernel_s = 0; ///< above 0
};

/// Given times by growing size, the threshold from which the driver is as fast: the split that costs the least over all
/// sizes together. A size between two others is replaced by the median of the three, so that one disturbed measurement
/// changes nothing. The kernel must be 5 % faster, because it takes some SMs from the model, which copy engines do not.
/// If it is faster at every size, the threshold is just above the largest: longer copies were not measured, and they
/// suit the copy engines.
[[nodiscard]] inline std::int64_t gather_below(std::span<const GatherTimes> times) {
  constexpr double kernel_pays = 1.05;
  const auto ratio = [&times](std::size_t i) {
    SLUICE_ASSERT(times[i].by_driver_s > 0 && times[i].by_kernel_s > 0, "times");
    return times[i].by_driver_s / (kernel_pays * times[i].by_kernel_s);
  };
  const auto smooth = [&](std::size_t i) {
    if (i == 0 || i + 1 == times.size()) return ratio(i);
    const double before = ratio(i - 1), behind = ratio(i + 1);
    return std::clamp(ratio(i), std::min(before, behind), std::max(before, behind));
  };
  double won = 0, most = 0; // logarithms of the driver's time over the kernel's, summed so far
  std::int64_t below = 0;
  for (std::size_t i = 0; i < times.size(); ++i) {
    won += std::log(smooth(i));
    if (won <= most) continue;
    most = won;
    below = i + 1 < times.size() ? times[i + 1].bytes : times[i].bytes + 1;
  }
  return below;
}

} // namespace sluice
