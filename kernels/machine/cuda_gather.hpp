// SPDX-License-Identifier: Apache-2.0
// cuda_gather: CopySegments as the kernel that gathers a link's small copies.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/world/cuda/gather.hpp"

#include "kernels/copy/copy_segments.hpp"
#include "kernels/lookup.hpp"

#include <algorithm>
#include <cstdint>
#include <span>

struct CUstream_st;

namespace sluice::kernels {

/// By packets. Rejected: bulk copies, which save registers and no time where the link is what binds, and of which it is
/// not known on every architecture that they take the host's memory. (bench/gpu has both.)
using GatherSegments = CopySegments<CopySegmentsConfig{.bulk = false}>;

/// A launch takes its list with it (`CopySegmentsParams::launched`). Rejected: a list in pinned memory, of which each
/// block of threads would read an entry across the link before it can ask for what the entry names, and which the host
/// may not write again before the launch is done; and its upload ahead of the launch, one more small copy.
///
/// Eight blocks: each has 32 KiB under way, half of the time, and what a link of 64 GB/s with two microseconds there
/// and back needs under way is 128 KiB. More would take SMs from the model and move nothing sooner.
[[nodiscard]] inline CopySegmentsParams gather_params(std::span<const GatheredCopy> copies) {
  static_assert(GatherKernel::most <= CopySegmentsParams::most_launched);
  SLUICE_ASSERT(copies.size() <= GatherKernel::most, "a launch's list");
  CopySegmentsParams params;
  for (const GatheredCopy& copy : copies) {
    params.launched[params.count++] = {copy.from, copy.to, copy.bytes};
    params.bytes = std::max(params.bytes, copy.bytes);
  }
  params.ctas = 8;
  return params;
}

/// On this GPU; `prepare_cuda_gather` first, once. What the driver refuses is its line.
[[nodiscard]] inline GatherKernel cuda_gather() {
  return {[](std::span<const GatheredCopy> copies, CUstream_st* stream) {
    return OnGpu::launch<GatherSegments>(gather_params(copies), stream);
  }};
}
[[nodiscard]] inline Status prepare_cuda_gather() { return OnGpu::prepare<GatherSegments>(); }

} // namespace sluice::kernels
