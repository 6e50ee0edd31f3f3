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

using GatherSegments = CopySegments<CopySegmentsConfig{}>;

/// A launch carries its list (`CopySegmentsParams::launched`). Rejected: a list in pinned memory, from which each
/// thread block would read an entry across the link before it could request the segment, and which the host could not
/// overwrite until the launch is done; and uploading the list before the launch, which is one more small copy.
///
/// Eight blocks: each has 32 KiB in flight half of the time, and a link of 64 GB/s with a round trip of two
/// microseconds needs 128 KiB in flight. More blocks would take SMs from the model and move nothing sooner.
[[nodiscard]] inline CopySegmentsParams gather_params(std::span<const Copy> copies) {
  static_assert(GatherKernel::most <= CopySegmentsParams::most_launched);
  SLUICE_ASSERT(copies.size() <= GatherKernel::most, "a launch's list");
  CopySegmentsParams params;
  for (const Copy& copy : copies) {
    params.launched[params.count++] = {copy.from, copy.to, copy.bytes, copy.rows, copy.from_stride, copy.to_stride};
    params.longest = std::max(params.longest, copy.total());
  }
  params.ctas = 8;
  return params;
}

/// For this GPU; call `prepare_cuda_gather` once before. A refusal by the driver is returned as an error.
[[nodiscard]] inline GatherKernel cuda_gather() {
  return {[](std::span<const Copy> copies, CUstream_st* stream) {
    return OnGpu::launch<GatherSegments>(gather_params(copies), stream);
  }};
}
[[nodiscard]] inline Status prepare_cuda_gather() { return OnGpu::prepare<GatherSegments>(); }

} // namespace sluice::kernels
