// SPDX-License-Identifier: Apache-2.0
// GatherKernel, GatherBelow, gather_below: copies across the link that are so small that one launch of a kernel makes
// many of them sooner than copy engines do.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/core/units.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

struct CUstream_st; // a cudaStream_t points to one

namespace sluice {

/// One run of bytes. Both ends are at multiples of 16 bytes, and so is the length.
struct GatheredCopy {
  const void* from = nullptr;
  void* to = nullptr;
  std::int64_t bytes = 0;
};

/// A kernel that makes many copies in one launch, from whoever has kernels: backend/cuda has none. The copies go from
/// memory of the device to pinned memory of the host, or the other way, and may be made in any order; `launch` has read
/// the list when it returns.
struct GatherKernel {
  static constexpr std::size_t most = 64; ///< copies of a launch
  /// With fewer the launch would cost what the copies do, and fewer are not measured (cudart/measure_gather.hpp).
  static constexpr std::size_t least = 4;

  Status (*launch)(std::span<const GatheredCopy> copies, CUstream_st* stream) = nullptr;

  explicit operator bool() const { return launch != nullptr; }
};

/// Copies of fewer bytes than this are the kernel's; 0: none.
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

/// What a batch of copies of so many bytes each took.
struct GatherTimes {
  std::int64_t bytes = 0;
  double by_driver_s = 0, by_kernel_s = 0; ///< above 0
};

/// From times by growing size, the threshold from which on the driver is as fast: the split that costs the least over
/// all sizes together. A size between two others counts as the middle one of the three, so that what was measured in a
/// bad moment moves nothing. The kernel has to be a twentieth faster, for it takes some SMs from the model, which copy
/// engines do not. Where it is that at every size, the threshold is just above the largest: of longer copies nothing is
/// known, and they suit the copy engines.
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
  double won = 0, most = 0; // logarithms of how many times as long the driver takes, summed up to here
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
