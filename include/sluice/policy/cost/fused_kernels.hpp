// SPDX-License-Identifier: Apache-2.0
// Fused kernels: how long rebuilding takes together with a layer's own work, in one kernel or one after the other.
#pragma once

#include <algorithm>
#include <cstdint>

namespace sluice {

/// How rebuilding K and V shares the device with the decoding layer.
enum class Rebuilding : std::uint8_t {
  fused,      ///< one kernel whose thread blocks are split between both (eLLM, section 4.3.2)
  one_by_one, ///< one after the other (eLLM without kernel fusion, section 6.3)
};

/// A kernel's roofline: seconds of its FLOPs and of its bytes at the device's rates.
struct KernelTime {
  double compute_s = 0;
  double memory_s = 0;

  [[nodiscard]] constexpr double alone() const { return std::max(compute_s, memory_s); }
};

inline constexpr int warp_threads = 32;
inline constexpr int most_block_threads = 1024;

/// How many of a fused kernel's `block` threads rebuild: in the ratio of the two volumes, rounded down to whole warps,
/// and at least one warp for each side (eLLM, section 4.3.2). Volumes are FLOPs, or anything proportional to them.
[[nodiscard]] constexpr int rebuilding_threads(double rebuilt_volume, double decoded_volume,
                                               int block = most_block_threads) {
  const double volume = rebuilt_volume + decoded_volume;
  const double share = volume > 0 ? rebuilt_volume / volume : 0.0;
  return std::clamp(static_cast<int>(share * block) / warp_threads * warp_threads, warp_threads, block - warp_threads);
}

/// Seconds of a layer's own two kernels fused with `rebuild`. Each side computes at its share of the threads; both draw
/// on one memory. The faster of the two splits next to the volumes' ratio counts: if whole warps were always rounded
/// the same way, more work could end sooner. A fused kernel is never faster than the layer alone, and is not used if it
/// would be slower than one kernel after the other.
[[nodiscard]] constexpr double fused_seconds(const KernelTime& rebuild, const KernelTime& linear,
                                             const KernelTime& attending) {
  const double own_s = linear.compute_s + attending.compute_s;
  const double memory_s = rebuild.memory_s + linear.memory_s + attending.memory_s;
  const int threads = rebuilding_threads(rebuild.compute_s, own_s);
  const auto split_s = [&](int rebuilding) {
    const double share = static_cast<double>(rebuilding) / most_block_threads;
    return std::max(rebuild.compute_s / share, own_s / (1.0 - share));
  };
  const double compute_s =
      std::min(split_s(threads), split_s(std::min(threads + warp_threads, most_block_threads - warp_threads)));
  return std::max({compute_s, memory_s, linear.alone() + attending.alone()});
}

/// The time of a layer that also rebuilds.
[[nodiscard]] constexpr double async(const KernelTime& rebuild, const KernelTime& linear, const KernelTime& attending,
                                     Rebuilding how) {
  const double one_by_one = rebuild.alone() + linear.alone() + attending.alone();
  return how == Rebuilding::fused ? std::min(one_by_one, fused_seconds(rebuild, linear, attending)) : one_by_one;
}

} // namespace sluice
