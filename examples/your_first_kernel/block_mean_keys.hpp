// SPDX-License-Identifier: Apache-2.0
// BlockMeanKeys: the mean key of every KV block. A policy can rank its offloaded blocks by how well their mean keys
// match a query, and fetch the best ones.
#pragma once

#include "kernels/cta.hpp"

namespace example {

using namespace sluice::kernels;

struct BlockMeanKeysConfig {
  sluice::ElementType element = sluice::ElementType::bf16;
  int head_dim = 128;
};

struct BlockMeanKeysParams {
  const void* const* blocks; ///< [count]: each K, then V, of [heads][block_tokens][head_dim] elements
  const int* tokens;         ///< [count]: number of computed tokens in each block, at least 1
  float* means;              ///< [count][heads][head_dim]
  int count, heads, block_tokens;
};

template <BlockMeanKeysConfig config>
struct BlockMeanKeys {
  using Params = BlockMeanKeysParams;
  using T = ElementOf<config.element>;
  static constexpr int warps = 4, dim = config.head_dim;
  static constexpr int threads = warps * warp_lanes, ctas_per_sm = 8;
  struct Shared {
    SharedArray<float, warps * dim> sums; // [warp][head_dim]
  };

  static Grid grid(const Params& params) { return {params.count, params.heads}; }

  template <Cta C>
  SLUICE_DEVICE static void run(const C& cta, Shared& shared, const Params& params) {
    const int block = cta.block_x(), head = cta.block_y(), tokens = params.tokens[block];
    const T* keys = static_cast<const T*>(params.blocks[block]) + head * params.block_tokens * dim;
    for (int i = cta.lane(); i < dim; i += warp_lanes) { // each warp sums every fourth token
      float sum = 0;
      for (int token = cta.warp(); token < tokens; token += warps) sum += widen(keys[token * dim + i]);
      shared.sums[cta.warp() * dim + i] = sum;
    }
    cta.sync(); // the other warps have written their sums
    for (int i = cta.thread(); i < dim; i += threads) {
      float sum = 0; // in the order of the warps, so that a mean's bits do not depend on their timing
      for (int warp = 0; warp < warps; ++warp) sum += shared.sums[warp * dim + i];
      params.means[(block * params.heads + head) * dim + i] = sum / static_cast<float>(tokens);
    }
  }
};

} // namespace example
