// SPDX-License-Identifier: Apache-2.0
// sample_way: converts the arguments of the host's sampler to Sample's parameters for a row.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/model/decoder/sampler.hpp"

#include "kernels/sample/sample.hpp"

namespace sluice::kernels {

/// For the token at `position` of `sequence`: with it `Sample` chooses the same token as `sluice::sample`.
[[nodiscard]] inline SampleWay sample_way(const Sampling& sampling, std::uint64_t sequence, std::int64_t position) {
  SLUICE_ASSERT(check(sampling).ok(), "a valid Sampling");
  if (!(sampling.temperature > 0)) return {};
  return {sampling_scale(sampling.temperature), sampling_share(sampling.top_p),
          sluice::detail::sampling_draw(sampling.seed, sequence, position), sampling.top_k};
}

} // namespace sluice::kernels
