// SPDX-License-Identifier: Apache-2.0
// ProductSegments: the fixed split of a product's inputs into segments, each with a sum of its own.
#pragma once

#include "kernels/device.hpp"

#include <algorithm>
#include <cstdint>

namespace sluice::kernels {

/// Cuts the sums of y = x W^T into segments of inputs, which start at fixed inputs. Each segment's sum starts at zero;
/// the segments' sums are added in ascending order. Whether a block computes one segment (the last block of a tile to
/// arrive adds them up) or all segments of its tile, the bits are the same. So blocks may be chosen by the number of
/// rows, and rows keep their bits.
///
/// Not checked: `partials` and `arrivals` belong to one launch at a time.
struct ProductSegments {
  int inputs = 0;            ///< of a segment, a multiple of 64; 0: all inputs are one segment
  int sms = 132;             ///< of the GPU (an H100's): affects only the choice of blocks
  float* partials = nullptr; ///< in device memory: sums of segments
  std::int64_t numbers = 0;  ///< room at `partials`: at least 2^14, a tile of 128 rows
  int* arrivals = nullptr;   ///< in device memory: zeros, and zeros again after each launch
  int most_arrivals = 0;     ///< room at `arrivals`: tiles whose segments are computed by different blocks

  friend bool operator==(const ProductSegments&, const ProductSegments&) = default;
};

/// ProductSegments::inputs of a matrix, as many segments as 33 to 64 rows need to fill a GPU: 128 blocks of 64 rows and
/// 128 outputs, since today's cards have 108 to 148 SMs. Depends on the matrix alone: a partition that depended on the
/// rows or the card would change a row's bits with its batch or its card. `outputs` are those of all matrices that are
/// multiplied by the same x, since neighbours may be one product or several. A segment has at least `least` inputs:
/// shorter ones would spend more time on starting and adding up than on products.
[[nodiscard]] constexpr int segment_inputs(std::int64_t outputs, std::int64_t inputs, int least = 512) {
  constexpr std::int64_t blocks = 128, tile_outputs = 128, multiple = 64;
  const std::int64_t tiles = std::max<std::int64_t>(1, (outputs + tile_outputs - 1) / tile_outputs);
  const std::int64_t segments = std::min((blocks + tiles - 1) / tiles, inputs / least);
  if (segments <= 1) return 0;
  const std::int64_t each = (inputs + segments - 1) / segments;
  return static_cast<int>((each + multiple - 1) / multiple * multiple);
}

} // namespace sluice::kernels
