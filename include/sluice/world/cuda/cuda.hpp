// SPDX-License-Identifier: Apache-2.0
// Cuda: the backend that computes real tokens on an NVIDIA GPU and moves real bytes between its memory and the host's.
#pragma once

#include "sluice/world/real/world.hpp"

namespace sluice {

/// One memory is the GPU's, the other pinned host memory; a stream for each way is the link. make_cuda_machine
/// (kernels/machine/cuda_machine.hpp) makes the world. Engines name this backend without CUDA's headers or library.
class Cuda : public RealBackend {
 public:
  using RealBackend::RealBackend;
};

static_assert(explain<Cuda>());

} // namespace sluice
