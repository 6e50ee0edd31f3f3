// SPDX-License-Identifier: Apache-2.0
// SegmentMerge: how the segments of a row become one softmax, wherever that is done.
#pragma once

#include "kernels/device.hpp"

namespace sluice::kernels {

/// A row's softmax over some segments, running in ascending order: acc = acc 2^(old maximum - new) + segment
/// 2^(its maximum - new), from an `acc` of zeros with the maximum `lowest_score`. Both who folds segments and who
/// merges them afterwards do these operations, so that the bits are the same.
struct SegmentMerge {
  float maximum;
  float keep;   ///< factor of what has been merged
  float weight; ///< factor of the segment

  SLUICE_DEVICE static SegmentMerge of(float before, float segment) {
    const float maximum = larger(before, segment);
    return {maximum, exp2_fast(before - maximum), exp2_fast(segment - maximum)};
  }
  SLUICE_DEVICE float operator()(float before, float segment) const { return fused(weight, segment, before * keep); }
};

} // namespace sluice::kernels
