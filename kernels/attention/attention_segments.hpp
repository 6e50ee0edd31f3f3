// SPDX-License-Identifier: Apache-2.0
// AttentionSegments: the positions at which a row's softmax is cut into segments.
#pragma once

#include "kernels/device.hpp"

namespace sluice::kernels {

/// Each segment of a sequence's tokens has a softmax of its own, which starts empty; a row's segments are merged in
/// ascending order. The cuts are a function of the position alone, so that a row keeps its bits in any batch. A plan
/// chooses how many consecutive segments a thread block attends to, which changes no bit.
///
/// The first 2048 tokens are cut every 256, so that eight sequences of 1024 tokens and eight KV heads are 256 blocks
/// (cuts every 512 left a block for each SM of an H100, and one warp does not keep an SM's share of memory busy). Later
/// tokens are cut every 512, since sequences that long have enough segments. Each cut costs a prompt a read and a write
/// of its running sums, mostly in shared memory, and a split row a write and a read of head_dim + 2 numbers: with four
/// heads in a group and 256 tokens, 3 % of the bytes of K and V.
struct AttentionSegments {
  static constexpr int short_tokens = 256, long_tokens = 512;
  static constexpr int long_from = 2048; ///< a multiple of both
  static constexpr int shorts = long_from / short_tokens;

  /// The segment of the token at `position`.
  [[nodiscard]] SLUICE_HOST_DEVICE static constexpr int of(int position) {
    return position < long_from ? position / short_tokens : position / long_tokens + (shorts - long_from / long_tokens);
  }
  /// The position of a segment's first token.
  [[nodiscard]] SLUICE_HOST_DEVICE static constexpr int begin(int segment) {
    return segment < shorts ? segment * short_tokens : (segment - (shorts - long_from / long_tokens)) * long_tokens;
  }
};

} // namespace sluice::kernels
