// SPDX-License-Identifier: Apache-2.0
// Cuda: the backend that computes real tokens on an NVIDIA GPU and moves real bytes between its memory and the host's.
#pragma once

#include "sluice/backend/machine/real_backend.hpp"

namespace sluice {

/// One memory is the GPU's, the other pinned memory of the host, and a stream for each way is the link: the world is
/// made by make_cuda_machine (kernels/machine/cuda_machine.hpp). An engine names the backend without CUDA's headers or
/// library.
class Cuda : public RealBackend {
 public:
  using RealBackend::RealBackend;
};

static_assert(explain<Cuda>());

} // namespace sluice
