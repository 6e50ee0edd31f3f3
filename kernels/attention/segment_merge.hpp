// SPDX-License-Identifier: Apache-2.0
// SegmentMerge: merges the segments of a row into one softmax.
#pragma once

#include "kernels/device.hpp"

namespace sluice::kernels {

/// A row's softmax over some segments, running in ascending order: acc = acc 2^(old maximum - new) + segment
/// 2^(its maximum - new), from an `acc` of zeros with the maximum `lowest_score`. Folding segments and merging them
/// afterwards use the same operations, so the bits are the same.
struct SegmentMerge {
  float maximum;
  float keep;   ///< factor of the result so far
  float weight; ///< factor of the segment

  SLUICE_DEVICE static SegmentMerge of(float before, float segment) {
    const float maximum = larger(before, segment);
    return {maximum, exp2_fast(before - maximum), exp2_fast(segment - maximum)};
  }
  /// The factor of a row's merged values. One division for a row: one for each value had a slow path each, 2,000
  /// instructions in all.
  SLUICE_DEVICE static float part(float total) { return 1.0F / total; }
  SLUICE_DEVICE float operator()(float before, float segment) const { return fused(weight, segment, before * keep); }
};

} // namespace sluice::kernels
