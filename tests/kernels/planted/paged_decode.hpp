// SPDX-License-Identifier: Apache-2.0
// PagedDecode: attention of one token of each sequence over paged K and V; a block copies its pages one ahead.
#pragma once

#include "kernels/cta.hpp"
#include "kernels/device.hpp"
#include "kernels/planted/bug.hpp"

#include <cstdint>

namespace planted {

using namespace sluice::kernels;

struct PagedDecodeParams {
  const float* query;         // [sequence][dim]
  const float* const* blocks; // for each page K then V, [page][dim]
  const int* first_block;     // of each sequence, in `blocks`
  const int* tokens;          // of each sequence
  float* out;                 // [sequence][dim]
};

/// A block handles a sequence, and a page is a block of the block table. A warp computes the scores of half of a page's
/// tokens; a thread computes one dimension of the values of one half.
template <Bug bug>
struct PagedDecode {
  static constexpr int dim = 32, page = 16, halves = 2, threads = dim * halves, ctas_per_sm = 1;
  using Params = PagedDecodeParams;
  struct Page {
    SharedArray<Packet<float>, page * dim / 4> k, v;
  };
  struct Shared {
    Page pages[2];
    SharedArray<float, dim> query;
    SharedArray<float, page> scores;
    SharedArray<float, threads> parts;
  };

  template <AsyncCopyCta C>
  SLUICE_DEVICE static void fetch(const C& cta, Page& into, const float* block, int there) {
    for (int at = cta.thread(); at < page * dim / 4; at += threads) {
      const bool wanted = at < there * dim / 4;
      cta.copy_async(&into.k[at], block + at * 4, wanted);
      cta.copy_async(&into.v[at], block + page * dim + at * 4, wanted);
    }
  }
  SLUICE_DEVICE static float number(const SharedArray<Packet<float>, page * dim / 4>& of, int token, int d) {
    return of[(token * dim + d) / 4].of[d % 4];
  }

  template <AsyncCopyCta C>
  SLUICE_DEVICE static void run(const C& cta, Shared& shared, const Params& params) {
    const int sequence = cta.block_x(), thread = cta.thread(), lane = cta.lane(), half = cta.warp();
    const int length = params.tokens[sequence], pages_of_it = pieces(length, page);
    const float* const* const blocks = params.blocks + params.first_block[sequence];
    const auto block = [&](int p) {
      return bug == Bug::wrong_page_order ? blocks[p ^ (p + 1 < pages_of_it)] : blocks[p];
    };

    if (thread < dim || bug == Bug::out_of_bounds) {
      const volatile float* const query = params.query; // an unused load is still a load
      const float one = query[sequence * dim + thread]; // out_of_bounds
      if (thread < dim) shared.query[thread] = one;
    }
    if (pages_of_it > 0) fetch(cta, shared.pages[0], block(0), length);
    cta.commit();

    float maximum = lowest_score, total = 0, value = 0;
    for (int p = 0; p < pages_of_it; ++p) {
      const int left = length - p * page;
      if constexpr (bug != Bug::missing_barrier_before_reuse) cta.sync(); // all have read the overwritten page
      if (p + 1 < pages_of_it) fetch(cta, shared.pages[(p + 1) % 2], block(p + 1), left - page);
      cta.commit();
      if constexpr (bug != Bug::missing_wait) cta.template wait<1>();
      if constexpr (bug != Bug::missing_barrier_after_arrival) cta.sync(); // all copies have landed
      const Page& here = shared.pages[p % 2];

      for (int token = half * page / 2; token < (half + 1) * page / 2; ++token) {
        float score = shared.query[lane] * number(here.k, token, lane); // missing_wait, missing_barrier_after_arrival
        for (int with = dim / 2; with > 0; with /= 2) {
          const std::uint32_t lanes = bug == Bug::wrong_mask ? 0xffffU << (lane & 16) : full_warp;
          score += cta.shuffle_xor(score, with, lanes); // wrong_mask
        }
        const bool there = bug == Bug::tail_off_by_one ? token <= left : token < left;
        if (lane == 0 && (there || bug != Bug::uninitialised_shared_memory))
          shared.scores[token] = there ? score : lowest_score;
      }
      cta.sync();
      float now = maximum;
      for (int token = 0; token < page; ++token) now = larger(now, shared.scores[token]);
      const float keep = exp2_fast(maximum - now);
      maximum = now;
      total *= keep;
      value *= keep;
      for (int token = 0; token < page; ++token) {
        const float weight = shared.scores[token] > lowest_score ? exp2_fast(shared.scores[token] - now) : 0.0F;
        total += weight;
        if (token / (page / 2) == half)
          value = fused(weight, number(here.v, token, lane), value); // missing_barrier_before_reuse
      }
    }
    cta.template wait<0>();
    shared.parts[thread] = value;
    cta.sync();
    if (thread < dim) {
      const float sum = shared.parts[thread] + shared.parts[dim + thread];
      params.out[sequence * dim + thread] = total > 0 ? sum / total : 0.0F;
    }
  }
};

} // namespace planted
