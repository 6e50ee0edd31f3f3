// SPDX-License-Identifier: Apache-2.0
// GatherKernel, gather_below: copies so small that one launch makes them. CopyBatch: copies that one call can give.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/core/units.hpp"
#include "sluice/world/link/copy.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>

// GatherKernel, GatherBelow, gather_below: link copies so small that one kernel launch makes many of them faster than
// the copy engines.
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

// CopyBatch: copies of one stream that may run in any order, so that one call can give them to the driver.

/// Adjacent copies are not merged: neighbours may lie in two allocations, and a CUDA copy may not span two.
///
/// A driver orders nothing within a batch, while a stream orders everything it is given. So a batch takes no copy that
/// writes what another one reads or writes, or reads what another one writes; of a copy of several rows, the bytes
/// between the rows count too. (Example: a block that is fetched, dropped as clean, and taken for the next fetch.)
class CopyBatch {
 public:
  static constexpr std::size_t most = 128; ///< copies: the number of comparisons grows quadratically

  [[nodiscard]] std::span<const Copy> copies() const { return {copies_.data(), size_}; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  void clear() { size_ = 0; }

  /// Returns false, and leaves the batch unchanged, if the copy has to come after one in the batch.
  [[nodiscard]] bool take(const Copy& copy) {
    SLUICE_ASSERT(copy.rows > 0 && copy.bytes > 0, "something to copy");
    for (const Copy& one : copies())
      if (overlap(one.to, to_bytes(one), copy.to, to_bytes(copy)) ||
          overlap(one.to, to_bytes(one), copy.from, from_bytes(copy)) ||
          overlap(one.from, from_bytes(one), copy.to, to_bytes(copy)))
        return false;
    if (size_ == most) return false;
    copies_[size_++] = copy;
    return true;
  }
  /// Removes the copies for which `wanted(copy)` is true, and passes each to `give`.
  template <class Wanted, class Give>
  void take_out(const Wanted& wanted, const Give& give) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < size_; ++i) {
      if (wanted(copies_[i]))
        give(copies_[i]);
      else
        copies_[kept++] = copies_[i];
    }
    size_ = kept;
  }

 private:
  /// From the first byte to the last.
  [[nodiscard]] static std::int64_t to_bytes(const Copy& copy) { return (copy.rows - 1) * copy.to_stride + copy.bytes; }
  [[nodiscard]] static std::int64_t from_bytes(const Copy& copy) {
    return (copy.rows - 1) * copy.from_stride + copy.bytes;
  }
  [[nodiscard]] static bool overlap(const std::byte* one, std::int64_t one_bytes, const std::byte* other,
                                    std::int64_t other_bytes) {
    const std::less<> less; // for pointers into different memories
    return less(one, other + other_bytes) && less(other, one + one_bytes);
  }

  std::array<Copy, most> copies_{};
  std::size_t size_ = 0;
};

} // namespace sluice
